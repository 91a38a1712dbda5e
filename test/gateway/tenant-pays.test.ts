// A bucket of whose reads its tenant pays: who reads it pays as ever, and its owner does not, to
// the last request; and what the records say adds up to what the accounts have.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  as,
  callNative,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { putLimits } from '../tooling/limits.ts';

let target: Target;
let alice: Target;
let dana: Target;
let eve: Target;

const bucket = '/_/v1/tenants/cms/buckets/data';
const owners = ['bucket:cms/data', 'tenant:cms'];
const pay = (readsPaidBy: string) => callNative(target, 'PATCH', bucket, { readsPaidBy });
const read = (who: Target) => {
  const path = who === eve ? '/cms:data/k' : '/data/k';
  return send(who, { method: 'GET', path });
};

interface Usage {
  account: string;
  requests: number;
  readsPaidBy: string | null;
}

async function usage(): Promise<Usage[]> {
  return (await callNative(target, 'GET', '/_/v1/usage', undefined, [['limit', '200']])).usage;
}

async function requestsOf(account: string): Promise<number> {
  // What was recorded before is charged by then.
  await send(dana, { method: 'PUT', path: '/danas/last', body: 'x' });
  return (await usage()).find((one) => one.account === account)?.requests ?? 0;
}

async function chargedTo(principal: string, action = 's3:GetObject'): Promise<string[]> {
  const question = { action, resource: 'cms:data/k', principal };
  return (await callNative(target, 'POST', '/_/v1/explain', question)).chargedTo;
}

beforeAll(async () => {
  target = await startEmbeddedTarget();
  for (const name of ['cms', 'dune']) await callNative(target, 'POST', '/_/v1/tenants', { name });
  alice = as(target, await newPrincipal(target, { tenant: 'cms', name: 'alice' }));
  dana = as(target, await newPrincipal(target, { tenant: 'cms', name: 'dana' }));
  eve = as(target, await newPrincipal(target, { tenant: 'dune', name: 'eve' }));
  await send(alice, { method: 'PUT', path: '/data' });
  await send(dana, { method: 'PUT', path: '/danas' });
  await send(alice, { method: 'PUT', path: '/data/k', body: 'worth something' });
  await callNative(target, 'PUT', '/_/v1/tenants/cms/grants/readers', {
    ...{ effect: 'allow', subjects: ['tenant:cms', 'tenant:dune'], bucket: 'data' },
    actions: ['s3:*'],
  });
}, 60_000);

afterAll(() => target?.stop(), 60_000);

describe('a bucket whose tenant pays for reads', () => {
  it('says so, and is explained', async () => {
    expect((await callNative(target, 'GET', bucket)).readsPaidBy).toBe('owner');
    expect((await pay('tenant')).readsPaidBy).toBe('tenant');
    expect((await callNative(target, 'GET', bucket)).readsPaidBy).toBe('tenant');
    const { readsPaidBy } = (await usage()).find(
      ({ account }) => account === 'bucket:cms/data',
    ) as Usage;
    expect(readsPaidBy).toBe('tenant');
    expect(await chargedTo('cms/dana')).toEqual([...owners, 'principal:cms/dana']);
    expect(await chargedTo('dune/eve')).toEqual([...owners, 'principal:dune/eve', 'tenant:dune']);
    expect(await chargedTo('cms/alice')).toEqual([...owners, 'principal:cms/alice']);
    expect(await chargedTo('cms/dana', 's3:PutObject')).toContain('principal:cms/alice');
  });

  it('charges its readers, itself and its tenant, and not its owner', async () => {
    const of = ['principal:cms/alice', 'principal:cms/dana', 'principal:dune/eve', ...owners];
    const before = await Promise.all(of.map(requestsOf));
    for (let i = 0; i < 4; i++) expect((await read(dana)).status).toBe(200);
    for (let i = 0; i < 3; i++) expect((await read(eve)).status).toBe(200);
    expect((await read(alice)).status).toBe(200);
    await expect.poll(() => requestsOf('bucket:cms/data')).toBe((before[3] as number) + 8);
    expect(await requestsOf('principal:cms/alice')).toBe((before[0] as number) + 1);
    expect(await requestsOf('principal:dune/eve')).toBe((before[2] as number) + 3);
    await putLimits(target, 'principal:cms/alice', { requests: { total: 1 } });
    expect((await read(dana)).status).toBe(200);
    expect((await read(alice)).code).toBe('QuotaExceeded');
    const written = await send(dana, { method: 'PUT', path: '/data/new', body: 'x' });
    expect(written.code).toBe('QuotaExceeded');
  });

  it('has records that add up to what the accounts have', async () => {
    await requestsOf('tenant:cms');
    const dir = mkdtempSync(join(tmpdir(), 'bursar-sums-'));
    const all = await usage();
    const records: object[] = [];
    for (let after = ''; ; ) {
      const query = [['limit', '1000'], ...(after === '' ? [] : [['after', after]])] as const;
      const page = await callNative(target, 'GET', '/_/v1/records', undefined, query as never);
      records.push(...page.records);
      if (page.next === null) break;
      after = page.next;
    }
    expect(records.filter((one) => 'payer' in one)).toHaveLength(9);
    const [usageFile, recordsFile] = [join(dir, 'usage.json'), join(dir, 'records.jsonl')];
    writeFileSync(usageFile, JSON.stringify(all));
    writeFileSync(recordsFile, records.map((one) => `${JSON.stringify(one)}\n`).join(''));
    const script = resolve('docs/audit/sum-records.mjs');
    const said = execFileSync(process.execPath, [script, usageFile, recordsFile]).toString();
    expect(said).toMatch(/ 0 differences/);
    rmSync(dir, { recursive: true });
  });

  it('is one of three, each in the place of the others', async () => {
    const query = [['requestPayment', '']] as const;
    const payerOf = async () =>
      /<Payer>(\w+)/.exec((await send(alice, { method: 'GET', path: '/data', query })).text)?.[1];
    await putLimits(target, 'principal:cms/alice', { requests: { total: 1_000_000 } });
    expect(await payerOf()).toBe('BucketOwner');
    await pay('requester');
    expect(await payerOf()).toBe('Requester');
    expect((await read(eve)).code).toBe('AccessDenied');
    await pay('tenant');
    expect((await read(eve)).status).toBe(200);
    const body =
      '<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>';
    await send(alice, { method: 'PUT', path: '/data', query, body });
    expect((await callNative(target, 'GET', bucket)).readsPaidBy).toBe('owner');
    expect(await chargedTo('cms/dana')).toContain('principal:cms/alice');
    const many = { readsPaidBy: 'owner', recordReads: 'prompt' };
    await expect(callNative(target, 'PATCH', bucket, many)).rejects.toThrow();
    await expect(pay('somebody')).rejects.toThrow();
    const headers = { 'content-type': 'application/json' };
    const change = { method: 'PATCH', path: bucket, headers, body: '{"readsPaidBy":"tenant"}' };
    expect((await send(alice, change)).status).toBe(403);
  });
});
