// Random writes under snapshots, and what each snapshot showed when it was made, to be compared
// with what its mount shows later.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { inParallel } from '#bursar/core/in-parallel.js';
import { randomBelow, randomOf, seededRandom } from '../fuzz/seeded-random.ts';
import { seededBytes } from '../tooling/files.ts';
import type { ServedGateway } from '../tooling/served-gateway.ts';
import { S3Client } from './s3-client.ts';

export const seed = Number(process.env.BURSAR_KILL_SEED ?? 20261123);
export const isFull = process.env.BURSAR_FULL === '1';
const snapshotsMax = isFull ? 50 : 5;
export const buckets = ['plain', 'versioned'] as const;
const keys = Array.from({ length: 10 }, (_, i) => `${i % 3}/é ${i}`);
const workers = 6;

type Bucket = (typeof buckets)[number];

/** Days of lifecycle rules last a second. */
export const movingSettings = { BURSAR_LIFECYCLE_DAY: '1s' };
const cool = '<StorageClass>ONEZONE_IA</StorageClass>';
const moving =
  '<LifecycleConfiguration><Rule><ID>move</ID><Status>Enabled</Status><Filter>' +
  '<ObjectSizeGreaterThan>99</ObjectSizeGreaterThan></Filter>' +
  `<Transition><Days>1</Days>${cool}</Transition><NoncurrentVersionTransition>` +
  `<NoncurrentDays>1</NoncurrentDays>${cool}</NoncurrentVersionTransition>` +
  '</Rule></LifecycleConfiguration>';

export class SnapshotRun {
  readonly #random = seededRandom(seed);
  /** What each living snapshot showed when it was made, by name. */
  readonly #living = new Map<string, { bucket: Bucket; shown: string[] }>();
  /** Ids of versions that were made, some of which are gone. */
  readonly #ids: { key: string; id: string }[] = [];
  readonly wrong: string[] = [];
  /** How many of the versions that were looked at had been moved. */
  moved = 0;
  #made = 0;
  #client: S3Client | null = null;

  /** From now on this gateway is asked. */
  aim(gateway: ServedGateway): void {
    this.close();
    this.#client = new S3Client(gateway);
  }

  close(): void {
    this.#client?.close();
    this.#client = null;
  }

  /** `elsewhere`: a store, to which lifecycle rules move what was written a day ago. */
  async prepare(elsewhere: string): Promise<void> {
    const durability = { legs: [{ store: elsewhere }] };
    await this.#native('POST', 'classes', { name: 'cool', aliases: ['ONEZONE_IA'], durability });
    for (const bucket of buckets) {
      await this.#ask('PUT', `/${bucket}`);
      const headers = { 'content-md5': createHash('md5').update(moving).digest('base64') };
      const rules = { query: [['lifecycle', '']] as [string, string][], headers, body: moving };
      expect((await this.#ask('PUT', `/${bucket}`, rules)).status).toBe(200);
    }
    const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
    await this.#ask('PUT', '/versioned', { query: [['versioning', '']], body });
  }

  /** Makes a snapshot of what a bucket is while nobody writes, and a mount of it. */
  async freeze(bucket: Bucket): Promise<void> {
    const name = `then-${this.#made++}`;
    const shown = await this.#look(bucket);
    await this.#native('PUT', `buckets/${bucket}/snapshots/${name}`, {});
    const to = { bucketTenant: 'default', bucket, at: name };
    await this.#native('PUT', `mounts/${name}`, to);
    this.#living.set(name, { bucket, shown });
    if (this.#living.size > snapshotsMax) await this.#deleteOne();
  }

  /** Writes, and lets go of a snapshot, until `kill` has come. */
  async loadAndKill(kill: () => Promise<void>): Promise<void> {
    let isOver = false;
    const until = async (work: () => Promise<void>): Promise<void> => {
      while (!isOver) await work();
    };
    const working = Promise.allSettled([
      ...Array.from({ length: workers }, () => until(() => this.#write())),
      this.#living.size > 2 ? this.#deleteOne() : null,
    ]);
    await sleep(200 + randomBelow(this.#random, 600));
    await kill();
    isOver = true;
    await working;
  }

  /** Some writes, all of which are answered. */
  async load(): Promise<void> {
    await inParallel(Array.from({ length: 40 }), workers, () => this.#write());
  }

  async compare(): Promise<void> {
    for (const [name, { bucket, shown }] of this.#living) {
      const now = await this.#look(name);
      const more = now.filter((line) => !shown.includes(line));
      const missing = shown.filter((line) => !now.includes(line));
      if (more.length + missing.length > 0) {
        this.wrong.push(
          [`${name} of ${bucket}`, 'shows', ...more, 'and not', ...missing].join('\n'),
        );
      }
    }
  }

  /** Deletes all snapshots: nothing is held any more. */
  async letGo(): Promise<void> {
    for (const bucket of buckets) {
      const { snapshots } = await this.#native('GET', `buckets/${bucket}/snapshots`);
      for (const { name } of snapshots) {
        await this.#native('DELETE', `buckets/${bucket}/snapshots/${name}`);
      }
      const held = async () =>
        (await this.#native('GET', `buckets/${bucket}/snapshots`)).heldVersions;
      await expect.poll(held, { timeout: 60_000 }).toBe(0);
    }
  }

  async #deleteOne(): Promise<void> {
    const name = randomOf(this.#random, [...this.#living.keys()]);
    const { bucket } = this.#living.get(name) ?? {};
    // Where a kill comes before the answer, nobody knows whether it is there.
    this.#living.delete(name);
    await this.#native('DELETE', `buckets/${bucket}/snapshots/${name}`);
  }

  async #write(): Promise<void> {
    const random = this.#random;
    const bucket = randomOf(random, buckets);
    const key = randomOf(random, keys);
    const path = `/${bucket}/${key}`;
    const deed = randomBelow(random, 10);
    if (deed < 5) {
      const size = randomOf(random, [0, 100, 4000, 150_000]) + randomBelow(random, 100);
      const { headers } = await this.#ask('PUT', path, { body: seededBytes(size, size) });
      const id = headers['x-amz-version-id'];
      if (typeof id === 'string') this.#ids.push({ key, id });
    } else if (deed === 5) {
      const tag = `<Tag><Key>t</Key><Value>${randomBelow(random, 1000)}</Value></Tag>`;
      const body = `<Tagging><TagSet>${tag}</TagSet></Tagging>`;
      await this.#ask('PUT', path, { query: [['tagging', '']], body });
    } else if (deed === 6) {
      await this.#ask('DELETE', path);
    } else if (deed === 7 && this.#ids.length > 0) {
      const version = randomOf(random, this.#ids);
      const path = `/versioned/${version.key}`;
      await this.#ask('DELETE', path, { query: [['versionId', version.id]] });
    } else if (deed === 8) {
      const headers = { 'x-amz-copy-source': encodeURI(`/${bucket}/${randomOf(random, keys)}`) };
      await this.#ask('PUT', path, { headers });
    } else {
      const headers = { 'x-amz-rename-source': encodeURI(randomOf(random, keys)) };
      await this.#ask('PUT', path, { query: [['renameObject', '']], headers });
    }
  }

  /** All versions that a bucket shows, with the tags and the bytes of the objects among them. */
  async #look(bucket: string): Promise<string[]> {
    const query: [string, string][] = [
      ['versions', ''],
      ['max-keys', '1000'],
    ];
    const { body } = await this.#ask('GET', `/${bucket}`, { query });
    const text = body.toString();
    expect(text).toContain('<IsTruncated>false<');
    const listed = [...text.matchAll(/<(Version|DeleteMarker)>(.*?)<\/\1>/gs)];
    const lines: string[] = [];
    await inParallel(listed.entries(), workers, async ([i, [, kind, shown = '']]) => {
      if (shown.includes(cool)) this.moved++;
      // A version that is moved meanwhile is the one that it was, in another class.
      lines[i] = `${kind} ${shown.replace(/<StorageClass>.*?<\/StorageClass>/, '')}`;
      if (kind !== 'Version') return;
      const [, key] = /<Key>(.*?)<\/Key>/.exec(shown) ?? [];
      const [, id = ''] = /<VersionId>(.*?)<\/VersionId>/.exec(shown) ?? [];
      const path = `/${bucket}/${key}`;
      const isLatest = shown.includes('<IsLatest>true<');
      const named: [string, string][] = isLatest ? [] : [['versionId', id]];
      const got = await this.#ask('GET', path, { query: named });
      const tagging = await this.#ask('GET', path, { query: [...named, ['tagging', '']] });
      const digest = createHash('sha256').update(got.body).digest('hex');
      lines[i] += ` ${got.status} ${digest} ${tagging.body}`;
    });
    return lines;
  }

  async #native(method: string, path: string, content?: object) {
    const options = content && {
      body: JSON.stringify(content),
      headers: { 'content-type': 'application/json' },
    };
    const { status, body } = await this.#ask(method, `/_/v1/tenants/default/${path}`, options);
    expect(status, `${method} ${path}: ${body}`).toBeLessThan(300);
    return body.length === 0 ? null : JSON.parse(body.toString());
  }

  async #ask(method: string, path: string, options: AskOptions = {}) {
    if (!this.#client) throw new Error('no gateway is being served');
    const { body } = options;
    const answer = await this.#client.send(method, path, {
      ...options,
      body: typeof body === 'string' ? Buffer.from(body) : body,
    });
    // 400: of a copy or a rename onto itself.
    const expected = [200, 201, 204, 400, 404, 405, 409, 412];
    if (!expected.includes(answer.status)) {
      this.wrong.push(`${method} ${path} was answered ${answer.status}: ${answer.body}`);
    }
    return answer;
  }
}

interface AskOptions {
  query?: [string, string][];
  headers?: Record<string, string>;
  body?: Buffer | string;
}
