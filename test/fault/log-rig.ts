// A gateway whose log is watched from outside: what it acknowledged and every checkpoint that it
// published are kept over its deaths, and held to what is there afterwards. BURSAR_FULL=1 asks for
// all receipts.
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { parseVerifier } from '#bursar/audit/log/note.js';
import { verifyReceipt } from '#bursar/audit/verify/receipt.js';
import { verifyCheckpoint } from '#bursar/audit/verify/signed-checkpoint.js';
import { openDatabase, type Reader } from '#bursar/core/database.js';
import { readLeaves, treesOf } from '../ledger/log-sheet.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { sleep } from './plain-start.ts';
import { S3Client } from './s3-client.ts';

const workersCount = 4;
const pauseMs = 10;
/** Receipts cost the gateway more than writes: besides the last, one of so many. */
const receiptsOneOf = process.env.BURSAR_FULL === '1' ? 1 : 10;
const receiptsLast = 20;

export class LogRig {
  readonly dataDir: string;
  readonly #library: string;
  readonly #faultFile: string;
  #gateway: ServedGateway | undefined;
  #client: S3Client | undefined;
  /** Keys of objects by the indexes that answers named. */
  readonly acknowledged = new Map<number, string>();
  readonly checkpoints = new Set<string>();
  #sent = 0;

  constructor(dataDir: string, library: string) {
    this.dataDir = dataDir;
    this.#library = library;
    this.#faultFile = join(dataDir, '..', 'fault-at');
  }

  get gateway(): ServedGateway {
    if (!this.#gateway) throw new Error('no gateway is being served');
    return this.#gateway;
  }

  get client(): S3Client {
    this.#client ??= new S3Client(this.gateway);
    return this.#client;
  }

  async serve(more: Record<string, string> = {}): Promise<void> {
    const env = { LD_PRELOAD: this.#library, FAULT_AT: this.#faultFile, ...more };
    this.#gateway = await startServedGateway({ dataDir: this.dataDir, env });
    await this.client.send('PUT', '/log');
  }

  async kill(): Promise<void> {
    this.#client?.close();
    this.#client = undefined;
    await this.#gateway?.kill();
    this.#gateway = undefined;
    rmSync(this.#faultFile, { force: true });
  }

  /** As fault-at.c reads it. */
  arm(fault: string): void {
    writeFileSync(this.#faultFile, fault);
  }

  /** It happened. */
  get isStruck(): boolean {
    return !existsSync(this.#faultFile);
  }

  /** Writes, reads and asks for checkpoints until the gateway is dead or the time is over. */
  async load(ms: number): Promise<void> {
    const endMs = performance.now() + ms;
    const work = async (act: () => Promise<unknown>): Promise<void> => {
      while (performance.now() < endMs) {
        if (
          await act().then(
            () => false,
            () => true,
          )
        )
          return;
      }
    };
    const write = async (): Promise<void> => {
      await this.put();
      await sleep(pauseMs);
    };
    const workers = Array.from({ length: workersCount }, () => work(write));
    const watch = work(async () => {
      await this.readCheckpoint();
      await sleep(20);
    });
    await Promise.all([...workers, watch]);
  }

  /** Gives the status. Rejects when the connection breaks. */
  async put(): Promise<number> {
    const key = `k${this.#sent++}`;
    const body = Buffer.from(key.repeat(50));
    const { status, headers } = await this.client.send('PUT', `/log/${key}`, { body });
    if (status === 200) this.acknowledged.set(Number(headers['x-bursar-receipt']), key);
    return status;
  }

  /** Of all records, in the log's order. */
  async readTimes(): Promise<string[]> {
    const sql = 'SELECT record FROM records ORDER BY idx';
    const rows = await this.#read((read) => read.all<{ record: string }>(sql));
    return rows.map(({ record }) => (JSON.parse(record) as { time: string }).time);
  }

  /** Gives the status. Rejects when the connection breaks. */
  async rotateKey(overlapSeconds: number): Promise<number> {
    const { status } = await this.client.send('POST', '/_/v1/log/keys/rotations', {
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify({ overlapSeconds })),
    });
    return status;
  }

  async readCheckpoint(): Promise<string> {
    const { status, body } = await this.client.send('GET', '/_/log/checkpoint');
    expect(status).toBe(200);
    this.checkpoints.add(body.toString());
    return body.toString();
  }

  /**
   * What was acknowledged since index `from` is in the log, receipts of it verify, and every
   * checkpoint that was seen is of a beginning of the log that is here.
   */
  async check(from = 0): Promise<void> {
    const { body: lines } = await this.client.send('GET', '/_/log/key');
    const keys = lines
      .toString()
      .trim()
      .split('\n')
      .map((line) => parseVerifier(line));
    const trust = { keys: keys.filter((key) => key !== undefined) };
    await this.readCheckpoint();
    const found: unknown[] = [];
    const acknowledged = [...this.acknowledged].filter(([index]) => index >= from);
    const records = await this.#read((read) => readKeys(read, from));
    for (const [index, key] of acknowledged) {
      if (records.get(index) !== key) found.push({ index, key, is: records.get(index) });
    }
    const entries = acknowledged.filter(
      (_, i) => i % receiptsOneOf === 0 || i >= acknowledged.length - receiptsLast,
    );
    const check = async (): Promise<void> => {
      for (let one = entries.pop(); one; one = entries.pop()) {
        const [index, key] = one;
        const { status, body } = await this.client.send('GET', `/_/v1/receipts/${index}`);
        expect(status).toBe(200);
        const verified = verifyReceipt(body, trust);
        if (!verified.ok) found.push({ index, why: verified.why });
        else if (verified.record.key !== key) found.push({ index, key, is: verified.record });
      }
    };
    await Promise.all(Array.from({ length: workersCount }, check));
    expect(found).toEqual([]);
    const leaves = await this.#read((read) => readLeaves(read));
    const rootOf = treesOf(leaves);
    for (const text of this.checkpoints) {
      const checkpoint = verifyCheckpoint(text, trust);
      if (!checkpoint.ok) throw new Error(checkpoint.why);
      expect(checkpoint.size).toBeLessThanOrEqual(leaves.length);
      expect(checkpoint.root).toEqual(rootOf(checkpoint.size));
    }
  }

  async #read<T>(use: (read: Reader) => Promise<T>): Promise<T> {
    const path = join(this.dataDir, 'bursar.db');
    const db = openDatabase(path, { readonly: true, cacheKib: 1024 });
    try {
      return await use(db.tx);
    } finally {
      db.close();
    }
  }
}

/** Keys of objects that records tell of, by index. */
async function readKeys(read: Reader, from: number): Promise<Map<number, string | undefined>> {
  const sql = 'SELECT idx, record FROM records WHERE idx >= ?';
  const rows = await read.all<{ idx: number; record: string }>(sql, from);
  return new Map(
    rows.map(({ idx, record }) => [idx, (JSON.parse(record) as { key?: string }).key]),
  );
}
