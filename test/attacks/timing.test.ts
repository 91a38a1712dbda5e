// Who may not know whether something is there learns it from no answer's time. Thousands of pairs
// of requests, one about what is there and one about what is not; an alarm is five standard errors.
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  as,
  callNative,
  elementOf,
  type Message,
  newPrincipal,
  send,
  signMessage,
  startEmbeddedTarget,
  type Target,
  targetOf,
} from '../protocol/target.ts';
import { type PairVerdict, type TimedPair, timePairs } from '../tooling/timed-pairs.ts';

const rounds = 2000;
const alarm = 5;
const perSide = 6;

let target: Target;
let verdicts: Record<string, PairVerdict>;

/** What is asked in each pair, and all that may be answered. */
const asked: Record<string, { pair: TimedPair; statuses: string[] }> = {};

async function put(path: string, message: Partial<Message> = {}, who = target): Promise<string> {
  const answer = await send(who, { method: 'PUT', path, ...message });
  if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return answer.text;
}

function wire(
  message: Pick<Message, 'method' | 'path' | 'query' | 'headers'>,
  who?: Target,
): Buffer {
  const host = new URL(target.endpoint).host;
  const { method } = message;
  const { path, headers } = who
    ? signMessage(who, message)
    : { path: targetOf(message.path, message.query), headers: { host, ...message.headers } };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1');
}

interface Question {
  there: string[];
  missing: string[];
  ask: (name: string) => Pick<Message, 'method' | 'path' | 'query' | 'headers'>;
  who?: Target | undefined;
  statuses: string[];
}

function guard(title: string, { there, missing, ask, who, statuses }: Question): void {
  const all = (names: string[]) => names.map((name) => wire(ask(name), who));
  asked[title] = { pair: { there: all(there), missing: all(missing) }, statuses };
}

/** Names of equal length, of which nobody can say which are there. */
function names(count = perSide): string[] {
  return Array.from({ length: count }, () => `n${randomBytes(8).toString('hex')}`);
}

const policyOf = (bucket: string, statements: object[]): string =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: statements.map((one) => ({
      Resource: `arn:aws:s3:::${bucket}/*`,
      Action: 's3:GetObject',
      ...one,
    })),
  });

const get = (bucket: string) => (key: string) => ({ method: 'GET', path: `/${bucket}/${key}` });

async function prepare(): Promise<void> {
  await callNative(target, 'POST', '/_/v1/tenants', { name: 'atlas' });
  const stranger = as(target, await newPrincipal(target, { tenant: 'atlas' }));
  const member = as(target, await newPrincipal(target));
  const owner = as(target, await newPrincipal(target, { role: 'admin' }));

  await put('/private');
  const [keys, noKeys] = [names(), names()];
  for (const key of keys) await put(`/private/${key}`, { body: 'x'.repeat(1000) });
  const ofKeys = { there: keys, missing: noKeys, ask: get('private'), statuses: ['403'] };
  guard('a control: who may list, of keys', { ...ofKeys, who: owner, statuses: ['200', '404'] });
  guard('keys, without credentials', ofKeys);
  const head = (key: string) => ({ ...get('private')(key), method: 'HEAD' });
  guard('keys in a HEAD, without credentials', { ...ofKeys, ask: head });
  guard('keys, by a member without rights', { ...ofKeys, who: member });
  guard('keys, by another tenant', { ...ofKeys, ask: get('default:private'), who: stranger });

  await put('/tagged');
  await send(owner, { method: 'DELETE', path: '/tagged', query: [['publicAccessBlock', '']] });
  const condition = { StringEquals: { 's3:ExistingObjectTag/open': 'yes' } };
  const byTags = policyOf('tagged', [{ Effect: 'Allow', Principal: '*', Condition: condition }]);
  await put('/tagged', { query: [['policy', '']], body: byTags });
  for (const key of keys) await put(`/tagged/${key}`, { body: 'x'.repeat(1000) });
  guard('keys where a rule asks for tags, without credentials', { ...ofKeys, ask: get('tagged') });

  const [buckets, noBuckets] = [names(), names()];
  for (const bucket of buckets) {
    await put(`/${bucket}`);
    const insecure = { Bool: { 'aws:SecureTransport': 'false' } };
    const statements = [
      { Effect: 'Deny', Principal: '*', Action: 's3:*', Condition: insecure },
      ...names(8).map((name) => ({ Effect: 'Allow', Principal: { AWS: `default/${name}` } })),
    ];
    await put(`/${bucket}`, { query: [['policy', '']], body: policyOf(bucket, statements) });
  }
  const ofBuckets = { there: buckets, missing: noBuckets, statuses: ['403'] };
  const key = (bucket: string) => ({ method: 'GET', path: `/${bucket}/k` });
  const list = (bucket: string) => ({ method: 'GET', path: `/default:${bucket}` });
  const page = { origin: 'https://page.example' };
  guard('buckets, without credentials', { ...ofBuckets, ask: key });
  guard('buckets, by a page of another origin', {
    ...ofBuckets,
    ask: (bucket) => ({ ...key(bucket), headers: page }),
  });
  guard('buckets, by another tenant', { ...ofBuckets, ask: list, who: stranger });
  guard('buckets, in a list of parts, by another tenant', {
    ...ofBuckets,
    ask: (bucket) => ({
      method: 'GET',
      path: `/default:${bucket}/k`,
      query: [['uploadId', 'f'.repeat(32)]],
    }),
    who: stranger,
  });

  const [tenants, noTenants] = [names(), names()];
  for (const name of tenants) await callNative(target, 'POST', '/_/v1/tenants', { name });
  const ofTenants = { there: tenants, missing: noTenants, who: stranger };
  guard('tenants, by their buckets', {
    ...ofTenants,
    ask: (tenant) => ({ method: 'GET', path: `/${tenant}:bucket/k` }),
    statuses: ['403'],
  });
  guard('tenants, in the native API', {
    ...ofTenants,
    ask: (tenant) => ({ method: 'GET', path: `/_/v1/tenants/${tenant}/principals` }),
    statuses: ['404'],
  });

  const [people, nobody] = [names(), names()];
  for (const name of people) {
    await callNative(target, 'POST', '/_/v1/tenants/default/principals', { name, role: 'member' });
  }
  const person = (name: string) => ({
    method: 'GET',
    path: `/_/v1/tenants/default/principals/${name}`,
  });
  const ofPeople = { there: people, missing: nobody, ask: person };
  guard('principals, by a member', { ...ofPeople, who: member, statuses: ['403'] });
  guard('principals, by another tenant', { ...ofPeople, who: stranger, statuses: ['404'] });

  const uploads: string[] = [];
  for (let i = 0; i < perSide; i++) {
    const begun = await send(target, {
      method: 'POST',
      path: '/private/upload',
      query: [['uploads', '']],
    });
    uploads.push(elementOf(begun.text, 'UploadId') as string);
  }
  const similar = (id: string) => randomBytes(id.length).toString('hex').slice(0, id.length);
  guard('upload ids, by a member without rights', {
    there: uploads,
    missing: uploads.map(similar),
    ask: (id) => ({ method: 'GET', path: '/private/upload', query: [['uploadId', id]] }),
    who: member,
    statuses: ['403'],
  });

  const scope = 'storage.read:/private';
  const ids: string[] = [];
  const shares: string[] = [];
  for (const name of keys) {
    ids.push((await callNative(target, 'POST', '/_/v1/tokens', { scope })).jti);
    const wish = { bucket: 'private', key: name };
    shares.push((await callNative(target, 'POST', '/_/v1/shares', wish)).id);
  }
  const invented = (id: string) => randomBytes(id.length).toString('base64url').slice(0, id.length);
  guard('tokens, by a member', {
    there: ids,
    missing: ids.map(invented),
    ask: (id) => ({ method: 'GET', path: `/_/v1/tokens/${id}` }),
    who: member,
    statuses: ['404'],
  });
  const secret = invented('x'.repeat(32));
  guard('share links', {
    there: shares,
    missing: shares.map(invented),
    ask: (id) => ({ method: 'GET', path: `/_/share/${id}.${secret}` }),
    statuses: ['404'],
  });
}

describe.runIf(process.env.BURSAR_FULL === '1')('the time of a refusal', () => {
  beforeAll(async () => {
    target = await startEmbeddedTarget();
    await prepare();
    const pairs = Object.fromEntries(Object.entries(asked).map(([name, { pair }]) => [name, pair]));
    verdicts = await timePairs(target.endpoint, pairs, rounds);
    for (const [name, { differenceUs, errors }] of Object.entries(verdicts)) {
      console.log(`${name}: ${differenceUs.toFixed(2)} µs, ${errors.toFixed(1)} errors`);
    }
  }, 900_000);

  afterAll(() => target?.stop(), 60_000);

  it('is measured finely enough to tell what may be known', () => {
    const { errors } = verdicts['a control: who may list, of keys'] as PairVerdict;
    expect(Math.abs(errors)).toBeGreaterThan(alarm);
  });

  it('tells of no key, bucket, tenant, principal, upload, token or share link', () => {
    const told = Object.entries(verdicts).filter(
      ([name, { errors }]) => !name.startsWith('a control') && Math.abs(errors) > alarm,
    );
    expect(
      told.map(([name, { differenceUs, errors }]) => ({ name, differenceUs, errors })),
    ).toEqual([]);
    for (const [name, { statuses }] of Object.entries(verdicts)) {
      expect([name, [...statuses].sort()]).toEqual([name, asked[name]?.statuses]);
    }
  });
});
