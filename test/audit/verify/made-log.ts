// A log as a gateway would make it, without one: records, salts, leaves, tiles and signatures, all by
// the formats' own functions, so that tests can alter any of them and sign again.
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Checkpoint, renderCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { renderEntries } from '#bursar/audit/log/entries.js';
import {
  hashBytes,
  hashLeaf,
  hashRow,
  proveInclusion,
  rootOf,
  type TileReader,
  tileWidth,
  widthOfTile,
} from '#bursar/audit/log/merkle.js';
import {
  cosignature,
  ed25519,
  type NoteSigner,
  noteKey,
  rawPublicKey,
  renderSignature,
  signNote,
} from '#bursar/audit/log/note.js';
import { pathOfTile } from '#bursar/audit/log/tile-path.js';
import { leafOf, type Opening, renderReceipt } from '#bursar/audit/receipt.js';
import { renderRecord } from '#bursar/audit/record.js';
import type { LogSource } from '#bursar/audit/verify/log-source.js';

export function makeSigner(name: string, type: NoteSigner['key']['type'] = ed25519): NoteSigner {
  const { privateKey } = generateKeyPairSync('ed25519');
  return { key: noteKey(name, rawPublicKey(privateKey), type), privateKey };
}

export function makeWitness(name: string): NoteSigner {
  return makeSigner(name, cosignature);
}

/** The line of a witness who saw it then. */
export function cosign(
  note: string,
  { key, privateKey }: NoteSigner,
  timeS = 1_700_000_000,
): string {
  const text = note.slice(0, note.lastIndexOf('\n\n') + 1);
  const time = Buffer.alloc(8);
  time.writeBigUInt64BE(BigInt(timeS));
  const signature = sign(null, Buffer.from(`cosignature/v1\ntime ${timeS}\n${text}`), privateKey);
  return renderSignature(key, Buffer.concat([time, signature]));
}

const pseudonym = (tenant: string): string =>
  createHash('sha256').update(tenant).digest().subarray(0, 16).toString('base64url');

export function openingOf(index: number, more: Record<string, unknown> = {}): Opening {
  const draft = {
    ...{ action: 's3:PutObject', tenant: 'cms', principal: 'alice', evidence: 'shared-secret' },
    ...{ accessKeyId: 'BURKEY', bucket: 'raw', bucketOwner: 'bob', key: `run/${index} „ü😀“` },
    ...{ bytesIn: 5, bytesOut: 0, sizeBytes: 5, etag: 'e', sha256: '5891b5b5', class: 'STANDARD' },
    ...{ requestId: 'R', source: '192.0.2.1', status: 200, ...more },
  };
  const seal = {
    ...{ index, timeMs: 1_790_000_000_000 + index, storedBytes: 5, storedObjects: 1 },
    ...{ cost: 5_000_000n, priced: { price: 'put', book: 'aws' } },
  };
  const { bucketTenant } = more;
  return {
    tenant: pseudonym('cms'),
    bucketTenant: typeof bucketTenant === 'string' ? pseudonym(bucketTenant) : null,
    salt: createHash('sha256').update(`salt ${index}`).digest().subarray(0, 16),
    record: renderRecord(draft as Parameters<typeof renderRecord>[0], seal),
    evidence: null,
  };
}

export class MadeLog {
  readonly origin: string;
  readonly signer: NoteSigner;
  openings: Opening[];
  readonly #levels: Buffer[] = [];
  readonly entries: Buffer[];

  constructor(openings: Opening[], signer = makeSigner('bursar/test')) {
    this.origin = signer.key.name;
    this.signer = signer;
    this.openings = openings;
    this.entries = openings.map(leafOf);
    let hashes: Buffer = Buffer.concat(this.entries.map(hashLeaf));
    for (;;) {
      this.#levels.push(hashes);
      const above: Buffer[] = [];
      const rowBytes = tileWidth * hashBytes;
      for (let at = 0; at + rowBytes <= hashes.length; at += rowBytes) {
        above.push(hashRow(hashes.subarray(at, at + rowBytes)));
      }
      if (above.length === 0) return;
      hashes = Buffer.concat(above);
    }
  }

  static of(count: number, signer?: NoteSigner): MadeLog {
    return new MadeLog(
      Array.from({ length: count }, (_, index) => openingOf(index)),
      signer,
    );
  }

  get size(): number {
    return this.entries.length;
  }

  get tiles(): TileReader {
    return {
      readTile: async (level, index, width) => {
        const from = index * tileWidth * hashBytes;
        return this.#levels[level]?.subarray(from, from + width * hashBytes) ?? Buffer.alloc(0);
      },
    };
  }

  /** What its checkpoint of a size says. */
  async head(size = this.size): Promise<Checkpoint> {
    return { origin: this.origin, size, root: await rootOf(this.tiles, size) };
  }

  async checkpoint(size = this.size, signers: NoteSigner[] = [this.signer]): Promise<string> {
    return signNote(renderCheckpoint(await this.head(size)), signers);
  }

  async receipt(index: number, note?: string, size = this.size): Promise<string> {
    const checkpoint = note ?? (await this.checkpoint(size));
    const proof = await proveInclusion(this.tiles, index, size);
    return renderReceipt({ ...(this.openings[index] as Opening), index, proof, checkpoint });
  }

  /** All files of the log at a size, as an export has them. */
  async files(size = this.size): Promise<Map<string, Buffer>> {
    const files = new Map<string, Buffer>();
    for (let level = 0; tileWidth ** level <= size; level += 1) {
      for (let index = 0; widthOfTile(level, index, size) > 0; index += 1) {
        const width = widthOfTile(level, index, size);
        const hashes = await this.tiles.readTile(level, index, width);
        files.set(pathOfTile({ level, index, width }), Buffer.from(hashes));
        if (level > 0) continue;
        const entries = this.entries.slice(index * tileWidth, index * tileWidth + width);
        files.set(pathOfTile({ level: 'entries', index, width }), renderEntries(entries));
      }
    }
    files.set('checkpoint', Buffer.from(await this.checkpoint(size)));
    return files;
  }
}

export function sourceOf(files: ReadonlyMap<string, Buffer>): LogSource {
  return { read: async (path) => files.get(path) };
}

export function writeFiles(folder: string, files: ReadonlyMap<string, Buffer>): void {
  for (const [path, bytes] of files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), bytes);
  }
}
