// Whether a backup is what was written, piece by piece. Invariant: each piece and extent that it
// names is read and compared, and each that is missing, cut or altered is named.
import { IntegrityError } from '../core/errors.ts';
import { inParallel } from '../core/in-parallel.ts';
import { placedExtent, readExtentLists, readListed } from './extents.ts';
import type { Manifest, PiecedFile } from './manifest.ts';
import { type PieceSealer, PieceStore, placedPiece, sealedBytesOf } from './pieces.ts';
import type { BackupPlace } from './place.ts';

export interface Fault {
  /** Its name in the place. */
  name: string;
  what: 'missing' | 'cut' | 'altered';
  /** What it is a part of. */
  of: string;
}

export interface VerifyReport {
  id: string;
  pieces: number;
  bytes: number;
  extents: number;
  extentBytes: number;
  /** The first 1,000. */
  faults: Fault[];
  faultCount: number;
}

const faultsMax = 1000;
const readsAtOnce = 8;

/**
 * Bytes of extents are compared with their digests; their chunks' own tags are
 * `bursar verify data`'s.
 */
export async function verifyBackup(
  place: BackupPlace,
  sealer: PieceSealer,
  manifest: Manifest,
  onProgress: (step: string, done: number) => void,
): Promise<VerifyReport> {
  const report: VerifyReport = {
    id: manifest.id,
    ...{ pieces: 0, bytes: 0, extents: 0, extentBytes: 0 },
    ...{ faults: [], faultCount: 0 },
  };
  const check = new Check(place, sealer, report);
  await check.file('the database', manifest.database);
  onProgress('reading pieces', report.pieces);
  for (const [name, file] of Object.entries(manifest.files)) await check.file(name, file);
  if (manifest.extents) {
    await check.extents(manifest.extents.lists, (done) => onProgress('reading extents', done));
  }
  return report;
}

class Check {
  readonly #place: BackupPlace;
  readonly #pieces: PieceStore;
  readonly #report: VerifyReport;
  /** Pieces that were read already: a file of zeros has one of them many times. */
  readonly #read = new Set<string>();

  constructor(place: BackupPlace, sealer: PieceSealer, report: VerifyReport) {
    this.#place = place;
    this.#pieces = PieceStore.open(place, sealer);
    this.#report = report;
  }

  async file(of: string, { lists, sizeBytes }: PiecedFile): Promise<void> {
    let bytes = 0;
    let isWhole = true;
    for (const list of lists) {
      const names = await this.#list(list, of);
      if (!names) isWhole = false;
      await inParallel(names ?? [], readsAtOnce, async (name) => {
        const length = await this.#piece(name, of);
        if (length === null) isWhole = false;
        else bytes += length;
      });
    }
    if (isWhole && bytes !== sizeBytes) this.#fault({ name: of, what: 'altered', of });
  }

  async extents(lists: readonly string[], onProgress: (done: number) => void): Promise<void> {
    const of = 'the list of extents';
    for (const list of lists) {
      if ((await this.#piece(list, of)) === null) continue;
      const listed = readExtentLists(this.#pieces, [list]);
      await inParallel(listed, readsAtOnce, async (extent) => {
        onProgress(++this.#report.extents);
        this.#report.extentBytes += extent.sizeBytes;
        try {
          await readListed(this.#place, extent);
        } catch (error) {
          if (!(error instanceof IntegrityError)) throw error;
          const { kind } = error;
          const what = kind === 'missing' ? kind : kind === 'length' ? 'cut' : 'altered';
          this.#fault({ name: placedExtent(extent.id), what, of: 'an extent' });
        }
      });
    }
  }

  async #list(name: string, of: string): Promise<string[] | null> {
    if ((await this.#piece(name, `the list of ${of}`)) === null) return null;
    return this.#pieces.getNames(name);
  }

  /** Its length; null: something is wrong with it. */
  async #piece(name: string, of: string): Promise<number | null> {
    try {
      const plain = await this.#pieces.get(name);
      if (!this.#read.has(name)) {
        this.#read.add(name);
        this.#report.pieces++;
        this.#report.bytes += sealedBytesOf(plain.length);
      }
      return plain.length;
    } catch (error) {
      if (!(error instanceof IntegrityError)) throw error;
      const what = error.kind === 'missing' ? 'missing' : 'altered';
      this.#fault({ name: placedPiece(name), what, of });
      return null;
    }
  }

  #fault(fault: Fault): void {
    if (this.#report.faultCount++ < faultsMax) this.#report.faults.push(fault);
  }
}
