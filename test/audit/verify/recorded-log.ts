// A log of records as a gateway would make it, without one: records, salts, leaves and signatures,
// so that tests can alter any of them and sign again.
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Checkpoint, renderCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { proveInclusion, rootOf, type TileReader } from '#bursar/audit/log/merkle.js';
import {
  cosignature,
  ed25519,
  type NoteSigner,
  noteKey,
  rawPublicKey,
  renderSignature,
  signNote,
} from '#bursar/audit/log/note.js';
import { leafOf, type Opening, renderReceipt } from '#bursar/audit/receipt.js';
import { renderRecord } from '#bursar/audit/record.js';
import type { LogSource } from '#bursar/audit/verify/log-source.js';
import { type Files, makeLog, signerOf, tilesOf } from '../log/made-log.ts';

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

export class RecordedLog {
  readonly origin: string;
  readonly signer: NoteSigner;
  readonly openings: Opening[];
  readonly entries: Buffer[];
  readonly tiles: TileReader;

  constructor(openings: Opening[], signer = signerOf('bursar/test')) {
    this.origin = signer.key.name;
    this.signer = signer;
    this.openings = openings;
    this.entries = openings.map(leafOf);
    this.tiles = tilesOf(this.entries).tiles;
  }

  static of(count: number, signer?: NoteSigner): RecordedLog {
    const openings = Array.from({ length: count }, (_, index) => openingOf(index));
    return new RecordedLog(openings, signer);
  }

  /** What its checkpoint of a size says. */
  async head(size = this.entries.length): Promise<Checkpoint> {
    return { origin: this.origin, size, root: await rootOf(this.tiles, size) };
  }

  async checkpoint(
    size = this.entries.length,
    signers: NoteSigner[] = [this.signer],
  ): Promise<string> {
    return signNote(renderCheckpoint(await this.head(size)), signers);
  }

  async receipt(index: number, note?: string): Promise<string> {
    const proof = await proveInclusion(this.tiles, index, this.entries.length);
    const checkpoint = note ?? (await this.checkpoint());
    return renderReceipt({ ...(this.openings[index] as Opening), index, proof, checkpoint });
  }

  /** All that a verifier needs of the log at a size. */
  async files(size = this.entries.length): Promise<Files> {
    const files = await makeLog(this.entries.slice(0, size), this.signer);
    files.delete('key');
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
