// Reads of objects that change meanwhile, from memory or not: through a real gateway, each read
// answers with a state that the object had between the request and its answer. Of each key there is
// one writer, who puts, tags, deletes, and ends versions, and many readers.
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  callNative,
  type Message,
  newName,
  patternOf,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { readMetrics } from '../tooling/served-gateway.ts';
import { fuzzMs, fuzzTimeoutMs, randomBelow, randomOf, seededRandom } from './seeded-random.ts';

let target: Target;
beforeAll(async () => {
  target = await startEmbeddedTarget();
}, 60_000);
afterAll(() => target?.stop(), 60_000);

const ask = async (message: Message) => {
  const answer = await send(target, message);
  expect([200, 204, 404, 405]).toContain(answer.status);
  return answer;
};

/** What a GET shows of a state: the size, which is another for each PUT, and how many tags. */
const gone = 'gone';
const shown = (sizeBytes: number, tags: number) => `${sizeBytes} bytes, ${tags} tags`;

/** What a key was, from when on; `untilTime` is when the next state may have begun. */
interface Step {
  state: string;
  askedTime: number;
  answeredTime: number;
}

/** Orders what the test asks and is answered. */
let time = 0;

class Key {
  readonly path: string;
  readonly steps: Step[] = [{ state: gone, askedTime: 0, answeredTime: 0 }];
  /** Of a bucket with versioning, from the oldest on; of another one at most one. */
  readonly #versions: { id: string | null; sizeBytes: number; tags: number }[] = [];
  readonly #isVersioned: boolean;
  readonly #random: () => number;
  #sizeBytes = 0;

  constructor(path: string, isVersioned: boolean, random: () => number) {
    this.path = path;
    this.#isVersioned = isVersioned;
    this.#random = random;
  }

  /** What it is when the snapshot is made. */
  begin(): Promise<void> {
    return this.#put();
  }

  async write(): Promise<void> {
    const newest = this.#versions.at(-1);
    const isThere = newest !== undefined && newest.sizeBytes > 0;
    const deed = randomOf(this.#random, ['put', 'put', 'tag', 'delete', 'end'] as const);
    if (deed === 'put' || !newest) await this.#put();
    else if (deed === 'tag' && isThere) await this.#tag(newest);
    else if (deed === 'end' && this.#isVersioned) await this.#end(newest.id);
    else await this.#delete();
  }

  async #put(): Promise<void> {
    const body = patternOf(++this.#sizeBytes);
    const made = { sizeBytes: body.length, tags: 0 };
    const id = await this.#step(shown(body.length, 0), { method: 'PUT', body });
    if (!this.#isVersioned) this.#versions.length = 0;
    this.#versions.push({ id, ...made });
  }

  async #tag(newest: { sizeBytes: number; tags: number }): Promise<void> {
    const tags = 1 + randomBelow(this.#random, 9);
    const list = Array.from({ length: tags }, (_, i) => `<Tag><Key>${i}</Key><Value/></Tag>`);
    const body = `<Tagging><TagSet>${list.join('')}</TagSet></Tagging>`;
    const state = shown(newest.sizeBytes, tags);
    await this.#step(state, { method: 'PUT', query: [['tagging', '']], body });
    newest.tags = tags;
  }

  async #delete(): Promise<void> {
    const id = await this.#step(gone, { method: 'DELETE' });
    if (this.#isVersioned) this.#versions.push({ id, sizeBytes: 0, tags: 0 });
    else this.#versions.length = 0;
  }

  /** Ends the newest version: the one before it is the newest again. */
  async #end(id: string | null): Promise<void> {
    const before = this.#versions.at(-2);
    const state = before && before.sizeBytes > 0 ? shown(before.sizeBytes, before.tags) : gone;
    await this.#step(state, { method: 'DELETE', query: [['versionId', id ?? 'null']] });
    this.#versions.pop();
  }

  async #step(state: string, message: Omit<Message, 'path'>): Promise<string | null> {
    const step: Step = { state, askedTime: ++time, answeredTime: Number.POSITIVE_INFINITY };
    this.steps.push(step);
    const { status, headers } = await ask({ ...message, path: this.path });
    expect(status).toBeLessThan(300);
    step.answeredTime = ++time;
    return (headers['x-amz-version-id'] as string | undefined) ?? null;
  }

  /** Through the mount of a snapshot it is what it was when its writer began. */
  async readThen(mount: string): Promise<void> {
    const path = this.path.replace(/^\/[^/]+/, `/${mount}`);
    const { status, headers, body } = await ask({ method: 'GET', path });
    expect([status, headers['x-amz-tagging-count']]).toEqual([200, undefined]);
    expect(body.equals(patternOf(1))).toBe(true);
  }

  async read(): Promise<void> {
    const askedTime = ++time;
    const method = randomOf(this.#random, ['GET', 'GET', 'HEAD'] as const);
    const { status, headers, body } = await ask({ method, path: this.path });
    const answeredTime = ++time;
    const sizeBytes = Number(headers['content-length']);
    if (status === 200 && method === 'GET') expect(body.equals(patternOf(sizeBytes))).toBe(true);
    const tags = Number(headers['x-amz-tagging-count'] ?? 0);
    const state = status === 200 ? shown(sizeBytes, tags) : gone;
    const first = this.steps.findLastIndex((step) => step.answeredTime < askedTime);
    const possible = this.steps.slice(first).filter((step) => step.askedTime < answeredTime);
    expect(possible.map((step) => step.state)).toContain(state);
  }
}

/** A mount of a snapshot of the bucket as it is. */
async function mountSnapshot(bucket: string): Promise<string> {
  const snapshots = `/_/v1/tenants/default/buckets/${bucket}/snapshots`;
  await callNative(target, 'PUT', `${snapshots}/then`, {});
  const to = { bucketTenant: 'default', bucket, at: 'then' };
  await callNative(target, 'PUT', `/_/v1/tenants/default/mounts/${bucket}-then`, to);
  return `${bucket}-then`;
}

it.each([false, true])(
  'answers with what was there meanwhile (versioning: %s)',
  async (isVersioned) => {
    const bucket = newName();
    await ask({ method: 'PUT', path: `/${bucket}` });
    if (isVersioned) {
      const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
      await ask({ method: 'PUT', path: `/${bucket}`, query: [['versioning', '']], body });
    }
    const seed = isVersioned ? 1 : 2;
    const keys = Array.from(
      { length: 4 },
      (_, i) => new Key(`/${bucket}/key-${i}`, isVersioned, seededRandom(seed * 100 + i)),
    );
    for (const key of keys) await key.begin();
    const then = await mountSnapshot(bucket);
    const endMs = performance.now() + fuzzMs / 2;
    let writes = 0;
    const isOver = () => writes >= 300 && performance.now() >= endMs;
    const writers = keys.map(async (key) => {
      while (!isOver()) {
        await key.write();
        writes += 1;
        // Sometimes it is read several times before it changes again.
        if (writes % 3 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      }
    });
    const readers = [...keys, ...keys, ...keys].map(async (key) => {
      for (let i = 0; !isOver(); i++) await (i % 4 === 3 ? key.readThen(then) : key.read());
    });
    await Promise.all([...writers, ...readers]);
    const metrics = await readMetrics(target);
    const [, hits] = metrics.match(/^bursar_cache_hits_total\{.*cache="objects".*\} (\d+)$/m) ?? [];
    expect(Number(hits)).toBeGreaterThan(100);
  },
  fuzzTimeoutMs,
);
