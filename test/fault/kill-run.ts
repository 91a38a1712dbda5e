// One data folder through many violent ends: serves it, loads it, kills it at a moment of the asked
// kind, serves it again and holds it to the model. Findings are collected by promise.
import { randomBelow } from '../fuzz/seeded-random.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { compareCounters, compareListing, listBucket, RecordSum } from './bookkeeping.ts';
import { digestOf, KiB, MiB, makePieces } from './content.ts';
import { findStrayExtents } from './extents-on-disk.ts';
import { Finding, LoadWorker, splitName } from './load.ts';
import { describeValue, Model } from './model.ts';
import { killWhileStarting, sleep } from './plain-start.ts';
import { S3Client } from './s3-client.ts';

/** Of the admin's and of a member's own bucket, both written by both. */
export const ownerOf: Record<string, string> = { ours: 'admin', theirs: 'member' };

export const killKinds = ['any', 'body', 'commit', 'sweep', 'idle', 'start'] as const;
export type KillKind = (typeof killKinds)[number];

export interface Findings {
  /** Answers that no kill explains. */
  wrongAnswers: string[];
  /** Values that are neither what was acknowledged nor what was in doubt. */
  wrongValues: string[];
  listings: string[];
  counters: string[];
  extents: string[];
}

/** Sweeps come often and spare nothing, so that kills meet them. */
export const serveArguments = ['--sweep-interval', '100ms', '--sweep-grace', '0ms'];

const workersCount = 4;
const readersCount = 8;

export class KillRun {
  readonly findings: Findings = {
    wrongAnswers: [],
    wrongValues: [],
    listings: [],
    counters: [],
    extents: [],
  };
  readonly model = new Model();
  readonly records = new RecordSum();
  kills = 0;
  /** Doubts that turned out as the new value, and as the old. */
  readonly doubts = { kept: 0, lost: 0 };
  readonly #dataDir: string;
  readonly #random: () => number;
  #gateway: ServedGateway | null = null;
  #member = { accessKeyId: '', secretAccessKey: '' };
  readonly #afterKill: () => void;
  #loads = 0;

  /** `afterKill`: what else happens to the folder when its gateway is dead. */
  constructor(dataDir: string, random: () => number, afterKill: () => void = () => {}) {
    this.#dataDir = dataDir;
    this.#random = random;
    this.#afterKill = afterKill;
  }

  get gateway(): ServedGateway {
    if (!this.#gateway) throw new Error('no gateway is being served');
    return this.#gateway;
  }

  async serve(): Promise<void> {
    this.#gateway = await startServedGateway({ dataDir: this.#dataDir, args: serveArguments });
  }

  /** A member beside the admin, and a bucket for each. */
  async prepare(): Promise<void> {
    const admin = new S3Client(this.gateway);
    const principals = '/_/v1/tenants/default/principals';
    const body = Buffer.from(JSON.stringify({ name: 'member', kind: 'robot', role: 'admin' }));
    const headers = { 'content-type': 'application/json' };
    await admin.send('POST', principals, { body, headers });
    const made = await admin.send('POST', `${principals}/member/access-keys`);
    this.#member = JSON.parse(made.body.toString());
    const member = this.#memberClient();
    for (const [bucket, owner] of Object.entries(ownerOf)) {
      const client = owner === 'admin' ? admin : member;
      const { status, body: said } = await client.send('PUT', `/${bucket}`);
      if (status !== 200) throw new Error(`CreateBucket was answered ${status}: ${said}`);
    }
    admin.close();
    member.close();
  }

  /** Loads the gateway and kills it at a moment of this kind. */
  async loadAndKill(kind: KillKind): Promise<void> {
    const load = this.startLoad();
    const { gateway } = this;
    const random = this.#random;
    await sleep(randomBelow(random, 400));
    if (kind === 'body' || kind === 'commit') await this.#reachUpload(kind, load);
    else if (kind === 'sweep') await this.#reachSweep(load);
    else if (kind === 'idle') {
      await load.stop();
      await sleep(randomBelow(random, 60));
    } else await sleep(randomBelow(random, 900));
    load.expectKill();
    await gateway.kill();
    this.#afterKill();
    this.kills++;
    await load.stop();
    this.#gateway = null;
    if (kind === 'start') await this.#killStart();
  }

  startLoad(): Load {
    const load = new Load(this.findings);
    const clients = [new S3Client(this.gateway), this.#memberClient()];
    for (let i = 0; i < workersCount; i++) {
      const worker = new LoadWorker({
        client: clients[i % 2] as S3Client,
        model: this.model,
        random: this.#random,
        bucket: i < 2 ? 'theirs' : 'ours',
        prefix: `worker${i}`,
        isStopped: () => load.isStopping,
      });
      load.add(worker.run());
    }
    load.clients.push(...clients);
    this.#loads++;
    return load;
  }

  /** Resolves when an upload of several extents has come so far that the kill meets it there. */
  async #reachUpload(kind: 'body' | 'commit', load: Load): Promise<void> {
    const random = this.#random;
    const sizeBytes = 20 * MiB;
    const seed = randomBelow(random, 2 ** 31);
    const goalBytes = kind === 'body' ? 1 + randomBelow(random, sizeBytes) : sizeBytes;
    const client = new S3Client(this.gateway);
    load.clients.push(client);
    const name = 'ours/probe';
    await new Promise<void>((reached) => {
      function* chunks() {
        let sentBytes = 0;
        for (const piece of makePieces(seed, sizeBytes, 256 * KiB)) {
          yield piece;
          sentBytes += piece.length;
          if (sentBytes >= goalBytes) reached();
        }
      }
      const act = async (): Promise<void> => {
        const body = { sizeBytes, chunks: chunks() };
        const { status } = await client.send('PUT', `/${name}`, { body });
        if (status !== 200) throw new Finding(`PUT ${name} was answered ${status}`);
      };
      load.add(this.model.change([[name, digestOf(seed, sizeBytes)]], act).finally(reached));
    });
    // The last bytes are hashed and synced, then committed: within some hundred milliseconds.
    if (kind === 'commit') await sleep(randomBelow(random, 150));
  }

  /** Makes work for the sweeper, and waits until it may be at it. */
  async #reachSweep(load: Load): Promise<void> {
    const client = new S3Client(this.gateway);
    load.clients.push(client);
    const worker = new LoadWorker({
      client,
      model: this.model,
      random: this.#random,
      bucket: 'theirs',
      prefix: 'swept',
      isStopped: () => load.isStopping,
    });
    const names = Array.from({ length: 12 }, (_, i) => `theirs/swept/${i}`);
    await Promise.all(names.map((name) => worker.put(name, 300 * KiB)));
    await worker.deleteMany(names);
    await sleep(randomBelow(this.#random, 160));
  }

  /** Kills a start of the gateway before it can serve. */
  async #killStart(): Promise<void> {
    const starts = 1 + randomBelow(this.#random, 3);
    for (let i = 0; i < starts; i++) {
      await killWhileStarting(this.#dataDir, randomBelow(this.#random, 700));
      this.#afterKill();
      this.kills++;
    }
  }

  /** Reads everything back and compares every account of it. */
  async check(): Promise<void> {
    const client = new S3Client(this.gateway, readersCount);
    try {
      await this.#checkValues(client);
      await this.#checkListings(client);
      const counters = await compareCounters(client, this.records);
      this.findings.counters.push(...this.#label(counters));
      this.findings.extents.push(...this.#label(await findStrayExtents(this.#dataDir)));
    } finally {
      client.close();
    }
  }

  async #checkValues(client: S3Client): Promise<void> {
    const names = this.model.names();
    const check = async (): Promise<void> => {
      for (let name = names.pop(); name !== undefined; name = names.pop()) {
        const { status, sizeBytes, sha256 } = await client.digest(`/${name}`);
        const found = status === 404 ? null : { sizeBytes, sha256 };
        const settled = describeValue(this.model.valueOf(name));
        const doubt = this.model.doubts.get(name);
        if (status !== 200 && status !== 404) {
          this.findings.wrongAnswers.push(`${this.#label([`GET ${name}: ${status}`])}`);
        }
        if (!this.model.accept(name, found)) {
          const wanted = doubt === undefined ? settled : `${settled} or ${describeValue(doubt)}`;
          const finding = `${name}: ${describeValue(found)} instead of ${wanted}`;
          this.findings.wrongValues.push(...this.#label([finding]));
        } else if (doubt !== undefined) {
          this.doubts[describeValue(doubt) === describeValue(found) ? 'kept' : 'lost']++;
        }
      }
    };
    await Promise.all(Array.from({ length: readersCount }, check));
  }

  async #checkListings(client: S3Client): Promise<void> {
    const findings: string[] = [];
    for (const bucket of Object.keys(ownerOf)) {
      const listed = await listBucket(client, bucket);
      const expected = new Map<string, number>();
      for (const [name, value] of this.model.settled) {
        const [of, key] = splitName(name);
        if (value && of === bucket) expected.set(key, value.sizeBytes);
      }
      findings.push(...differences(bucket, expected, listed.objects));
      const uploads = new Map(listed.uploads.map((upload) => [upload.id, upload.parts]));
      for (const [id, upload] of this.model.uploads) {
        if (upload.bucket !== bucket) continue;
        for (const [number, sizeBytes] of upload.parts) {
          if (uploads.get(id)?.get(number) === sizeBytes) continue;
          findings.push(`part ${number} of ${upload.key} in upload ${id} is lost`);
        }
      }
      findings.push(...(await compareListing(client, bucket, listed)));
      if (this.#loads % 10 === 0) await this.#abortUploads(client, bucket, listed.uploads);
    }
    this.findings.listings.push(...this.#label(findings));
  }

  /** So that uploads left open do not fill the disk. */
  async #abortUploads(
    client: S3Client,
    bucket: string,
    uploads: { key: string; id: string }[],
  ): Promise<void> {
    for (const { key, id } of uploads) {
      const path = `/${bucket}/${key}`;
      const { status } = await client.send('DELETE', path, { query: [['uploadId', id]] });
      this.model.uploads.delete(id);
      if (status !== 204) this.findings.wrongAnswers.push(`abort of ${id}: ${status}`);
    }
  }

  #memberClient(): S3Client {
    const { endpoint } = this.gateway;
    return new S3Client({ endpoint, ...this.#member });
  }

  #label(findings: string[]): string[] {
    return findings.map((finding) => `after kill ${this.kills}: ${finding}`);
  }
}

/** Operations under way, and what may go wrong with them. */
export class Load {
  readonly #running: Promise<void>[] = [];
  readonly #findings: Findings;
  readonly clients: S3Client[] = [];
  #killed = false;
  isStopping = false;

  constructor(findings: Findings) {
    this.#findings = findings;
  }

  add(work: Promise<void>): void {
    this.#running.push(
      work.catch((error: unknown) => {
        // A broken connection is what a kill looks like; any answer must still be right.
        if (this.#killed && !(error instanceof Finding)) return;
        this.#findings.wrongAnswers.push(String(error));
      }),
    );
  }

  /** From here on connections may break. */
  expectKill(): void {
    this.#killed = true;
    this.isStopping = true;
  }

  /** Resolves when every operation has ended. */
  async stop(): Promise<void> {
    this.isStopping = true;
    await Promise.all(this.#running);
    for (const client of this.clients) client.close();
  }
}

function differences(
  bucket: string,
  expected: Map<string, number>,
  listed: Map<string, number>,
): string[] {
  const findings = [];
  for (const [key, sizeBytes] of expected) {
    if (listed.get(key) === sizeBytes) continue;
    findings.push(`${bucket}/${key} is listed with ${listed.get(key)} bytes, not ${sizeBytes}`);
  }
  for (const key of listed.keys()) {
    if (!expected.has(key)) findings.push(`${bucket}/${key} is listed and should not be there`);
  }
  return findings;
}
