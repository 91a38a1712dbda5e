// Subscribers of a bucket's changes, killed and started again as often as the gateway that tells
// them, under load: a follower, and at full length a webhook as well, which is away at times. What
// each has seen, replayed, is the bucket. BURSAR_CHANGE_KILLS gives more kills, BURSAR_KILL_SEED
// others, and BURSAR_CHANGE_EVENTS so many events at least: BURSAR_FULL=1 asks for a million, most
// of them by requests that delete up to a thousand versions each.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, closeSync, openSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import { readCredentials } from '#bursar/server/folder/credentials-file.js';
import { Workplace } from '../cli/command.ts';
import { randomBelow, randomOf, seededRandom } from '../fuzz/seeded-random.ts';
import {
  callNative,
  elementOf,
  elementsOf,
  type Message,
  send,
  type Target,
} from '../protocol/target.ts';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { type Received, Receiver, status } from '../tooling/webhook-receiver.ts';
import { ReplayedChanges } from './replayed-changes.ts';

const isFull = process.env.BURSAR_FULL === '1';
const kills = Number(process.env.BURSAR_CHANGE_KILLS ?? (isFull ? 8 : 3));
const events = Number(process.env.BURSAR_CHANGE_EVENTS ?? (isFull ? 1_000_000 : 0));
const random = seededRandom(Number(process.env.BURSAR_KILL_SEED ?? 25));
const place = new Workplace();
const receiver = new Receiver();
let following: ChildProcess | null = null;
const follower = ['changes', 's3://raw', '--follow', '--cursor', 'cursor', '--json'];
const [followed, told] = ['followed', 'told'].map((name) => join(place.folder, name)) as [
  string,
  string,
];
/** Where many events are asked for, it is killed seldomer, so that most of the time is theirs. */
const sparedMs = events > 0 ? 8000 : 300;

afterAll(async () => {
  following?.kill();
  if (events > 0) await receiver.close();
  await place.remove();
});

/** Follows into a file, as a shell's `>>` does. */
function beginFollowing() {
  const output = openSync(followed, 'a');
  const child = spawn(process.execPath, [resolve('app/main.js'), ...follower], {
    cwd: place.folder,
    env: bareEnvironment(),
    stdio: ['ignore', output, 'ignore'],
  });
  closeSync(output);
  return child;
}

type Ask = (method: string, path: string, more?: Partial<Message>) => ReturnType<typeof send>;

/** What writes, as many times at once as `work` is called. */
class Writers {
  isEnded = false;
  /** Versions and delete markers that were made, by what was answered. */
  made = 0;
  readonly #ask: Ask;
  readonly #known: [key: string, version: string][] = [];

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  async work(): Promise<void> {
    const kinds = ['put', 'put', 'put', 'delete', 'version'];
    // Half of what there is in bulk makes events, the other half takes away what they made.
    if (events > 0) kinds.push('bulk', 'bulk', 'bulk');
    while (!this.isEnded) {
      try {
        const kind = randomOf(random, kinds);
        await (kind === 'bulk' ? this.#changeMany() : this.#changeOne(kind));
      } catch {
        // It is being killed.
        await sleep(100);
      }
    }
  }

  async #changeOne(kind: string): Promise<void> {
    const key = `k${randomBelow(random, 40)}`;
    const [old, versionId] = (kind === 'version' && randomOf(random, this.#known)) || [key];
    const query = versionId === undefined ? [] : ([['versionId', versionId]] as const);
    const answer = await (kind === 'put'
      ? this.#ask('PUT', `/raw/${key}`, { body: String(randomBelow(random, 1e9)) })
      : this.#ask('DELETE', `/raw/${old}`, { query }));
    const id = answer.headers['x-amz-version-id'];
    if (versionId === undefined && answer.status < 300) this.made += 1;
    if (id !== undefined && this.#known.length < 5000) this.#known.push([old, id]);
  }

  /** Puts delete markers at many keys, or takes away many versions. */
  async #changeMany(): Promise<void> {
    const isMany = this.#known.length > 3000;
    const some: [string, string?][] = isMany
      ? this.#known.splice(0, 1000)
      : Array.from({ length: 1000 }, (_, i) => [`k${i}`]);
    const objects = some.map(
      ([key, id]) =>
        `<Object><Key>${key}</Key>${id ? `<VersionId>${id}</VersionId>` : ''}</Object>`,
    );
    const body = `<Delete>${objects.join('')}</Delete>`;
    const { text } = await this.#ask('POST', '/raw', { query: [['delete', '']], body });
    const keys = elementsOf(text, 'Key');
    if (isMany) return;
    this.made += keys.length;
    const ids = elementsOf(text, 'DeleteMarkerVersionId');
    for (const [i, key] of keys.entries()) this.#known.push([key, ids[i] ?? '']);
  }
}

/** A webhook that writes down what it is told, in a process that is not killed. */
async function tellWebhook(target: Target): Promise<void> {
  receiver.answer = (response) => {
    // Of what was received nothing is kept in memory.
    const { body } = receiver.received.pop() as Received;
    // It is away at times, for longer than one message is tried.
    if (Date.now() % 30_000 < 3000) return status(503)(response, response.req);
    const { Records: records = [] } = JSON.parse(body) as { Records?: object[] };
    appendFileSync(told, records.map((one) => `${JSON.stringify(one)}\n`).join(''));
    response.writeHead(204).end();
  };
  await receiver.listen();
  const { arn } = await callNative(target, 'PUT', '/_/v1/tenants/default/targets/hook', {
    ...{ kind: 'webhook', url: receiver.url },
  });
  const rule = `<QueueConfiguration><Id>all</Id><Queue>${arn}</Queue>
    <Event>s3:ObjectCreated:*</Event><Event>s3:ObjectRemoved:*</Event></QueueConfiguration>`;
  const body = `<NotificationConfiguration>${rule}</NotificationConfiguration>`;
  const query = [['notification', '']] as const;
  const put = await send(target, { method: 'PUT', path: '/raw', query, body });
  expect(put.status).toBe(200);
}

/** All versions and delete markers of the bucket, with their ETags. */
async function listVersions(ask: Ask): Promise<Map<string, string>> {
  const versions = new Map<string, string>();
  for (let marker: [string, string][] = []; ; ) {
    const { text } = await ask('GET', '/raw', { query: [['versions', ''], ...marker] });
    for (const [kind] of text.matchAll(/<(Version|DeleteMarker)>.*?<\/\1>/gs)) {
      const id = `${elementOf(kind, 'Key')} ${elementOf(kind, 'VersionId')}`;
      versions.set(id, elementOf(kind, 'ETag')?.replaceAll('&quot;', '') ?? 'marker');
    }
    if (elementOf(text, 'IsTruncated') !== 'true') return versions;
    marker = [
      ['key-marker', elementOf(text, 'NextKeyMarker') ?? ''],
      ['version-id-marker', elementOf(text, 'NextVersionIdMarker') ?? ''],
    ];
  }
}

const lengthMs = events > 0 ? 4 * 3_600_000 : 600_000;

it(`replays to the bucket after ${kills} kills of each`, { timeout: lengthMs }, async () => {
  const serving = events > 0 ? ['--private-webhooks', '127.0.0.1:*'] : [];
  let served = await place.serve(serving);
  const { endpoint } = served;
  const profile = readCredentials(join(place.data, 'credentials'), 'bursar');
  const accessKeyId = profile?.aws_access_key_id ?? '';
  const secretAccessKey = profile?.aws_secret_access_key ?? '';
  const target: Target = {
    ...{ endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [] },
    stop: async () => {},
  };
  const ask: Ask = (method, path, more = {}) => send(target, { ...more, method, path });
  await ask('PUT', '/raw');
  const versioning = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  await ask('PUT', '/raw', { query: [['versioning', '']], body: versioning });
  for (const file of [followed, told]) writeFileSync(file, '');
  if (events > 0) await tellWebhook(target);

  const writers = new Writers(ask);
  const writing = Array.from({ length: 4 }, () => writers.work());
  following = beginFollowing();
  let killed = 0;
  const behind = new ReplayedChanges(followed);
  for (; killed < kills || behind.readOn().count < events; killed++) {
    await sleep(sparedMs + randomBelow(random, 1500));
    // It outlives its gateway, unless that was killed before it was reached at all.
    if (following.exitCode === null) {
      following.kill('SIGKILL');
      await once(following, 'exit');
    }
    if (killed % 2 === 0) await sleep(randomBelow(random, 500));
    following = beginFollowing();
    await sleep(sparedMs + randomBelow(random, 1500));
    await served.stop('SIGKILL');
    served = await place.serve([...serving, '--listen', new URL(endpoint).host]);
  }
  writers.isEnded = true;
  await Promise.all(writing);

  const is = await listVersions(ask);
  expect(is.size).toBeGreaterThan(10);
  for (const file of events > 0 ? [followed, told] : [followed]) {
    const seen = new ReplayedChanges(file);
    await expect
      .poll(() => difference(seen.readOn().versions, is), { timeout: lengthMs / 4, interval: 500 })
      .toEqual([]);
    expect(seen.isOrdered).toBe(true);
    // Some were committed and not answered, when it was killed.
    expect(seen.count).toBeGreaterThanOrEqual(writers.made);
    if (events > 0) console.info(`${killed} kills, ${seen.count} events, ${is.size} versions`);
  }
});

/** The first versions that only one of two has, or that differ. */
function difference(one: Map<string, string>, other: Map<string, string>): string[] {
  const lines = (of: Map<string, string>) => [...of].map((pair) => pair.join(' '));
  const [left, right] = [lines(one), lines(other)];
  const [known, wanted] = [new Set(left), new Set(right)];
  const only = [...left.filter((it) => !wanted.has(it)), ...right.filter((it) => !known.has(it))];
  return only.slice(0, 5);
}
