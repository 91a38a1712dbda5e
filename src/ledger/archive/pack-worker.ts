// The thread that makes packs and checks them, with a reader of its own: compressing and encrypting
// some thousand records is nothing for the threads that others wait for.
import { randomBytes } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';
import { openPacked, parsePart, renderPart } from '../../audit/archive/pack.ts';
import { nonceBytes } from '../../audit/archive/sealed-record.ts';
import { commitTo } from '../../audit/leaf.ts';
import { tileWidth } from '../../audit/log/merkle.ts';
import { type KeptRecord, RecordStore } from '../../audit/record-store.ts';
import { openDatabase } from '../../core/database.ts';

export interface PackWorkerOptions {
  /** The database file. */
  path: string;
}

export interface MadePack {
  bytes: Uint8Array;
  nonce: Uint8Array;
  /** Where each tile's part ends in the bytes. */
  ends: number[];
}

export type PackJob =
  | { kind: 'make'; first: number; tiles: number }
  | { kind: 'check'; tile: number; nonce: Uint8Array; part: Uint8Array };

/** `sound`: the part has all that the database has of its tile. */
export type PackAnswer = MadePack | { sound: boolean } | { failed: string };

const port = parentPort;
if (!port) throw new Error('packs are made in a worker thread');
const db = openDatabase((workerData as PackWorkerOptions).path, { readonly: true, cacheKib: 4096 });
// What is packed is in the database.
const records = new RecordStore(db.tx, async () => new Uint8Array());

port.on('message', (job: PackJob | null) => {
  if (job) void answer(job);
  else {
    db.close();
    port?.close();
  }
});

async function answer(job: PackJob): Promise<void> {
  try {
    const made = job.kind === 'make' ? await makePack(job) : { sound: await checkPart(job) };
    port?.postMessage(made satisfies PackAnswer);
  } catch (cause) {
    const failed = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
    port?.postMessage({ failed } satisfies PackAnswer);
  }
}

async function makePack({ first, tiles }: { first: number; tiles: number }): Promise<MadePack> {
  const nonce = randomBytes(nonceBytes);
  const parts: Buffer[] = [];
  const ends: number[] = [];
  let end = 0;
  for (let tile = first; tile < first + tiles; tile++) {
    const part = renderPart(
      (await readTile(tile)).map((one) => one.opened),
      nonce,
    );
    parts.push(part);
    end += part.length;
    ends.push(end);
  }
  return { bytes: Buffer.concat(parts), nonce, ends };
}

async function checkPart(job: Extract<PackJob, { kind: 'check' }>): Promise<boolean> {
  const { tile, nonce } = job;
  const sealed = parsePart(job.part);
  if (!sealed) return false;
  const kept = await readTile(tile);
  return kept.every(({ opened, commitment }, i) => {
    // It may have been erased since it was packed.
    if (!opened) return true;
    const { salt, record, evidence } = opened;
    const packed = openPacked(sealed[i] as Buffer, { salt, nonce });
    if (packed?.evidence !== evidence) return false;
    // Where they differ, what the log has is right: somebody may have changed the row since then.
    return packed.record === record || commitTo(salt, packed.record).equals(commitment);
  });
}

function readTile(tile: number): Promise<KeptRecord[]> {
  return records.readRun(tile * tileWidth, tileWidth);
}
