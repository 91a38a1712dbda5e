// Auditors over HTTP: they see what happened in their tenant, with proofs, and never its data.
// Erasing takes a record away for good, says that it did, and leaves the log as it was.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { verifyBundle } from '#bursar/audit/bundle.js';
import { ed25519, type NoteKey } from '#bursar/audit/log/note.js';
import { verifyReceipt } from '#bursar/audit/verify/receipt.js';
import { parseVerifiers } from '#bursar/audit/verify/trusted-keys.js';
import { openDatabase } from '#bursar/core/database.js';
import {
  type Answer,
  as,
  callNative,
  exchange,
  type Message,
  newPrincipal,
  send,
  type Target,
} from '../protocol/target.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';

vi.setConfig({ testTimeout: 30_000 });

let gateway: ServedGateway;
let target: Target;
let keys: NoteKey[];
const people: Record<string, Target> = {};
const person = (name: string): Target => people[name] as Target;

beforeAll(async () => {
  gateway = await startServedGateway();
  const { endpoint, accessKeyId, secretAccessKey } = gateway;
  const operator = { accessKeyId, secretAccessKey };
  target = { endpoint, keys: operator, strayNames: () => [], stop: () => gateway.stop() };
  for (const name of ['cms', 'atlas']) await callNative(target, 'POST', '/_/v1/tenants', { name });
  for (const [id, role] of [
    ...[['cms/alice', 'member'] as const, ['cms/boss', 'admin'] as const],
    ...[['cms/ears', 'auditor'] as const, ['atlas/eve', 'member'] as const],
    ...[['atlas/chief', 'admin'] as const, ['atlas/eyes', 'auditor'] as const],
  ]) {
    const [tenant, name] = id.split('/') as [string, string];
    people[id] = as(target, await newPrincipal(target, { tenant, name, role }));
  }
  await must(put('cms/alice', '/raw'));
  await must(put('cms/alice', '/raw/a', 'hello'));
  const grant = { subjects: ['principal:atlas/eve', 'principal:cms/ears'], actions: ['s3:*'] };
  await callNative(person('cms/boss'), 'PUT', '/_/v1/tenants/cms/grants/all', {
    ...{ ...grant, bucket: 'raw', prefix: '', effect: 'allow' },
  });
  await must(send(person('atlas/eve'), { method: 'GET', path: '/cms:raw/a' }));
  const published = await exchange(target, 'GET', '/_/log/key');
  keys = parseVerifiers(published.text, ed25519) ?? [];
});
afterAll(() => target?.stop());

function put(who: string, path: string, body?: string): Promise<Answer> {
  return send(person(who), { method: 'PUT', path, ...(body && { body }) });
}

async function must(answer: Promise<Answer>): Promise<Answer> {
  const { status, text } = await answer;
  expect([status < 300, status < 300 ? '' : text]).toEqual([true, '']);
  return answer;
}

interface Part {
  next: number;
  lines: object[];
}

/** All lines of a bundle. */
async function takeBundle(who: Target, tenant: string, query: Message['query'] = []) {
  const path = `/_/v1/tenants/${tenant}/bundle`;
  const head = await callNative(who, 'GET', path, undefined, query);
  const lines = [JSON.stringify(head)];
  for (let at = head.from; at < head.to; ) {
    const to = [['to', String(head.to)]] as const;
    const part: Part = await callNative(who, 'GET', `${path}/${at}`, undefined, to);
    lines.push(...part.lines.map((line) => JSON.stringify(line)));
    at = part.next;
  }
  return { head, lines };
}

async function verified(lines: readonly string[]) {
  const records: { action: string; tenant: string; index: number }[] = [];
  const onRecord = ({ opening }: { opening: { record: string } }) => {
    records.push(JSON.parse(opening.record));
  };
  const outcome = await verifyBundle(lines, { trust: { keys }, onRecord });
  if (!outcome.ok) throw new Error(outcome.why);
  return { ...outcome, delivered: records };
}

function erase(who: string, tenant: string, indexes: number[], reason = 'asked for') {
  const body = JSON.stringify({ indexes, reason });
  const headers = { 'content-type': 'application/json' };
  const path = `/_/v1/tenants/${tenant}/erasures`;
  return send(person(who), { method: 'POST', path, headers, body });
}

const codeOf = ({ text }: Answer): string => JSON.parse(text).code;

/** What an auditor's own records are found by, and by what else. */
async function search(who: string, query: Record<string, string> = {}) {
  const found = await callNative(
    person(who),
    'GET',
    '/_/v1/records',
    undefined,
    Object.entries(query),
  );
  return found.records as { index: number; tenant: string; bucketTenant?: string; key?: string }[];
}

describe('an auditor', () => {
  const object: Message = { method: 'GET', path: '/raw/a' };
  const bucket: Message = { method: 'GET', path: '/raw' };
  const sub = (message: Message, name: string): Message => ({ ...message, query: [[name, '']] });

  it.each<[string, Message]>([
    ['GetObject', object],
    ['HeadObject', { ...object, method: 'HEAD' }],
    ['GetObject of a range', { ...object, headers: { range: 'bytes=0-0' } }],
    ['GetObjectTagging', sub(object, 'tagging')],
    ['ListParts', { ...object, query: [['uploadId', 'x']] }],
    ['HeadBucket', { ...bucket, method: 'HEAD' }],
    ['ListObjects', bucket],
    ['ListObjectsV2', { ...bucket, query: [['list-type', '2']] }],
    ['ListMultipartUploads', sub(bucket, 'uploads')],
    ['GetBucketLocation', sub(bucket, 'location')],
    ['GetBucketPolicy', sub(bucket, 'policy')],
    ['GetBucketPolicyStatus', sub(bucket, 'policyStatus')],
    ['ListBuckets', { method: 'GET', path: '/' }],
    ['CopyObject', { method: 'PUT', path: '/raw/b', headers: { 'x-amz-copy-source': '/raw/a' } }],
  ])('is refused %s, although a grant allows it', async (_operation, message) => {
    const { status, text } = await send(person('cms/ears'), message);
    expect(status).toBe(403);
    expect(text).not.toContain('hello');
  });

  it('sees only the records of its tenant and about its buckets, with receipts', async () => {
    const seen = await search('cms/ears');
    expect(seen.length).toBeGreaterThan(3);
    for (const { tenant, bucketTenant } of seen) expect([tenant, bucketTenant]).toContain('cms');
    const foreign = seen.find(({ tenant }) => tenant === 'atlas');
    expect(foreign).toMatchObject({ bucketTenant: 'cms', key: 'a' });
    const path = `/_/v1/receipts/${foreign?.index}`;
    const receipt = await send(person('cms/ears'), { method: 'GET', path });
    expect(verifyReceipt(receipt.text, { keys })).toMatchObject({ ok: true });
    const operators = (await search('cms/ears', { tenant: 'default' })).length;
    expect(operators).toBe(0);
  });

  it('takes a bundle of its tenant that proves that no record is missing', async () => {
    const { head, lines } = await takeBundle(person('cms/ears'), 'cms');
    const { from, to, records, delivered, erased } = await verified(lines);
    expect([from, to, erased]).toEqual([0, head.to, 0]);
    expect(delivered).toHaveLength(records);
    const before = (await search('cms/boss', { limit: '1000' })).filter(({ index }) => index < to);
    expect(delivered.map(({ index }) => index)).toEqual(before.map(({ index }) => index));
  });

  it('takes a bundle of a time, or of indexes, which it says', async () => {
    const all = await search('cms/ears', { limit: '1000' });
    const middle = all[3] as { index: number; time?: string };
    const time = middle.time as string;
    const byTime = await takeBundle(person('cms/ears'), 'cms', [['from', time]]);
    const timed = await verified(byTime.lines);
    expect(timed.fromTime).toBe(time);
    expect(timed.from).toBeLessThanOrEqual(middle.index);
    expect(timed.delivered.map(({ index }) => index)).toContain(middle.index);
    const indexes = [
      ['from', String(middle.index)],
      ['to', String(middle.index + 2)],
    ] as const;
    const byIndex = await verified((await takeBundle(person('cms/ears'), 'cms', indexes)).lines);
    expect(byIndex).toMatchObject({ from: middle.index, to: middle.index + 2, fromTime: null });
  });

  it.each(['cms/alice', 'atlas/eyes', 'atlas/chief', 'atlas/eve'])(
    'is who may: %s gets no bundle of cms, neither its beginning nor a part',
    async (who) => {
      for (const path of ['/_/v1/tenants/cms/bundle', '/_/v1/tenants/cms/bundle/0']) {
        const { status, text } = await send(person(who), { method: 'GET', path });
        expect([403, 404]).toContain(status);
        expect(text).not.toContain('leaves');
      }
    },
  );

  it('is told plainly of a range that there is not', async () => {
    for (const index of ['999999', '-1', 'x']) {
      const path = `/_/v1/tenants/cms/bundle/${index}`;
      const answer = await send(person('cms/ears'), { method: 'GET', path });
      expect([answer.status, codeOf(answer)]).toEqual([404, 'NoSuchRecord']);
    }
    const { lines } = await takeBundle(person('cms/ears'), 'cms', [['from', '999999']]);
    expect(await verified(lines)).toMatchObject({ records: 0 });
  });
});

/** Of all files in the data folder. */
function folderHas(text: string): boolean {
  const files = readdirSync(gateway.dataDir).filter((name) => name.includes('.db'));
  return files.some((name) => readFileSync(join(gateway.dataDir, name)).includes(text));
}

describe('an erasure', () => {
  /** The index of the record of a PUT of this key. */
  async function written(key: string): Promise<number> {
    const answer = await must(put('cms/alice', `/raw/${key}`, 'x'));
    return Number(answer.headers['x-bursar-receipt']);
  }

  /** The same of what a guest did in a bucket of cms. */
  async function inRaw(): Promise<number> {
    const asked: Message = { method: 'DELETE', path: '/cms:raw/nothing' };
    const answer = await must(send(person('atlas/eve'), asked));
    return Number(answer.headers['x-bursar-receipt']);
  }

  /** Of all that is charged: what comes later is not. */
  async function usageByAction(): Promise<object[]> {
    return (await callNative(person('cms/boss'), 'GET', '/_/v1/usage/tenant:cms/by/action')).rows;
  }

  it('takes a record away for good, and says so where it was', async () => {
    const index = await written('private-name-of-somebody');
    await must(
      send(person('cms/alice'), { method: 'DELETE', path: '/raw/private-name-of-somebody' }),
    );
    const others = await search('cms/boss', { prefix: 'private-name', limit: '10' });
    const all = others.map((one) => one.index);
    expect(all).toContain(index);
    expect(folderHas('private-name-of-somebody')).toBe(true);
    const usageBefore = await usageByAction();
    expect(usageBefore.length).toBeGreaterThan(2);

    const answer = await must(erase('cms/boss', 'cms', all));
    const act = Number(answer.headers['x-bursar-receipt']);

    const path = `/_/v1/receipts/${index}`;
    const receipt = await send(person('cms/ears'), { method: 'GET', path });
    expect([receipt.status, codeOf(receipt)]).toEqual([410, 'RecordErased']);
    expect(await search('cms/boss', { prefix: 'private-name' })).toEqual([]);
    const bundle = await verified((await takeBundle(person('cms/ears'), 'cms')).lines);
    expect(bundle).toMatchObject({ erased: all.length, unexplained: [] });
    const told = bundle.delivered.find((one) => one.index === act);
    expect(told).toMatchObject({
      action: 'bursar:EraseRecords',
      change: { erased: all, reason: 'asked for' },
    });
    expect(await usageByAction()).toEqual(usageBefore);
  });

  it('leaves nothing of the record in the database, nor in the log of its pages', async () => {
    const index = await written('name-that-must-not-stay');
    await must(
      send(person('cms/alice'), { method: 'DELETE', path: '/raw/name-that-must-not-stay' }),
    );
    const found = await search('cms/boss', { prefix: 'name-that-must-not-stay' });
    expect(found.map((one) => one.index)).toContain(index);
    await must(
      erase(
        'cms/boss',
        'cms',
        found.map((one) => one.index),
      ),
    );
    const asRecorded = '"key":"name-that-must-not-stay"';
    await vi.waitFor(() => expect(folderHas(asRecorded)).toBe(false), { timeout: 20_000 });
  });

  it('waits for nobody who reads for long, and is in no page either once that ends', async () => {
    const index = await written('name-that-is-being-read');
    const path = join(gateway.dataDir, 'bursar.db');
    const reader = openDatabase(path, { readonly: true, cacheKib: 1024 });
    reader.exec('BEGIN');
    await reader.tx.get('SELECT max(idx) FROM records');
    await must(erase('cms/boss', 'cms', [index]));
    const asRecorded = '"key":"name-that-is-being-read"';
    expect(folderHas(asRecorded)).toBe(true);
    reader.exec('COMMIT');
    reader.close();
    await vi.waitFor(() => expect(folderHas(asRecorded)).toBe(false), { timeout: 20_000 });
  });

  it.each(['cms/ears', 'cms/alice', 'atlas/chief'])('is not for %s', async (who) => {
    const index = await written('stays');
    const answer = await erase(who, 'cms', [index]);
    expect([403, 404]).toContain(answer.status);
    const path = `/_/v1/receipts/${index}`;
    expect((await send(person('cms/ears'), { method: 'GET', path })).status).toBe(200);
  });

  it('is of what the tenant did: what others did in its buckets is theirs too', async () => {
    const foreign = (await search('cms/boss', { limit: '1000' })).find(
      ({ tenant }) => tenant === 'atlas',
    );
    const answer = await erase('cms/boss', 'cms', [foreign?.index as number]);
    expect([answer.status, codeOf(answer)]).toEqual([404, 'NoSuchRecord']);
  });

  it('is told to the tenant whose bucket it was, with its concern and who did it', async () => {
    const [first, second] = [await inRaw(), await inRaw()];
    await must(put('atlas/chief', '/own'));
    const made = (await search('atlas/chief', { bucket: 'own' })).at(-1)?.index as number;
    const answer = await must(erase('atlas/chief', 'atlas', [first, made, second]));
    const act = Number(answer.headers['x-bursar-receipt']);

    const notices = { action: 'bursar:ErasureNotice', limit: '1000' };
    const acts = { action: 'bursar:EraseRecords', limit: '1000' };
    const told = (await search('cms/ears', notices)).at(-1);
    expect(told).toMatchObject({
      ...{ tenant: 'atlas', principal: 'chief', bucketTenant: 'cms', status: 200 },
      change: { act, erased: [first, second], reason: 'asked for' },
    });
    expect((await search('cms/ears', acts)).map(({ index }) => index)).not.toContain(act);
    const own = (await search('atlas/eyes', acts)).at(-1);
    expect(own).toMatchObject({ index: act, change: { erased: [first, made, second] } });

    for (const [who, tenant] of [
      ['cms/ears', 'cms'],
      ['atlas/eyes', 'atlas'],
    ] as const) {
      const { lines } = await takeBundle(person(who), tenant);
      expect((await verified(lines)).unexplained).toEqual([]);
      const by = tenant === 'cms' ? told?.index : act;
      expect(lines).toContain(`{"index":${first},"erasedBy":${by}}`);
    }
    const cover = await erase('atlas/chief', 'atlas', [told?.index as number]);
    expect([cover.status, codeOf(cover)]).toEqual([409, 'InUse']);
  });

  it('by an operator is told to both tenants', async () => {
    const index = await inRaw();
    const path = '/_/v1/tenants/atlas/erasures';
    await callNative(target, 'POST', path, { indexes: [index], reason: 'by law' });
    for (const [who, tenant] of [
      ['cms/ears', 'cms'],
      ['atlas/eyes', 'atlas'],
    ] as const) {
      const action = tenant === 'cms' ? 'bursar:ErasureNotice' : 'bursar:EraseRecords';
      const told = (await search(who, { action, limit: '1000' })).at(-1);
      expect(told).toMatchObject({
        ...{ tenant: 'default', bucketTenant: tenant },
        change: { erased: [index], reason: 'by law' },
      });
      const { lines } = await takeBundle(person(who), tenant);
      expect((await verified(lines)).unexplained).toEqual([]);
    }
  });

  it('is of all records that it names or of none', async () => {
    const index = await written('one-of-two');
    const answer = await erase('cms/boss', 'cms', [index, 999_999]);
    expect([answer.status, codeOf(answer)]).toEqual([404, 'NoSuchRecord']);
    expect(JSON.parse(answer.text).detail).toBe("Record 999999 is none of cms's own.");
    const path = `/_/v1/receipts/${index}`;
    expect((await send(person('cms/ears'), { method: 'GET', path })).status).toBe(200);
  });

  it('is not of what was erased before, nor of the act that did it', async () => {
    const index = await written('twice');
    const act = await must(erase('cms/boss', 'cms', [index]));
    const again = await erase('cms/boss', 'cms', [index]);
    expect([again.status, codeOf(again)]).toEqual([410, 'RecordErased']);
    const cover = await erase('cms/boss', 'cms', [Number(act.headers['x-bursar-receipt'])]);
    expect([cover.status, codeOf(cover)]).toEqual([409, 'InUse']);
  });

  it.each([
    ['no index', { indexes: [], reason: 'x' }],
    ['an index twice', { indexes: [1, 1], reason: 'x' }],
    ['a negative index', { indexes: [-1], reason: 'x' }],
    ['more than 100', { indexes: Array.from({ length: 101 }, (_, i) => i), reason: 'x' }],
    ['no reason', { indexes: [1], reason: '' }],
    ['a reason that commands a terminal', { indexes: [1], reason: '\u001b[2J' }],
    ['a reason without end', { indexes: [1], reason: 'x'.repeat(501) }],
  ])('with %s is refused', async (_what, body) => {
    const answer = await send(person('cms/boss'), {
      ...{ method: 'POST', path: '/_/v1/tenants/cms/erasures', body: JSON.stringify(body) },
      headers: { 'content-type': 'application/json' },
    });
    expect(answer.status).toBe(400);
  });
});
