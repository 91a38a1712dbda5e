// Rights that are taken away while a request is under way: what it asked for is not done, whatever
// credential and operation it came with, and what does not concern it does not hold it up.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formBody, formHeaders, signPolicy } from '../protocol/forms.ts';
import {
  type Answer,
  as,
  callNative,
  elementOf,
  findRecords,
  type Keys,
  type Message,
  newName,
  newPrincipal,
  patternOf,
  region,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { presignUrl } from '../tooling/presign.ts';
import { type HeldRequest, hold, holdRaw } from './held-request.ts';

let target: Target;
/** Owns `open` and is never touched. */
let owner: Target;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  owner = as(target, await newPrincipal(target, { name: 'owner' }));
  await put(owner, '/open');
  await callNative(target, 'POST', '/_/v1/tenants', { name: 'cms' });
}, 60_000);

afterAll(() => target?.stop(), 60_000);

const principals = '/_/v1/tenants/default/principals';

async function put(who: Target, path: string, body: string | Buffer = ''): Promise<Answer> {
  const answer = await send(who, { method: 'PUT', path, body });
  expect(answer.status, answer.text).toBe(200);
  return answer;
}

interface Person {
  name: string;
  target: Target;
  keys: Keys;
  /** A bucket of their own. */
  bucket: string;
}

/** Somebody new, with a bucket. */
async function newPerson(role = 'member'): Promise<Person> {
  const name = newName('person');
  const keys = await newPrincipal(target, { name, role });
  const bucket = newName('of');
  await put(as(target, keys), `/${bucket}`);
  return { name, keys, target: as(target, keys), bucket };
}

function deactivate({ name }: Person): Promise<unknown> {
  return callNative(target, 'PATCH', `${principals}/${name}`, { active: false });
}

/**
 * Something else changes, and a byte comes: the gateway asks again whether the body may go on, and
 * not for a second after that. What is taken away then, only the commit finds.
 */
async function askedJustNow(held: HeldRequest): Promise<void> {
  const nobody = newName('nobody');
  await newPrincipal(target, { name: nobody });
  await callNative(target, 'PATCH', `${principals}/${nobody}`, { active: false });
  held.trickle();
  await callNative(target, 'GET', '/_/v1/whoami');
}

/** What the operator finds under a key of somebody's bucket. */
async function isThere(bucket: string, key: string): Promise<boolean> {
  const answer = await send(target, {
    method: 'GET',
    path: `/${bucket}`,
    query: [['prefix', key]],
  });
  return answer.text.includes(`<Key>${key}</Key>`);
}

async function lastRecord(person: Person) {
  return (await findRecords(target, [['principal', person.name]])).at(-1);
}

const large = patternOf(300_000);

describe('a principal who is switched off', () => {
  it.each([
    ['of a few bytes', 'small'],
    ['of several chunks', large],
  ])('finishes no PutObject %s; what came in is charged and recorded', async (_, body) => {
    const person = await newPerson();
    const path = `/${person.bucket}/key`;
    const held = await hold(person.target, { method: 'PUT', path, body }, { heldBytes: 2 });
    await askedJustNow(held);
    await deactivate(person);
    expect(await held.finish()).toMatchObject({ status: 403, code: 'InvalidAccessKeyId' });
    expect(await isThere(person.bucket, 'key')).toBe(false);
    const record = await lastRecord(person);
    expect(record).toMatchObject({ action: 's3:PutObject', error: 'InvalidAccessKeyId' });
    expect(record).toMatchObject({ bytesIn: body.length, status: 403 });
    expect(Number(record.cost)).toBeGreaterThan(0);
  });

  it('publishes no bucket, and changes no setting of one', async () => {
    const settings: [string, string][] = [
      ['policy', policyOf('Allow', '*', 's3:GetObject', 'BUCKET/*')],
      ['versioning', '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>'],
      ['tagging', '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>'],
    ];
    const person = await newPerson('admin');
    const all: HeldRequest[] = [];
    for (const [name, text] of settings) {
      const body = text.replaceAll('BUCKET', person.bucket);
      const md5 = {} as Record<string, string>;
      const message = {
        method: 'PUT',
        path: `/${person.bucket}`,
        query: [[name, '']] as const,
        body,
      };
      all.push(await hold(person.target, { ...message, headers: { ...md5, ...digestOf(body) } }));
    }
    await deactivate(person);
    for (const held of all) {
      expect(await held.finish()).toMatchObject({ status: 403, code: 'InvalidAccessKeyId' });
    }
    for (const [name] of settings) {
      const message = { method: 'GET', path: `/${person.bucket}`, query: [[name, '']] as const };
      const { status, text } = await send(target, message);
      expect([404, 200]).toContain(status);
      expect(text).not.toContain('Enabled');
      expect(status === 200 ? text : '<Tagging').not.toContain('<Tag>');
    }
  });

  it('uploads no part, completes no upload, deletes nothing of a list', async () => {
    const person = await newPerson();
    const path = `/${person.bucket}/parts`;
    const begun = await send(person.target, { method: 'POST', path, query: [['uploads', '']] });
    const uploadId = elementOf(begun.text, 'UploadId') ?? '';
    const part = (number: number): Message => ({
      ...{ method: 'PUT', path, body: 'part' },
      query: [['partNumber', String(number)] as const, ['uploadId', uploadId] as const],
    });
    const { headers } = await send(person.target, part(1));
    const list =
      `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${headers.etag}</ETag>` +
      '</Part></CompleteMultipartUpload>';
    await put(person.target, `/${person.bucket}/kept`, 'kept');
    const keys = '<Delete><Object><Key>kept</Key></Object></Delete>';
    const all = [
      await hold(person.target, part(2)),
      await hold(person.target, {
        method: 'POST',
        path,
        query: [['uploadId', uploadId]],
        body: list,
      }),
      await hold(person.target, {
        ...{ method: 'POST', path: `/${person.bucket}`, query: [['delete', '']], body: keys },
        headers: digestOf(keys),
      }),
    ];
    await deactivate(person);
    for (const held of all) {
      expect(await held.finish()).toMatchObject({ code: 'InvalidAccessKeyId' });
    }
    const { text } = await send(target, { method: 'GET', path, query: [['uploadId', uploadId]] });
    expect(text.match(/<PartNumber>/g)).toHaveLength(1);
    expect(await isThere(person.bucket, 'kept')).toBe(true);
    expect(await isThere(person.bucket, 'parts')).toBe(false);
  });

  it('is told so while a long body comes', async () => {
    const person = await newPerson();
    const message = { method: 'PUT', path: `/${person.bucket}/key`, body: large };
    const held = await hold(person.target, message, { heldBytes: 3 });
    await deactivate(person);
    held.trickle();
    expect(await held.answer).toMatchObject({ status: 403, code: 'InvalidAccessKeyId' });
    expect(await lastRecord(person)).toMatchObject({ bytesIn: large.length - 2, status: 403 });
  });
});

function digestOf(body: string): Record<string, string> {
  return { 'content-md5': createHash('md5').update(body).digest('base64') };
}

function policyOf(effect: string, principal: string, action: string, resource: string): string {
  const statement = { Effect: effect, Principal: principal, Action: action };
  const Resource = `arn:aws:s3:::${resource}`;
  return JSON.stringify({ Version: '2012-10-17', Statement: { ...statement, Resource } });
}

describe('whatever the credential', () => {
  const body = 'what is written';
  const late = { heldBytes: 2 };

  /** Who puts with it, how, and what takes it back. */
  type Case = (person: Person) => Promise<{ held: HeldRequest; revoke: () => Promise<unknown> }>;

  async function tokenOf({ target: by, bucket }: Person) {
    const scope = `storage.modify:/${bucket} storage.read:/${bucket}`;
    return callNative(by, 'POST', '/_/v1/tokens', { scope, expiresIn: 600 });
  }

  const cases: Record<string, Case> = {
    'an access key that is deleted': async (person) => ({
      held: await hold(person.target, { method: 'PUT', path: `/${person.bucket}/key`, body }, late),
      revoke: () => {
        const keys = `${principals}/${person.name}/access-keys/${person.keys.accessKeyId}`;
        return callNative(target, 'DELETE', keys);
      },
    }),
    'a principal that is deleted': async (person) => {
      const message = { method: 'PUT', path: `/${person.bucket}/key`, body };
      const held = await hold(person.target, message, late);
      const revoke = async () => {
        await send(target, { method: 'DELETE', path: `/${person.bucket}` });
        await callNative(target, 'DELETE', `${principals}/${person.name}`);
      };
      return { held, revoke };
    },
    'a presigned URL': async (person) => ({
      held: await holdRaw(target, presigned(person.keys, `/${person.bucket}/key`), late),
      revoke: () => deactivate(person),
    }),
    'a token that is revoked': async (person) => {
      const { token, jti } = await tokenOf(person);
      const headers = { authorization: `Bearer ${token}` };
      const message = { method: 'PUT', path: `/${person.bucket}/key`, headers, body };
      const revoke = () => callNative(person.target, 'DELETE', `/_/v1/tokens/${jti}`);
      return { held: await holdRaw(target, message, late), revoke };
    },
    'temporary keys of a token that is revoked': async (person) => {
      const { token, jti } = await tokenOf(person);
      const keys = await trade(token);
      const message = presigned(keys, `/${person.bucket}/key`, keys.sessionToken);
      const revoke = () => callNative(person.target, 'DELETE', `/_/v1/tokens/${jti}`);
      return { held: await holdRaw(target, message, late), revoke };
    },
    'a form': async (person) => {
      const fields = signPolicy(person.keys, [{ bucket: person.bucket }, { key: 'key' }]);
      const form = formBody([['key', 'key'], ...fields], { content: body });
      const length = { 'content-length': String(form.length) };
      const message = {
        method: 'POST',
        path: `/${person.bucket}`,
        headers: { ...formHeaders, ...length },
      };
      const held = await holdRaw(target, { ...message, body: form }, late);
      return { held, revoke: () => deactivate(person) };
    },
  };

  function presigned(keys: Keys, path: string, sessionToken?: string): Message {
    const url = presignUrl({
      ...{ accessKeyId: keys.accessKeyId, secret: keys.secretAccessKey, region },
      ...{ method: 'PUT', origin: target.endpoint, path, expiresSeconds: 60 },
      timeMs: Date.now(),
      ...(sessionToken && { query: [['X-Amz-Security-Token', sessionToken]] as const }),
    });
    return { method: 'PUT', path: url.slice(target.endpoint.length), body };
  }

  it.each(Object.entries(cases))('%s', async (_, begin) => {
    const person = await newPerson();
    const { held, revoke } = await begin(person);
    await askedJustNow(held);
    await revoke();
    expect((await held.finish()).status).toBe(403);
    expect(await isThere(person.bucket, 'key')).toBe(false);
    expect(await lastRecord(person)).toMatchObject({ status: 403 });
  });

  async function trade(token: string): Promise<Keys & { sessionToken: string }> {
    const form = new URLSearchParams({
      ...{ Action: 'AssumeRoleWithWebIdentity', Version: '2011-06-15', RoleSessionName: 'test' },
      ...{ RoleArn: 'arn:aws:iam::default:role/any', WebIdentityToken: token },
    }).toString();
    const response = await fetch(target.endpoint, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: form,
    });
    const text = await response.text();
    const read = (name: string): string => elementOf(text, name) ?? '';
    return {
      accessKeyId: read('AccessKeyId'),
      secretAccessKey: read('SecretAccessKey'),
      sessionToken: read('SessionToken').replaceAll('&#x2B;', '+'),
    };
  }
});

describe('whatever gave the right', () => {
  const put = (who: Target, path: string) => hold(who, { method: 'PUT', path, body: 'body' });
  const denied = { status: 403, code: 'AccessDenied' };

  it('a grant, a group, a mount: of another tenant', async () => {
    const keys = await newPrincipal(target, { tenant: 'cms', name: newName('guest') });
    const guest = as(target, keys);
    const grants = '/_/v1/tenants/default/grants/guests';
    const allow = (subject: string) => ({
      ...{ effect: 'allow', subjects: [subject], actions: ['s3:*'], bucket: 'open' },
    });
    await callNative(target, 'PUT', grants, allow('tenant:cms'));
    const path = '/default:open/guest';
    const first = await put(guest, path);
    await callNative(target, 'DELETE', grants);
    expect(await first.finish()).toMatchObject(denied);
    await callNative(target, 'PUT', grants, allow('tenant:cms'));
    const mounts = '/_/v1/tenants/cms/mounts/alias';
    await callNative(target, 'PUT', mounts, { bucketTenant: 'default', bucket: 'open' });
    const second = await put(guest, '/alias/guest');
    await callNative(target, 'DELETE', mounts);
    expect(await second.finish()).toMatchObject({ status: 404, code: 'NoSuchBucket' });
    expect(await isThere('open', 'guest')).toBe(false);
    await callNative(target, 'DELETE', grants);
  });

  it("a bucket's policy", async () => {
    const person = await newPerson();
    const policy = { method: 'PUT', path: `/${person.bucket}`, query: [['policy', '']] as const };
    const block = { ...policy, method: 'DELETE', query: [['publicAccessBlock', '']] as const };
    await send(person.target, block);
    const allow = policyOf('Allow', '*', 's3:PutObject', `${person.bucket}/*`);
    expect((await send(person.target, { ...policy, body: allow })).status).toBe(204);
    const stranger = { method: 'PUT', path: `/${person.bucket}/key`, headers: {}, body: 'body' };
    const all = [
      await holdRaw(target, stranger),
      await put(owner, `/${person.bucket}/key`),
      await put(person.target, `/${person.bucket}/own`),
    ];
    await send(person.target, { ...policy, method: 'DELETE' });
    const [anonymous, other, own] = await Promise.all(all.map((held) => held.finish()));
    expect(anonymous).toMatchObject(denied);
    expect(other).toMatchObject(denied);
    expect(own).toMatchObject({ status: 200 });
    expect(await isThere(person.bucket, 'key')).toBe(false);
  });

  it('a role: an admin who is one no more makes nobody an admin', async () => {
    const person = await newPerson('admin');
    const first = await put(person.target, '/open/by-admin');
    await callNative(target, 'PATCH', `${principals}/${person.name}`, { role: 'member' });
    expect(await first.finish()).toMatchObject(denied);
  });
});

describe('what does not concern a request', () => {
  it('does not hold it up: others are switched off, and grants are put', async () => {
    const person = await newPerson();
    const other = await newPerson();
    const small = await hold(person.target, {
      ...{ method: 'PUT', path: `/${person.bucket}/small`, body: 'a small body' },
    });
    const big = await hold(person.target, {
      ...{ method: 'PUT', path: `/${person.bucket}/large`, body: large },
    });
    await deactivate(other);
    const grant = '/_/v1/tenants/default/grants/unrelated';
    const rule = { effect: 'deny', subjects: ['tenant:cms'], actions: ['s3:*'], bucket: 'open' };
    await callNative(target, 'PUT', grant, rule);
    expect((await small.finish()).status).toBe(200);
    expect((await big.finish()).status).toBe(200);
    const read = (key: string) =>
      send(person.target, { method: 'GET', path: `/${person.bucket}/${key}` });
    expect((await read('small')).text).toBe('a small body');
    expect((await read('large')).body.equals(large)).toBe(true);
    const records = await findRecords(target, [['principal', person.name]]);
    const puts = records.filter(({ action }) => action === 's3:PutObject');
    expect(puts.map(({ bytesIn, status }) => [bytesIn, status])).toEqual([
      [12, 200],
      [large.length, 200],
    ]);
    await callNative(target, 'DELETE', grant);
  });

  it('nor does the time that passes: a presigned URL may expire while its body comes', async () => {
    const person = await newPerson();
    const url = presignUrl({
      ...{ accessKeyId: person.keys.accessKeyId, secret: person.keys.secretAccessKey, region },
      ...{ method: 'PUT', origin: target.endpoint, path: `/${person.bucket}/key` },
      ...{ expiresSeconds: 1, timeMs: Date.now() },
    });
    const path = url.slice(target.endpoint.length);
    const held = await holdRaw(target, { method: 'PUT', path, body: 'body' });
    await new Promise((resolve) => setTimeout(resolve, 1100));
    // A change that concerns it has it decided again, by the clock of its beginning.
    await callNative(target, 'PATCH', `${principals}/${person.name}`, { active: true });
    expect((await held.finish()).status).toBe(200);
  });
});
