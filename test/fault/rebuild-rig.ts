// A gateway on an S3 store kept by a real versitygw, whose database can be lost; and what its
// clients see, to be compared before and after.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { openDatabase } from '#bursar/core/database.js';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import type { FaultProxy } from '../tooling/fault-proxy.ts';
import { listFiles } from '../tooling/files.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';
import { listBucket } from './bookkeeping.ts';
import { S3Client } from './s3-client.ts';

const main = resolve(import.meta.dirname, '../../app/main.js');
const bucket = 'backend';

export interface Report {
  isWhole: boolean;
  journals: {
    lastSeq: number;
    damaged: string[];
    missing: string[];
    unlisted: string[];
    foreign: string[];
    generation: string;
    earlierLosses: number;
  }[];
  untoldBuckets: string[];
  identities: {
    stores: string[];
    doubtful: boolean;
    restored: Record<string, number>;
    withoutKey: { count: number; first: string[] };
    newWebhookSecrets: { count: number; first: string[] };
    usedUpShares: { count: number; first: string[] };
    leftOut: { count: number; first: string[] };
  };
  ownerlessBuckets: string[];
  tenants: string[];
  principals: string[];
  buckets: number;
  versions: number;
  fromExtents: { count: number; first: { bucket: string; key: string }[] };
  lost: { count: number; first: { bucket: string; key: string; reason: string }[] };
  uploads: { count: number; first: { bucket: string; key: string; id: string }[] };
  damagedExtents: { count: number; first: string[] };
  condemnedExtents: number;
  leftExtents: number;
  recordPacks: number;
}

export interface Rebuilt {
  code: number;
  stderr: string;
  /** Undefined when there was none. */
  report: Report | undefined;
}

/** What a client sees of an object. */
export interface Seen {
  etag: string | undefined;
  lastModified: string | undefined;
  headers: Record<string, string>;
  sha256: string;
}

const customerKey = Buffer.alloc(32, 'of a customer');
const customer = 'x-amz-server-side-encryption-customer-';
/** What is sent with all that begins with `sealed`. */
export const sealing = {
  [`${customer}algorithm`]: 'AES256',
  [`${customer}key`]: customerKey.toString('base64'),
  [`${customer}key-md5`]: createHash('md5').update(customerKey).digest('base64'),
};

export class RebuildRig {
  readonly backend: S3Backend;
  readonly dataDir = mkdtempSync(join(tmpdir(), 'bursar-rebuild-'));
  /** More settings for the gateway and for the rebuild. */
  environment: Record<string, string> = {};
  /** Between the gateway and the backend; null: nothing is. */
  proxy: FaultProxy | null = null;
  #gateway: ServedGateway | null = null;
  #client: S3Client | null = null;

  private constructor(backend: S3Backend) {
    this.backend = backend;
  }

  static async start(versitygw: string): Promise<RebuildRig> {
    const backend = await startVersitygw(versitygw);
    backend.makeBucket(bucket);
    return new RebuildRig(backend);
  }

  get gateway(): ServedGateway {
    if (!this.#gateway) throw new Error('the gateway does not run');
    return this.#gateway;
  }

  /** The operator's. */
  get client(): S3Client {
    this.#client ??= new S3Client(this.gateway);
    return this.#client;
  }

  async serve(args: string[] = []): Promise<void> {
    this.#gateway = await startServedGateway({
      dataDir: this.dataDir,
      args: [...this.#storeFlags(), ...args],
      env: this.#credentials(),
    });
    await this.#waitUntilTold();
  }

  /**
   * Waits until a journal tells all identities: the first snapshots are written then, and what
   * tests remove of the journal is not theirs. For ten seconds at most, since a store may be away.
   */
  async #waitUntilTold(): Promise<void> {
    const sql = 'SELECT count(*) AS told FROM journal_identities WHERE state > 1';
    for (let asked = 0; asked < 100; asked++) {
      if ((await this.query<{ told: number }>(sql))?.told) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async kill(): Promise<void> {
    this.#close();
    await this.gateway.kill();
    this.#gateway = null;
  }

  async stopGateway(): Promise<void> {
    this.#close();
    await this.gateway.stop();
    this.#gateway = null;
  }

  /** The database, with all that SQLite keeps beside it, is gone. */
  loseDatabase(): void {
    for (const name of readdirSync(this.dataDir)) {
      if (name.startsWith('bursar.db')) rmSync(join(this.dataDir, name));
    }
  }

  rebuild(args: string[] = []): Promise<Rebuilt> {
    const flags = ['rebuild', '--data', this.dataDir, '--json', ...this.#storeFlags(), ...args];
    const env = { ...bareEnvironment(), ...this.#credentials() };
    return new Promise((done) => {
      const options = { env, maxBuffer: 1 << 26 };
      const child = execFile(process.execPath, [main, ...flags], options, (_, stdout, stderr) => {
        const said = (stdout === '' ? {} : JSON.parse(stdout)) as Partial<Report>;
        // What failed says so instead.
        const report = said.isWhole === undefined ? undefined : (said as Report);
        done({ code: child.exitCode ?? -1, stderr, report });
      });
    });
  }

  /** Asks the gateway's database, beside it. */
  async query<R>(sql: string): Promise<R | undefined> {
    const db = openDatabase(join(this.dataDir, 'bursar.db'), { readonly: true, cacheKib: 1024 });
    try {
      return await db.tx.get<R>(sql);
    } finally {
      db.close();
    }
  }

  /** Runs another command on the folder and its store. */
  run(command: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    const flags = [...command, '--data', this.dataDir, ...this.#storeFlags()];
    const env = { ...bareEnvironment(), ...this.#credentials() };
    return new Promise((done) => {
      const child = execFile(process.execPath, [main, ...flags], { env }, (_, stdout, stderr) => {
        done({ code: child.exitCode ?? -1, stdout, stderr });
      });
    });
  }

  /** Runs a command as it is. */
  runPlain(
    command: string[],
    more: Record<string, string> = {},
  ): Promise<{ code: number; stdout: string; stderr: string }> {
    const env = { ...bareEnvironment(), ...this.#credentials(), ...more };
    return new Promise((done) => {
      const child = execFile(process.execPath, [main, ...command], { env }, (_, stdout, stderr) => {
        done({ code: child.exitCode ?? -1, stdout, stderr });
      });
    });
  }

  /** A backup of the folder, while it is served or not. */
  backUp(place: string, args: string[] = []) {
    return this.runPlain(['backup', 'create', place, '--data', this.dataDir, ...args]);
  }

  /** All but the root keys is gone. */
  loseFolder(): void {
    for (const name of readdirSync(this.dataDir)) {
      if (name !== 'keys') rmSync(join(this.dataDir, name), { recursive: true });
    }
  }

  /** Starts a rebuild and kills it when it says that it is at this step. */
  killRebuild(step: string): Promise<void> {
    return this.killAt(['rebuild'], step);
  }

  /** The same of another command on the folder and its store. */
  async killAt(command: string[], step: string): Promise<void> {
    const flags = [...command, '--data', this.dataDir, ...this.#storeFlags()];
    const env = { ...bareEnvironment(), ...this.#credentials() };
    await new Promise<void>((done) => {
      const child = execFile(process.execPath, [main, ...flags], { env }, () => done());
      child.stderr?.on('data', (text: string) => {
        if (text.includes(step)) child.kill('SIGKILL');
      });
    });
  }

  /** Names and sizes of the store's objects that begin so, in order. */
  storedObjects(prefix: string): { name: string; sizeBytes: number }[] {
    const folder = join(this.backend.dataDir, bucket, 'store');
    return listFiles(folder)
      .map((path) => ({
        name: path.slice(folder.length + 1),
        sizeBytes: statSync(path, { throwIfNoEntry: false })?.size ?? 0,
      }))
      .filter(({ name }) => name.startsWith(prefix))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Where the backend keeps an object of the store. */
  pathOf(name: string): string {
    return join(this.backend.dataDir, bucket, 'store', name);
  }

  /** Stores an object as somebody does who may write to the backend's bucket. */
  async putObject(name: string, body: Buffer): Promise<void> {
    const { endpoint, credentials } = this.backend;
    const client = new S3Client({ endpoint, ...credentials });
    const { status } = await client.send('PUT', `/${bucket}/store/${name}`, { body });
    client.close();
    if (status !== 200) throw new Error(`PUT ${name}: ${status}`);
  }

  /** Gives a stored object another content type, as somebody does who may write to the bucket. */
  async rewriteType(name: string, contentType: string): Promise<void> {
    const { endpoint, credentials } = this.backend;
    const client = new S3Client({ endpoint, ...credentials });
    const headers = {
      'x-amz-copy-source': `/${bucket}/store/${name}`,
      'x-amz-metadata-directive': 'REPLACE',
      'content-type': contentType,
    };
    const { status } = await client.send('PUT', `/${bucket}/store/${name}`, { headers });
    client.close();
    if (status !== 200) throw new Error(`COPY ${name}: ${status}`);
  }

  /** Everything that a client can see of a bucket's objects. */
  async look(name: string, client = this.client): Promise<Map<string, Seen>> {
    const { objects } = await listBucket(client, name);
    const seen = new Map<string, Seen>();
    await inTurns([...objects.keys()], async (key) => {
      seen.set(key, await this.see(name, key, client));
    });
    return new Map([...seen].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** And of one. */
  async see(name: string, key: string, client = this.client): Promise<Seen> {
    const answer = await client.send('GET', `/${name}/${key}`, {
      headers: { 'x-amz-checksum-mode': 'ENABLED', ...(key.startsWith('sealed') && sealing) },
    });
    if (answer.status !== 200) throw new Error(`${name}/${key}: ${answer.status}`);
    const kept = Object.entries(answer.headers).filter(([header]) => isKept.test(header));
    return {
      etag: answer.headers.etag,
      lastModified: answer.headers['last-modified'],
      headers: Object.fromEntries(kept) as Record<string, string>,
      sha256: createHash('sha256').update(answer.body).digest('hex'),
    };
  }

  async stop(): Promise<void> {
    this.#close();
    await this.#gateway?.stop();
    await this.backend.stop();
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  #close(): void {
    this.#client?.close();
    this.#client = null;
  }

  #storeFlags(): string[] {
    const { endpoint } = this.proxy ?? this.backend;
    const store = `s3://${bucket}/store`;
    return ['--store', store, '--store-endpoint', endpoint, '--store-path-style'];
  }

  #credentials(): Record<string, string> {
    const { accessKeyId, secretAccessKey } = this.backend.credentials;
    return {
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
      AWS_EC2_METADATA_DISABLED: 'true',
      ...this.environment,
    };
  }
}

const isKept = /^(x-amz-meta-|x-amz-checksum-|content-|cache-control|expires|x-amz-storage-class)/;

/** Works on all items, some at a time. */
export async function inTurns<T>(items: T[], work: (item: T, index: number) => Promise<void>) {
  const left = [...items.entries()];
  const takeTurns = async (): Promise<void> => {
    for (let next = left.shift(); next; next = left.shift()) await work(next[1], next[0]);
  };
  await Promise.all(Array.from({ length: 16 }, takeTurns));
}
