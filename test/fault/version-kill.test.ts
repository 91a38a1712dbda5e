// Kills a served gateway under load on a bucket with versioning, and holds what it then lists to
// what it had acknowledged: every version and marker that was made, none that was deleted.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { randomBelow, randomOf, seededRandom } from '../fuzz/seeded-random.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { compareCounters, RecordSum } from './bookkeeping.ts';
import { KiB, makeContent } from './content.ts';
import { findStrayExtents } from './extents-on-disk.ts';
import { serveArguments } from './kill-run.ts';
import { md5Header } from './load.ts';
import { sleep } from './plain-start.ts';
import { S3Client } from './s3-client.ts';

const seed = Number(process.env.BURSAR_KILL_SEED ?? 20261121);
const kills = process.env.BURSAR_FULL === '1' ? 30 : 2;
const timeoutMs = 60_000 + kills * 12_000;
const workers = 4;

interface Made {
  key: string;
  /** Null: a delete marker. */
  sha256: string | null;
}

interface Listed extends Made {
  id: string;
  sizeBytes: number;
  isLatest: boolean;
}

class VersionRun {
  readonly dataDir = mkdtempSync(join(tmpdir(), 'bursar-version-kill-'));
  readonly #random = seededRandom(seed);
  readonly #records = new RecordSum();
  /** Acknowledged, by id, and not deleted since. */
  readonly #made = new Map<string, Made>();
  readonly #deleted = new Set<string>();
  /** Asked for and not answered. */
  #making: Made[] = [];
  #deleting = new Set<string>();
  #isStopping = false;
  acknowledged = 0;
  readonly findings: string[] = [];
  #gateway: ServedGateway | null = null;

  get client(): S3Client {
    if (!this.#gateway) throw new Error('no gateway is being served');
    return new S3Client(this.#gateway);
  }

  async serve(): Promise<void> {
    this.#gateway = await startServedGateway({ dataDir: this.dataDir, args: serveArguments });
  }

  stop(): Promise<void> {
    return this.#gateway?.stop() ?? Promise.resolve();
  }

  async prepare(): Promise<void> {
    const { client } = this;
    const status = '<Status>Enabled</Status>';
    const body = Buffer.from(`<VersioningConfiguration>${status}</VersioningConfiguration>`);
    await client.send('PUT', '/kept');
    const sending = { query: [['versioning', '']] as [string, string][], body };
    const answer = await client.send('PUT', '/kept', { ...sending, headers: md5Header(body) });
    expect(answer.status).toBe(200);
    client.close();
  }

  async loadAndKill(): Promise<void> {
    const { client } = this;
    this.#isStopping = false;
    const before = this.acknowledged;
    const load = Array.from({ length: workers }, (_, i) => this.#work(client, `worker${i}`));
    await sleep(300 + randomBelow(this.#random, 1200));
    // A busy machine may take longer to do enough for a kill to show something.
    while (this.acknowledged - before <= 20 && this.findings.length === 0) await sleep(20);
    this.#isStopping = true;
    await this.#gateway?.kill();
    await Promise.all(load);
    client.close();
  }

  async #work(client: S3Client, prefix: string): Promise<void> {
    while (!this.#isStopping) {
      const key = `${prefix}-${randomBelow(this.#random, 3)}`;
      const kind = randomBelow(this.#random, 10);
      try {
        if (kind < 5) await this.#put(client, key);
        else if (kind < 7) await this.#hide(client, key);
        else await this.#deleteOne(client, key);
      } catch (error) {
        // A broken connection is what a kill looks like.
        if (!this.#isStopping) this.findings.push(String(error));
        return;
      }
    }
  }

  async #put(client: S3Client, key: string): Promise<void> {
    const sizeBytes = randomOf(this.#random, [1, 4 * KiB, 100 * KiB]);
    const { bytes } = makeContent(randomBelow(this.#random, 2 ** 31), sizeBytes);
    const made = { key, sha256: createHash('sha256').update(bytes).digest('hex') };
    await this.#make(made, () => client.send('PUT', `/kept/${key}`, { body: bytes }));
  }

  #hide(client: S3Client, key: string): Promise<void> {
    return this.#make({ key, sha256: null }, () => client.send('DELETE', `/kept/${key}`));
  }

  async #make(made: Made, send: () => ReturnType<S3Client['send']>): Promise<void> {
    this.#making.push(made);
    const { status, headers } = await send();
    this.#making = this.#making.filter((one) => one !== made);
    const id = headers['x-amz-version-id'];
    if (status >= 300 || typeof id !== 'string') {
      this.findings.push(`${made.key} was answered ${status}, version ${id}`);
    } else {
      this.#made.set(id, made);
      this.acknowledged++;
    }
  }

  async #deleteOne(client: S3Client, key: string): Promise<void> {
    const own = [...this.#made].filter(([, made]) => made.key === key);
    if (own.length === 0) return;
    const [id] = randomOf(this.#random, own);
    this.#deleting.add(id);
    const query: [string, string][] = [['versionId', id]];
    const { status } = await client.send('DELETE', `/kept/${key}`, { query });
    if (status !== 204) this.findings.push(`the deletion of ${id} was answered ${status}`);
    this.#deleting.delete(id);
    this.#made.delete(id);
    this.#deleted.add(id);
    this.acknowledged++;
  }

  async check(): Promise<void> {
    const { client } = this;
    const listed = await listAll(client);
    const byId = new Map(listed.map((one) => [one.id, one]));
    for (const id of this.#made.keys()) {
      if (!byId.has(id) && !this.#deleting.has(id)) this.findings.push(`version ${id} is lost`);
      if (!byId.has(id)) this.#made.delete(id);
    }
    for (const one of listed) await this.#checkListed(client, one);
    this.#making = [];
    this.#deleting = new Set();
    this.#checkOrder(listed);
    await this.#checkCounters(client, listed);
    this.findings.push(...(await compareCounters(client, this.#records)));
    this.findings.push(...(await findStrayExtents(this.dataDir)));
    client.close();
  }

  async #checkListed(client: S3Client, { id, key, isLatest, sha256 }: Listed): Promise<void> {
    if (this.#deleted.has(id)) this.findings.push(`version ${id} was deleted and is there`);
    const query: [string, string][] = [['versionId', id]];
    const answer = await client.send('GET', `/kept/${key}`, { query });
    const digest = createHash('sha256').update(answer.body).digest('hex');
    const found = answer.status === 200 ? digest : null;
    if ((found === null) !== (sha256 === null)) this.findings.push(`GET ${id}: ${answer.status}`);
    let made = this.#made.get(id);
    if (!made) {
      const at = this.#making.findIndex((one) => one.key === key && one.sha256 === found);
      [made] = at < 0 ? [] : this.#making.splice(at, 1);
      if (!made) this.findings.push(`nobody asked for version ${id} of ${key}`);
      this.#made.set(id, { key, sha256: found });
    }
    if (made && (made.key !== key || made.sha256 !== found)) {
      this.findings.push(`version ${id} of ${key} is another than was put`);
    }
    if (!isLatest) return;
    const newest = await client.send('HEAD', `/kept/${key}`);
    if (newest.headers['x-amz-version-id'] !== id) {
      this.findings.push(`${key} is not its latest version: ${newest.status}`);
    }
  }

  #checkOrder(listed: readonly Listed[]): void {
    for (const [i, { key, isLatest }] of listed.entries()) {
      if (isLatest === (listed[i - 1]?.key !== key)) continue;
      this.findings.push(`of ${key} another than the first is the latest`);
    }
  }

  async #checkCounters(client: S3Client, listed: readonly Listed[]): Promise<void> {
    const answer = await client.send('GET', '/_/v1/usage');
    const { usage } = JSON.parse(answer.body.toString());
    const counted = usage.find((one: { account: string }) => one.account === 'bucket:default/kept');
    const objects = listed.filter(({ sha256 }) => sha256 !== null);
    const storedBytes = objects.reduce((sum, one) => sum + one.sizeBytes, 0);
    if (counted?.storedBytes === storedBytes && counted.storedObjects === objects.length) return;
    const told = `${counted?.storedBytes} bytes, ${counted?.storedObjects} objects`;
    this.findings.push(`${storedBytes} bytes in ${objects.length} versions are counted as ${told}`);
  }
}

/** All versions; `sha256` is empty of what is no marker. */
async function listAll(client: S3Client): Promise<Listed[]> {
  const listed: Listed[] = [];
  const query: [string, string][] = [['versions', '']];
  for (;;) {
    const page = (await client.send('GET', '/kept', { query })).body.toString();
    for (const [, kind, entry] of page.matchAll(/<(Version|DeleteMarker)>(.*?)<\/\1>/gs)) {
      const [key, id] = [textOf(entry, 'Key'), textOf(entry, 'VersionId')];
      const sizeBytes = Number(textOf(entry, 'Size'));
      const isLatest = textOf(entry, 'IsLatest') === 'true';
      listed.push({ key, id, sizeBytes, isLatest, sha256: kind === 'Version' ? '' : null });
    }
    if (textOf(page, 'IsTruncated') !== 'true') return listed;
    const next = ['NextKeyMarker', 'NextVersionIdMarker'].map((name) => textOf(page, name));
    query.splice(1, 2, ['key-marker', next[0] ?? ''], ['version-id-marker', next[1] ?? '']);
  }
}

function textOf(xml: string | undefined, name: string): string {
  return new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml ?? '')?.[1] ?? '';
}

describe(`a gateway killed ${kills} times under a load of versions (seed ${seed})`, () => {
  const run = new VersionRun();

  beforeAll(async () => {
    await run.serve();
    await run.prepare();
    for (let i = 0; i < kills; i++) {
      await run.loadAndKill();
      await run.serve();
      await run.check();
    }
    await run.stop();
  }, timeoutMs);

  afterAll(() => rmSync(run.dataDir, { recursive: true, force: true }));

  it('has every version and marker that it acknowledged, and none that it deleted', () => {
    expect(run.findings).toEqual([]);
    expect(run.acknowledged).toBeGreaterThan(kills * 20);
  });
});
