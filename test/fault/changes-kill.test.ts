// A follower of a bucket's changes, killed and started again as often as the gateway that it
// follows, under load: what it has seen, replayed, is the bucket. BURSAR_CHANGE_KILLS gives more
// kills, BURSAR_KILL_SEED others.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import { readCredentials } from '#bursar/server/folder/credentials-file.js';
import { Workplace } from '../cli/command.ts';
import { randomBelow, randomOf, seededRandom } from '../fuzz/seeded-random.ts';
import { elementOf, elementsOf, type Message, send, type Target } from '../protocol/target.ts';

const kills = Number(process.env.BURSAR_CHANGE_KILLS ?? (process.env.BURSAR_FULL === '1' ? 8 : 3));
const random = seededRandom(Number(process.env.BURSAR_KILL_SEED ?? 25));
const place = new Workplace();
let following: ChildProcess | null = null;
const follower = ['changes', 's3://raw', '--follow', '--cursor', 'cursor', '--json'];
const written = join(place.folder, 'events');

afterAll(() => {
  following?.kill();
  return place.remove();
});

/** Follows into a file, as a shell's `>>` does. */
function beginFollowing() {
  const output = openSync(written, 'a');
  const child = spawn(process.execPath, [resolve('dist/cli/main.js'), ...follower], {
    cwd: place.folder,
    env: { PATH: process.env.PATH ?? '' },
    stdio: ['ignore', output, 'ignore'],
  });
  closeSync(output);
  return child;
}

interface Seen {
  eventName: string;
  s3: { object: { key: string; versionId: string; eTag: string; sequencer: string } };
}

/** What the events say that there is: versions, or delete markers, with their ETags. */
function replay(): { versions: Map<string, string>; isOrdered: boolean } {
  const versions = new Map<string, string>();
  const lines = readFileSync(written, 'utf8').split('\n');
  const seen = new Set<string>();
  let isOrdered = true;
  let newest = '';
  for (const line of lines) {
    // A kill can cut a line, which comes again whole, behind what is left of it.
    const begin = line.lastIndexOf('{"eventVersion"');
    if (begin < 0 || !line.endsWith('}')) continue;
    const { eventName, s3 } = JSON.parse(line.slice(begin)) as Seen;
    const { key, versionId, eTag, sequencer } = s3.object;
    isOrdered &&= sequencer > newest || seen.has(sequencer);
    seen.add(sequencer);
    newest = sequencer;
    const id = `${key} ${versionId}`;
    if (eventName === 'ObjectRemoved:Delete') versions.delete(id);
    else versions.set(id, eTag ?? 'marker');
  }
  return { versions, isOrdered };
}

it(`replays to the bucket after ${kills} kills of each`, { timeout: 600_000 }, async () => {
  let served = await place.serve();
  const { endpoint } = served;
  const profile = readCredentials(join(place.data, 'credentials'), 'bursar');
  const accessKeyId = profile?.aws_access_key_id ?? '';
  const secretAccessKey = profile?.aws_secret_access_key ?? '';
  const target: Target = {
    ...{ endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [] },
    stop: async () => {},
  };
  const ask = (method: string, path: string, more: Partial<Message> = {}) =>
    send(target, { ...more, method, path });
  await ask('PUT', '/raw');
  const versioning = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  await ask('PUT', '/raw', { query: [['versioning', '']], body: versioning });

  let isEnded = false;
  const known: [string, string][] = [];
  const work = async () => {
    while (!isEnded) {
      const key = `k${randomBelow(random, 40)}`;
      try {
        const kind = randomOf(random, ['put', 'put', 'put', 'delete', 'version']);
        const [old, versionId] = (kind === 'version' && randomOf(random, known)) || [key];
        const query = versionId === undefined ? [] : ([['versionId', versionId]] as const);
        const answer = await (kind === 'put'
          ? ask('PUT', `/raw/${key}`, { body: String(randomBelow(random, 1e9)) })
          : ask('DELETE', `/raw/${old}`, { query }));
        const id = answer.headers['x-amz-version-id'];
        if (id !== undefined && known.length < 5000) known.push([old, id]);
      } catch {
        // It is being killed.
        await sleep(100);
      }
    }
  };
  const workers = Array.from({ length: 4 }, work);
  following = beginFollowing();
  for (let i = 0; i < kills; i++) {
    await sleep(300 + randomBelow(random, 1500));
    // It outlives its gateway, unless that was killed before it was reached at all.
    if (following.exitCode === null) {
      following.kill('SIGKILL');
      await once(following, 'exit');
    }
    if (i % 2 === 0) await sleep(randomBelow(random, 500));
    following = beginFollowing();
    await sleep(300 + randomBelow(random, 1500));
    await served.stop('SIGKILL');
    served = await place.serve(['--listen', new URL(endpoint).host]);
  }
  isEnded = true;
  await Promise.all(workers);

  const pages: string[] = [];
  for (let marker: [string, string][] = []; ; ) {
    const { text } = await ask('GET', '/raw', { query: [['versions', ''], ...marker] });
    pages.push(text);
    if (elementOf(text, 'IsTruncated') !== 'true') break;
    marker = [
      ['key-marker', elementOf(text, 'NextKeyMarker') ?? ''],
      ['version-id-marker', elementOf(text, 'NextVersionIdMarker') ?? ''],
    ];
  }
  const listed = pages.join('');
  const ids = elementsOf(listed, 'VersionId');
  const is = elementsOf(listed, 'Key').map((key, i) => `${key} ${ids[i]}`);
  expect(is.length).toBeGreaterThan(10);
  await expect
    .poll(() => [...replay().versions.keys()].sort(), { timeout: 90_000, interval: 500 })
    .toEqual(is.sort());
  const { versions, isOrdered } = replay();
  expect(isOrdered).toBe(true);
  const etags = elementsOf(listed, 'ETag').map((etag) => etag.replaceAll('&quot;', ''));
  expect([...versions.values()].filter((etag) => etag !== 'marker').sort()).toEqual(etags.sort());
});
