// Queries against a model: random puts, overwrites, tags, renames and deletes while the gateway is
// killed again and again. Afterwards, what any query finds is what fits, by what S3 says of each
// object: nothing missing, nothing false, and for who has a prefix only what is below it.
// BURSAR_FIND_KILLS gives more kills, BURSAR_KILL_SEED others.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import { type Described, Facts, fits } from '#bursar/search/facts.js';
import { parseQuery } from '#bursar/search/query.js';
import { readCredentials } from '#bursar/server/folder/credentials-file.js';
import { Workplace } from '../cli/command.ts';
import { randomBelow, randomOf, seededRandom } from '../fuzz/seeded-random.ts';
import {
  as,
  callNative,
  elementsOf,
  type Message,
  newPrincipal,
  send,
  type Target,
} from '../protocol/target.ts';
import { randomText } from '../search/random-queries.ts';

const kills = Number(process.env.BURSAR_FIND_KILLS ?? (process.env.BURSAR_FULL === '1' ? 4 : 2));
const seed = Number(process.env.BURSAR_KILL_SEED ?? 109);
const random = seededRandom(seed);
const place = new Workplace();
afterAll(() => place.remove());

let target: Target;
const ask = (method: string, path: string, more: Partial<Message> = {}) =>
  send(target, { ...more, method, path });
const tagsQuery = [['tagging', '']] as const;

const tagging = (detector: string) =>
  `<Tagging><TagSet><Tag><Key>detector</Key><Value>${detector}</Value></Tag></TagSet></Tagging>`;

function pickPath(): string {
  const number = randomBelow(random, 40);
  return `/raw/k${number % 4}/${number}`;
}

async function change(): Promise<void> {
  const path = pickPath();
  const detector = randomOf(random, ['CMS', 'ATLAS', 'LHCb']);
  const run = randomOf(random, ['1', '2', '10', '-3.5', 'x']);
  switch (randomBelow(random, 8)) {
    case 0:
      await ask('DELETE', path);
      return;
    case 1:
      await ask('PUT', path, { query: tagsQuery, body: tagging(detector) });
      return;
    case 2:
      await ask('DELETE', path, { query: tagsQuery });
      return;
    case 3:
      await ask('PUT', pickPath(), {
        query: [['renameObject', '']],
        headers: { 'x-amz-rename-source': path },
      });
      return;
    default:
      await ask('PUT', path, {
        headers: { 'x-amz-meta-run': run, 'x-amz-tagging': `detector=${detector}` },
        body: 'x'.repeat(randomBelow(random, 20)),
      });
  }
}

/** All objects, as S3 tells of them. */
async function readModel(): Promise<Described[]> {
  const { text } = await ask('GET', '/raw', { query: [['list-type', '2']] });
  return Promise.all(
    elementsOf(text, 'Key').map(async (key) => {
      const head = await ask('HEAD', `/raw/${key}`);
      const tags = await ask('GET', `/raw/${key}`, { query: tagsQuery });
      const values = elementsOf(tags.text, 'Value');
      const { headers } = head;
      const run = headers['x-amz-meta-run'];
      return {
        ...{ key, sizeBytes: Number(headers['content-length']), class: 'STANDARD', sha256: null },
        ...{ etag: String(headers.etag).replaceAll('"', ''), owner: 'admin' },
        createdMs: Date.parse(String(headers['last-modified'])),
        attributes: JSON.stringify({
          headers: {},
          metadata: run === undefined ? {} : { run },
          tags: elementsOf(tags.text, 'Key').map((name, i) => [name, values[i] ?? '']),
        }),
      };
    }),
  );
}

/** Fields that S3 tells otherwise than they are stored are left out. */
function pickQuery(): string {
  for (;;) {
    const text = randomText(random);
    if (/modified|type|sha256|class/.test(text)) continue;
    return text;
  }
}

async function find(who: Target, where: string, prefix: string): Promise<string[]> {
  const path = '/_/v1/tenants/default/buckets/raw/objects';
  const query = [['where', where] as const, ['prefix', prefix] as const];
  const { objects } = await callNative(who, 'GET', path, undefined, query);
  return objects.map(({ key }: { key: string }) => key);
}

it(`finds what fits after ${kills} kills (seed ${seed})`, { timeout: 300_000 }, async () => {
  let served = await place.serve();
  const { endpoint } = served;
  const profile = readCredentials(join(place.data, 'credentials'), 'bursar');
  const accessKeyId = profile?.aws_access_key_id ?? '';
  const secretAccessKey = profile?.aws_secret_access_key ?? '';
  const keys = { accessKeyId, secretAccessKey };
  target = { endpoint, keys, strayNames: () => [], stop: async () => {} };
  await ask('PUT', '/raw');
  const member = as(target, await newPrincipal(target, { name: 'bob' }));
  await callNative(target, 'PUT', '/_/v1/tenants/default/grants/bob', {
    ...{ effect: 'allow', actions: ['s3:GetObject', 's3:GetObjectTagging', 's3:ListBucket'] },
    ...{ subjects: ['principal:default/bob'], bucket: 'raw', prefix: 'k1/' },
  });
  let isEnded = false;
  const work = async () => {
    // What is being killed answers nothing.
    while (!isEnded) await change().catch(() => sleep(50));
  };
  const workers = Array.from({ length: 4 }, work);
  for (let i = 0; i < kills; i++) {
    await sleep(300 + randomBelow(random, 1500));
    await served.stop('SIGKILL');
    served = await place.serve(['--listen', new URL(endpoint).host]);
  }
  await sleep(500);
  isEnded = true;
  await Promise.all(workers);

  const model = await readModel();
  expect(model.length).toBeGreaterThan(5);
  const fitting = (where: string) => {
    const query = parseQuery(where, Date.now());
    return model.filter((one) => fits(query, new Facts(one))).map(({ key }) => key);
  };
  await expect
    .poll(() => find(target, 'size >= 0 and not key like "other*"', ''), { timeout: 60_000 })
    .toEqual(fitting('size >= 0'));
  for (let i = 0; i < 150; i++) {
    const where = pickQuery();
    const wanted = fitting(where);
    const told = () => find(target, where, '');
    await expect.poll(told, { timeout: 60_000, message: where }).toEqual(wanted);
    const below = wanted.filter((key) => key.startsWith('k1/'));
    expect(await find(member, where, 'k1/'), where).toEqual(below);
  }
});
