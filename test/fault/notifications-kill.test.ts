// A webhook that is told of a bucket's changes, under load, while the gateway is killed again and
// again and the webhook is away in between: what it has taken, replayed, is the bucket. And an
// inventory that is written meanwhile: each that has a checksum is whole, and the last lists all.
// BURSAR_TELL_KILLS gives more kills, BURSAR_KILL_SEED others.
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { afterAll, expect, it, vi } from 'vitest';
import { readCredentials } from '#bursar/server/folder/credentials-file.js';
import { Workplace } from '../cli/command.ts';
import { randomBelow, randomOf, seededRandom } from '../fuzz/seeded-random.ts';
import { callNative, elementsOf, send, type Target } from '../protocol/target.ts';
import { Receiver, status } from '../tooling/webhook-receiver.ts';

const kills = Number(process.env.BURSAR_TELL_KILLS ?? (process.env.BURSAR_FULL === '1' ? 5 : 3));
const random = seededRandom(Number(process.env.BURSAR_KILL_SEED ?? 111));
const place = new Workplace();
const receiver = new Receiver();

afterAll(async () => {
  await receiver.close();
  await place.remove();
});

const inventory = `<InventoryConfiguration><Id>all</Id><IsEnabled>true</IsEnabled>
  <Destination><S3BucketDestination><Bucket>arn:aws:s3:::lists</Bucket><Format>CSV</Format>
  </S3BucketDestination></Destination><IncludedObjectVersions>Current</IncludedObjectVersions>
  <Schedule><Frequency>Daily</Frequency></Schedule></InventoryConfiguration>`;

/** The keys of each inventory that has a checksum, whose files are compared with their digests. */
async function readInventories(target: Target): Promise<Map<string, string[]>> {
  const read = async (key: string) => {
    const { status: code, body } = await send(target, { method: 'GET', path: `/lists/${key}` });
    expect([key, code]).toEqual([key, 200]);
    return Buffer.from(body);
  };
  const md5 = (bytes: Buffer) => createHash('md5').update(bytes).digest('hex');
  const found = new Map<string, string[]>();
  const { text } = await send(target, { method: 'GET', path: '/lists' });
  for (const key of elementsOf(text, 'Key').filter((one) => one.endsWith('.checksum'))) {
    const manifest = await read(key.replace('.checksum', '.json'));
    expect(md5(manifest)).toBe((await read(key)).toString());
    const keys: string[] = [];
    for (const file of JSON.parse(manifest.toString()).files) {
      const bytes = await read(file.key);
      expect(md5(bytes)).toBe(file.MD5checksum);
      const rows = gunzipSync(bytes).toString().trim().split(/\r?\n/);
      keys.push(...rows.map((row) => row.split(',')[1]?.replaceAll('"', '') ?? ''));
    }
    found.set(key, keys);
  }
  return found;
}

interface Told {
  eventName: string;
  s3: { object: { key: string; eTag: string; sequencer: string } };
}

it(`has all of a bucket after ${kills} kills`, { timeout: 600_000 }, async () => {
  const taken: Told[] = [];
  let isAway = false;
  receiver.answer = (response) => {
    if (isAway) return status(503)(response, response.req);
    const { body } = receiver.received.at(-1) as { body: string };
    taken.push(...((JSON.parse(body).Records ?? []) as Told[]));
    response.writeHead(204).end();
  };
  await receiver.listen();
  const serving = ['--private-webhooks', '127.0.0.1:*'];
  let served = await place.serve(serving);
  const { endpoint } = served;
  const profile = readCredentials(join(place.data, 'credentials'), 'bursar');
  const accessKeyId = profile?.aws_access_key_id ?? '';
  const secretAccessKey = profile?.aws_secret_access_key ?? '';
  const target: Target = {
    ...{ endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [] },
    stop: async () => {},
  };
  for (const path of ['/raw', '/lists']) await send(target, { method: 'PUT', path });
  const { arn } = await callNative(target, 'PUT', '/_/v1/tenants/default/targets/hook', {
    ...{ kind: 'webhook', url: receiver.url },
  });
  const rule = `<QueueConfiguration><Id>all</Id><Queue>${arn}</Queue>
    <Event>s3:ObjectCreated:*</Event><Event>s3:ObjectRemoved:*</Event></QueueConfiguration>`;
  const put = await send(target, {
    ...{ method: 'PUT', path: '/raw', query: [['notification', '']] },
    body: `<NotificationConfiguration>${rule}</NotificationConfiguration>`,
  });
  expect(put.status).toBe(200);

  const inventories = '/_/v1/tenants/default/buckets/raw/inventories';
  const configure = async (id: string) => {
    const query: [string, string][] = [
      ['inventory', ''],
      ['id', id],
    ];
    const body = inventory.replace('<Id>all</Id>', `<Id>${id}</Id>`);
    expect((await send(target, { method: 'PUT', path: '/raw', query, body })).status).toBe(204);
  };
  const list = (id: string) => callNative(target, 'POST', `${inventories}/${id}/run`);
  await configure('all');

  let isEnded = false;
  const work = async () => {
    while (!isEnded) {
      const path = `/raw/k${randomBelow(random, 40)}`;
      const method = randomOf(random, ['PUT', 'PUT', 'PUT', 'DELETE'] as const);
      const body = method === 'PUT' ? { body: String(randomBelow(random, 1e9)) } : {};
      await send(target, { method, path, ...body }).catch(() => sleep(100));
    }
  };
  const workers = Array.from({ length: 4 }, work);
  for (let i = 0; i < kills; i++) {
    isAway = i % 2 === 1;
    await list('all');
    await sleep(300 + randomBelow(random, 1500));
    await served.stop('SIGKILL');
    served = await place.serve([...serving, '--listen', new URL(endpoint).host]);
    await readInventories(target);
  }
  isAway = false;
  isEnded = true;
  await Promise.all(workers);

  const { text } = await send(target, { method: 'GET', path: '/raw' });
  const etags = elementsOf(text, 'ETag').map((etag) => etag.replaceAll('&quot;', ''));
  const is = elementsOf(text, 'Key').map((key, i) => `${key} ${etags[i]}`);
  expect(is.length).toBeGreaterThan(10);
  // Of the others one may have been written in this minute, which keeps its name.
  await configure('last');
  await list('last');
  let last = '';
  await vi.waitFor(
    async () => {
      const { inventories: all } = await callNative(target, 'GET', inventories);
      const found = all.find(({ id }: { id: string }) => id === 'last');
      expect(found).toMatchObject({ state: 'written' });
      last = found.manifest;
    },
    { timeout: 60_000, interval: 500 },
  );
  const listed = (await readInventories(target)).get(last.replace('.json', '.checksum'));
  expect(listed).toEqual(elementsOf(text, 'Key'));
  const replayed = () => {
    const objects = new Map<string, string>();
    for (const { eventName, s3 } of taken) {
      const { key, eTag } = s3.object;
      if (eventName.startsWith('ObjectCreated')) objects.set(key, eTag);
      else objects.delete(key);
    }
    return [...objects].map((one) => one.join(' ')).sort();
  };
  await expect.poll(replayed, { timeout: 120_000, interval: 500 }).toEqual(is.sort());
  // Once each in the order of the log; what came twice came again with all that is behind it.
  const seen = new Set<string>();
  let newest = '';
  for (const { s3 } of taken) {
    const { sequencer } = s3.object;
    expect(sequencer > newest || seen.has(sequencer)).toBe(true);
    seen.add(sequencer);
    newest = sequencer;
  }
});
