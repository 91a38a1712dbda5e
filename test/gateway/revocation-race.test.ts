// Rights that are taken away under load. What the log says is held to: behind the record of a
// revocation there is nothing that the principal has done.
import { hash } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  as,
  callNative,
  findRecords,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { hold } from './held-request.ts';

const isFull = process.env.BURSAR_FULL === '1';

let target: Target;
beforeAll(async () => {
  target = await startEmbeddedTarget();
}, 60_000);
afterAll(() => target?.stop(), 60_000);

const principals = '/_/v1/tenants/default/principals';

async function switchOff(name: string): Promise<number> {
  const message = { method: 'PATCH', path: `${principals}/${name}`, body: '{"active":false}' };
  const headers = { 'content-type': 'application/json' };
  const answer = await send(target, { ...message, headers });
  expect(answer.status).toBe(200);
  return Number(answer.headers['x-bursar-receipt']);
}

it('nothing follows it in the log, of whatever is done in a loop', async () => {
  const rounds = isFull ? 40 : 4;
  let [done, refused] = [0, 0];
  for (let round = 0; round < rounds; round++) {
    const name = `looper-${round}`;
    const person = as(target, await newPrincipal(target, { name, role: 'admin' }));
    const bucket = `loop-${round}`;
    expect((await send(person, { method: 'PUT', path: `/${bucket}` })).status).toBe(200);
    await send(person, { method: 'PUT', path: `/${bucket}/source`, body: 'source' });
    let isOff = false;
    let off = Number.POSITIVE_INFINITY;
    const copySource = { 'x-amz-copy-source': `/${bucket}/source` };
    const list = '<Delete><Object><Key>a</Key></Object><Object><Key>b</Key></Object></Delete>';
    const md5 = { 'content-md5': hash('md5', list, 'base64') };
    const tags = '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>';
    const json = { 'content-type': 'application/json' };
    const messages = [
      { method: 'PUT', path: `/${bucket}/a`, body: 'a' },
      { method: 'PUT', path: `/${bucket}/b`, body: 'b'.repeat(100_000) },
      { method: 'PUT', path: `/${bucket}/c`, headers: copySource },
      { method: 'DELETE', path: `/${bucket}/c` },
      { method: 'POST', path: `/${bucket}/m`, query: [['uploads', '']] as const },
      {
        method: 'POST',
        path: `/${bucket}`,
        query: [['delete', '']] as const,
        body: list,
        headers: md5,
      },
      { method: 'PUT', path: `/${bucket}/source`, query: [['tagging', '']] as const, body: tags },
      { method: 'POST', path: `${principals}/${name}/access-keys`, body: '{}', headers: json },
    ];
    const loops = [...messages, ...messages].map(async (message) => {
      while (!isOff) {
        const { status, headers } = await send(person, message);
        const index = Number(headers['x-bursar-receipt']);
        if (status < 300) done += 1;
        else if (status === 403) refused += 1;
        // A list is answered with 200, whatever became of its keys: its records say that.
        const isList = message.body === list;
        if (status < 300 && Number.isFinite(off) && !isList) expect(index).toBeLessThan(off);
      }
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    off = await switchOff(name);
    isOff = true;
    await Promise.all(loops);
    const records = await findRecords(target, [['principal', name]]);
    const later = records.filter(({ index, status }) => index > off && status < 300);
    expect(later).toEqual([]);
  }
  expect(done).toBeGreaterThan(rounds * 10);
  expect(refused).toBeGreaterThan(0);
}, 300_000);

it('of very many writes that are open none is finished, and all of somebody else are', async () => {
  const count = isFull ? 3000 : 150;
  const names = ['victim', 'bystander'];
  const [victim, bystander] = (await Promise.all(
    names.map(async (name) => {
      const who = as(target, await newPrincipal(target, { name, role: 'member' }));
      expect((await send(who, { method: 'PUT', path: `/${name}s` })).status).toBe(200);
      return who;
    }),
  )) as [Target, Target];
  const begin = (who: Target, path: string) =>
    Promise.all(
      Array.from({ length: count / 2 }, (_, i) =>
        hold(who, { method: 'PUT', path: `${path}/${i}`, body: `body ${i}` }),
      ),
    );
  const [theirs, others] = [await begin(victim, '/victims'), await begin(bystander, '/bystanders')];
  // The first halves end while the revocation is on its way.
  const half = count / 4;
  const early = theirs.slice(0, half).map((held) => held.finish());
  const off = await switchOff('victim');
  const late = theirs.slice(half).map((held) => held.finish());
  const free = await Promise.all(others.map((held) => held.finish()));
  expect(new Set(free.map(({ status }) => status))).toEqual(new Set([200]));
  expect(new Set((await Promise.all(late)).map(({ status }) => status))).toEqual(new Set([403]));
  for (const { status, headers } of await Promise.all(early)) {
    if (status === 200) expect(Number(headers['x-bursar-receipt'])).toBeLessThan(off);
    else expect(status).toBe(403);
  }
  const records = await findRecords(target, [['principal', 'victim']]);
  const puts = records.filter(({ action }) => action === 's3:PutObject');
  expect(puts).toHaveLength(count / 2);
  expect(puts.filter(({ index, status }) => index > off && status === 200)).toEqual([]);
}, 300_000);

it('of changes that take rights to one bucket at once all are made, beside writes', async () => {
  const path = '/contended';
  const owner = as(target, await newPrincipal(target, { name: 'contender' }));
  expect((await send(owner, { method: 'PUT', path })).status).toBe(200);
  await send(owner, { method: 'DELETE', path, query: [['publicAccessBlock', '']] });
  const tags = '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>';
  const rule = '<AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>';
  const cors = `<CORSConfiguration><CORSRule>${rule}</CORSRule></CORSConfiguration>`;
  const policyOf = (i: number) => {
    const statement = { Effect: 'Allow', Principal: '*', Action: 's3:GetObject' };
    const Resource = `arn:aws:s3:::contended/${i}/*`;
    return JSON.stringify({ Version: '2012-10-17', Statement: { ...statement, Resource } });
  };
  const setting = (name: string, body: string) => {
    const headers = { 'content-md5': hash('md5', body, 'base64') };
    return { method: 'PUT', path, query: [[name, '']] as const, headers, body };
  };
  const writers = Array.from({ length: 64 }, (_, i) => i);
  // All are decided before the first of them is committed.
  const held = await Promise.all(
    writers.map((i) => hold(i % 2 ? owner : target, setting('policy', policyOf(i)))),
  );
  const besides = await Promise.all(
    writers
      .slice(0, 16)
      .flatMap((i) => [
        hold(owner, setting('tagging', tags)),
        hold(target, setting('cors', cors)),
        hold(owner, { method: 'PUT', path: `${path}/${i}`, body: 'body' }),
      ]),
  );
  const grants = writers.slice(0, 16).map((i) => {
    const subjects = ['principal:default/contender'];
    const grant = { effect: 'allow', subjects, actions: ['s3:GetObject'], bucket: `other-${i}` };
    return callNative(target, 'PUT', `/_/v1/tenants/default/grants/contended-${i}`, grant);
  });
  const answers = await Promise.all([...held, ...besides].map((one) => one.finish()));
  await Promise.all(grants);
  const statuses = answers.map(({ status, text }) => (status < 300 ? status : text));
  expect(statuses.slice(0, 64)).toEqual(held.map(() => 204));
  expect(new Set(statuses.slice(64))).toEqual(new Set([200, 204]));
  // The last in the log is what there is.
  const records = await findRecords(target, [['action', 's3:PutBucketPolicy']]);
  const puts = records.filter(({ bucket }) => bucket === 'contended');
  expect(puts).toHaveLength(64);
  const policy = await send(target, { method: 'GET', path, query: [['policy', '']] });
  const { Resource } = JSON.parse(policy.text).Statement;
  expect(JSON.stringify(puts.at(-1).change)).toContain(Resource);
}, 120_000);
