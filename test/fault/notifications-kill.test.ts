// A webhook that is told of a bucket's changes, under load, while the gateway is killed again and
// again and the webhook is away in between: what it has taken, replayed, is the bucket.
// BURSAR_TELL_KILLS gives more kills, BURSAR_KILL_SEED others.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
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
  await send(target, { method: 'PUT', path: '/raw' });
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
    await sleep(300 + randomBelow(random, 1500));
    await served.stop('SIGKILL');
    served = await place.serve([...serving, '--listen', new URL(endpoint).host]);
  }
  isAway = false;
  isEnded = true;
  await Promise.all(workers);

  const { text } = await send(target, { method: 'GET', path: '/raw' });
  const etags = elementsOf(text, 'ETag').map((etag) => etag.replaceAll('&quot;', ''));
  const is = elementsOf(text, 'Key').map((key, i) => `${key} ${etags[i]}`);
  expect(is.length).toBeGreaterThan(10);
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
