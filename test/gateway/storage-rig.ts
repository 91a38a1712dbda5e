// A gateway whose prices have minimums, a client of it, and its books as the database has them.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { parseUsd } from '#bursar/core/money.js';
import type { Limits } from '#bursar/core/quota-terms.js';
import { RootKeyFile } from '#bursar/core/root-keys.js';
import { sealRoots } from '#bursar/ledger/sealed-state.js';
import { AccountMacs } from '#bursar/quota/leases/account-macs.js';
import { partsOf } from '#bursar/quota/roll-up/charged-record.js';
import { sealLevels } from '#bursar/quota/storage/storage-tables.js';
import { type Answer, S3Client, type Sending } from '../fault/s3-client.ts';
import { labMarket, labTexts } from '../quota/storage/lab-books.ts';
import { accountsWritten } from '../tooling/accounts-written.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';

export interface LogRecord {
  index: number;
  action: string;
  status: number;
  principal: string;
  error?: string;
  bucket?: string;
  bucketOwner?: string;
  key?: string;
  class?: string;
  cost?: string;
  storageCost?: string;
  period?: string;
  priceBook?: string;
  byteMs?: string;
  time: string;
}

/** Flags for a market of the tests' own, whose books are written to a folder. */
export function labFlags(folder: string): string[] {
  for (const [name, text] of Object.entries(labTexts)) writeFileSync(join(folder, name), text);
  return ['--price-books', folder, '--prices', labMarket];
}

export class StorageGateway {
  readonly #folder = mkdtempSync(join(tmpdir(), 'bursar-storage-'));
  readonly #flags: string[];
  #gateway: ServedGateway | undefined;
  #client: S3Client | undefined;

  constructor() {
    this.#flags = labFlags(mkdtempSync(join(this.#folder, 'books-')));
  }

  get #database(): string {
    return join(this.#folder, 'bursar.db');
  }

  async serve(): Promise<void> {
    this.#gateway = await startServedGateway({ dataDir: this.#folder, args: this.#flags });
    this.#client = new S3Client(this.#gateway);
  }

  async kill(): Promise<void> {
    this.#client?.close();
    await this.#gateway?.kill();
    this.#gateway = undefined;
  }

  async stop(): Promise<void> {
    this.#client?.close();
    await this.#gateway?.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async send(method: string, path: string, sending: Sending = {}): Promise<Answer> {
    if (!this.#client) throw new Error('nobody serves');
    return this.#client.send(method, path, sending);
  }

  async setLimits(account: string, limits: Limits): Promise<void> {
    const name = encodeURIComponent(account);
    const answer = await this.send('PUT', `/_/v1/limits/${account}`, {
      body: Buffer.from(JSON.stringify(limits)),
      headers: { 'content-type': 'application/json' },
      encodedPath: `/_/v1/limits/${name}`,
    });
    if (answer.status !== 200) throw new Error(answer.body.toString());
  }

  /** What the database has, with the gateway running or not. */
  async read<R>(sql: string, ...values: string[]): Promise<R[]> {
    const db = openDatabase(this.#database, { readonly: true, cacheKib: 1024 });
    try {
      return await db.tx.all<R>(sql, ...values);
    } finally {
      db.close();
    }
  }

  async records(action?: string): Promise<LogRecord[]> {
    const rows = await this.read<{ record: string }>('SELECT record FROM records ORDER BY idx');
    const records = rows.map(({ record }) => JSON.parse(record) as LogRecord);
    return action === undefined ? records : records.filter((one) => one.action === action);
  }

  /** The last record, once there are as many of an action. */
  async lastOf(action: string, count = 1): Promise<LogRecord> {
    for (const endMs = Date.now() + 10_000; Date.now() < endMs; ) {
      const records = await this.records(action);
      const last = records.at(-1);
      if (last && records.length >= count) return last;
      await new Promise((done) => setTimeout(done, 20));
    }
    throw new Error(`no record of ${action}`);
  }

  async spent(account: string): Promise<bigint> {
    if (this.#gateway) await accountsWritten(this.#database);
    const sql = 'SELECT CAST(used_spend AS TEXT) AS spent FROM quota_accounts WHERE account = ?';
    const [row] = await this.read<{ spent: string }>(sql, account);
    return BigInt(row?.spent ?? 0);
  }

  /** Picodollars by account: as counted, and as the records add up to. */
  async compareSpent(): Promise<{ counted: Map<string, bigint>; summed: Map<string, bigint> }> {
    if (this.#gateway) await accountsWritten(this.#database);
    const rows = await this.read<{ account: string; spent: string }>(
      'SELECT account, CAST(used_spend AS TEXT) AS spent FROM quota_accounts ORDER BY account',
    );
    const counted = new Map(rows.map(({ account, spent }) => [account, BigInt(spent)]));
    const summed = new Map([...counted.keys()].map((account) => [account, 0n]));
    const records = await this.read<{ record: string }>('SELECT record FROM records');
    for (const part of records.flatMap(({ record }) => partsOf(record))) {
      summed.set(part.account, (summed.get(part.account) ?? 0n) + part.spend);
    }
    return { counted, summed };
  }

  /**
   * As if everything in a bucket had been stored so much longer. To be called while nobody serves.
   */
  async shift(milliseconds: number): Promise<void> {
    const db = openDatabase(this.#database, { readonly: false, cacheKib: 1024 });
    db.exec(`UPDATE quota_storage SET at_ms = at_ms - ${milliseconds},
      charged_ms = charged_ms - ${milliseconds},
      due = json_set(due, '$[0][1]', json_extract(due, '$[0][1]') - ${milliseconds})`);
    const file = join(this.#folder, 'keys', 'root-keys.json');
    const keyring = new Keyring((await RootKeyFile.open(file, null)).keys);
    await sealLevels(db.tx, new AccountMacs(keyring));
    await sealRoots(db, keyring);
    db.close();
  }
}

export function usd(text: string | undefined): bigint {
  return parseUsd(text ?? '') as bigint;
}
