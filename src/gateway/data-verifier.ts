// Reads stored data as a client would, to find what is damaged before a client does
// (docs/admin/verify-data.md). It goes on in slices, each bounded in time, rows and bytes; where
// the next one begins is the caller's to keep. Invariants: one slice at a time in the process, and
// requests get their turn after every chunk, so that verifying never holds up serving; and what is
// deleted while it is being read is no finding.
import { setImmediate } from 'node:timers/promises';
import { readInlineBody } from '../catalog/extents.ts';
import {
  findNextRow,
  findScrubBucket,
  isExtentAlive,
  isUnchanged,
  readScrubRow,
  type ScrubBucket,
  type ScrubPlace,
  type ScrubRow,
  type ScrubScope,
} from '../catalog/scrub.ts';
import { monotonicMs } from '../core/clock.ts';
import { IntegrityError, Refusal } from '../core/errors.ts';
import {
  countBytes,
  decodeManifest,
  type ExtentRun,
  inlineStore,
  sliceRuns,
} from '../core/manifest.ts';
import { mayHaveCopies } from '../tiering/extent-copies.ts';
import type { RequestServices } from './services.ts';

/** A row, and where in it the next slice begins: null when all of it is verified. */
export interface VerifyPosition {
  place: ScrubPlace;
  offsetBytes: number | null;
}

export interface Finding {
  bucket: ScrubBucket;
  place: ScrubPlace;
  error: IntegrityError;
  /** No store has it any more, which is recorded, and its class allows. */
  isLost: boolean;
}

export interface VerifiedSlice {
  /** Null: the walk is at its end. */
  position: VerifyPosition | null;
  /** Versions and parts that were finished in this slice. */
  rows: number;
  /** Bytes of objects that were read. */
  bytes: number;
  findings: Finding[];
}

export interface VerifyRequest {
  scope: ScrubScope;
  /** Where the slice before ended; null: at the beginning. */
  position: VerifyPosition | null;
  bytesMax: number;
}

export type VerifierServices = Pick<
  RequestServices,
  'read' | 'keyring' | 'reader' | 'leases' | 'copies'
> & { losses: Pick<RequestServices['losses'], 'explainPlace' | 'noteWhole'> };

const sliceMsMax = 2000;
const sliceRowsMax = 1000;
const sliceFindingsMax = 100;

export class DataVerifier {
  readonly #services: VerifierServices;
  #last: Promise<unknown> = Promise.resolve();

  readonly #isOpen: (store: number) => boolean;

  /** `isOpen`: whether what is in a store can be read; else it is passed over. */
  constructor(services: VerifierServices, isOpen: (store: number) => boolean = () => true) {
    this.#services = services;
    this.#isOpen = isOpen;
  }

  /**
   * Verifies from `position` on, for about two seconds once its turn has come. Throws `Refusal`
   * when a store cannot be read now, which says nothing of the data in it.
   */
  verify(request: VerifyRequest): Promise<VerifiedSlice> {
    const verified = this.#last.then(() => this.#verifySlice(request));
    this.#last = verified.catch(() => null);
    return verified;
  }

  async #verifySlice({ scope, position, bytesMax }: VerifyRequest): Promise<VerifiedSlice> {
    const slice = new Slice(bytesMax);
    let at = position;
    do {
      await setImmediate();
      at = await this.#verifyNext(scope, at, slice);
    } while (at && !slice.isFull);
    const { rows, bytes, findings } = slice;
    return { position: at, rows, bytes, findings };
  }

  /** Verifies the rest of a row that was begun, or the next one; gives how far it came. */
  async #verifyNext(
    scope: ScrubScope,
    at: VerifyPosition | null,
    slice: Slice,
  ): Promise<VerifyPosition | null> {
    const { read } = this.#services;
    const begun = at?.offsetBytes ?? 0;
    const found =
      at && at.offsetBytes !== null
        ? { place: at.place, bucket: await findScrubBucket(read, scope, at.place.bucketId) }
        : await findNextRow(read, scope, at?.place ?? null);
    if (!found) return null;
    const { bucket, place } = found;
    if (!bucket) return { place, offsetBytes: null };
    let row: ScrubRow | undefined;
    try {
      row = await readScrubRow(this.#services, bucket, place);
      if (!row) return { place, offsetBytes: null };
      const offsetBytes = await this.#verifyRow(bucket, row, begun, slice);
      if (offsetBytes < row.sizeBytes) return { place, offsetBytes };
      if (!('uploadId' in place)) await this.#services.losses.noteWhole(place);
    } catch (error) {
      if (!(error instanceof IntegrityError)) throw error;
      const isDamage = !row || (await isUnchanged(read, place, row));
      const isLost = isDamage && (await this.#isLost(place, error));
      if (isDamage) slice.findings.push({ bucket, place, error, isLost });
    }
    slice.rows++;
    return { place, offsetBytes: null };
  }

  /** Whether what was found damaged is lost. Throws `Refusal` where nobody knows that now. */
  async #isLost(place: ScrubPlace, error: IntegrityError): Promise<boolean> {
    if ('uploadId' in place) return false;
    const told = await this.#services.losses.explainPlace(place, error);
    if (told === error) return false;
    if (told instanceof Refusal && told.code === 'BursarObjectLost') return true;
    throw told;
  }

  /** Gives the offset in the object up to which it is verified. */
  async #verifyRow(
    { tenant }: ScrubBucket,
    row: ScrubRow,
    begun: number,
    slice: Slice,
  ): Promise<number> {
    const runs = decodeManifest(row.manifest);
    if (countBytes(runs) !== row.sizeBytes) {
      throw new IntegrityError(`${row.sizeBytes} bytes have extents of other lengths`);
    }
    let offsetBytes = begun;
    for (const run of sliceRuns(runs, begun, row.sizeBytes)) {
      if (slice.isFull) break;
      offsetBytes += await this.#verifyRun(tenant, run, slice);
    }
    return offsetBytes;
  }

  /** Gives the bytes that were verified: all of the run's, unless the slice is full. */
  async #verifyRun(tenant: string, run: ExtentRun, slice: Slice): Promise<number> {
    const { read, leases, copies } = this.#services;
    if (!(await isExtentAlive(read, run))) {
      const message = `extent ${run.id.toString('hex')} is not alive in the catalog`;
      throw new IntegrityError(message, { kind: 'missing', store: run.store });
    }
    const release = leases.hold([run]);
    try {
      const stores = mayHaveCopies(run) ? await copies.list(run.id) : [];
      if (stores.length > 0) return await this.#verifyCopies(tenant, run, stores, slice);
      if (!this.#mayRead(run)) return run.length;
      if (await this.#isShut(run)) return run.length;
      return await this.#readRun(tenant, run, slice);
    } finally {
      release();
    }
  }

  /**
   * Whether it is in an archive and not restored: then it is as long as it was, and that is all
   * that can be known. Throws IntegrityError where it is not.
   */
  async #isShut(run: ExtentRun): Promise<boolean> {
    const { reader } = this.#services;
    const archive = reader.archiveOf(run);
    return archive !== undefined && (await reader.lookAt(archive, run)) !== 'there';
  }

  #mayRead({ store }: ExtentRun): boolean {
    return store === inlineStore || this.#isOpen(store);
  }

  /**
   * Each copy in turn, all of the run: one that is false is suspect, and a finding only where no
   * other has what was written. What is in a store that does not answer says nothing.
   */
  async #verifyCopies(
    tenant: string,
    run: ExtentRun,
    stores: readonly number[],
    slice: Slice,
  ): Promise<number> {
    const { copies } = this.#services;
    let whole = 0;
    let away: unknown = null;
    for (const store of stores) {
      const copy = { ...run, store };
      if (!this.#mayRead(copy)) {
        whole++;
        continue;
      }
      try {
        if (!(await this.#isShut(copy))) {
          await this.#readRun(tenant, copy, slice, { copies: 'one' });
        }
        whole++;
      } catch (error) {
        if (error instanceof IntegrityError) {
          copies.suspect(run.id, store, error);
        } else if (error instanceof Refusal) away = error;
        else throw error;
      }
    }
    if (whole > 0) return run.length;
    if (away) throw away;
    // Copies that are damaged in different places have all of it together.
    return this.#readRun(tenant, run, slice, { copies: 'all' });
  }

  /**
   * Gives the bytes that were verified: where it is of copies, of one or of all together, the whole
   * run, whatever the slice has room for.
   */
  async #readRun(
    tenant: string,
    run: ExtentRun,
    slice: Slice,
    of?: { copies: 'one' | 'all' },
  ): Promise<number> {
    const { read, reader } = this.#services;
    const inlineBody = (id: Buffer) => readInlineBody(read, id);
    let bytes = 0;
    const alone = of?.copies === 'all' ? {} : ({ isAlone: true } as const);
    for await (const chunk of reader.read({ tenant, runs: [run], inlineBody, ...alone })) {
      bytes += chunk.length;
      slice.bytes += chunk.length;
      await setImmediate();
      if (slice.isFull && !of) break;
    }
    return bytes;
  }
}

/** What one slice has done, and whether it may do more. */
class Slice {
  rows = 0;
  bytes = 0;
  readonly findings: Finding[] = [];
  readonly #bytesMax: number;
  readonly #endMs = monotonicMs() + sliceMsMax;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get isFull(): boolean {
    const isOver = this.bytes >= this.#bytesMax || this.rows >= sliceRowsMax;
    return isOver || this.findings.length >= sliceFindingsMax || monotonicMs() >= this.#endMs;
  }
}
