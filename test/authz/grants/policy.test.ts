// Bucket policies: what is read, what is refused and with which words, and which are public.
import { describe, expect, it } from 'vitest';
import { policyBytesMax } from '#bursar/authz/grants/bounds.js';
import { parseGrant } from '#bursar/authz/grants/grant.js';
import { isPublic, parsePolicy } from '#bursar/authz/grants/policy.js';
import { Refusal } from '#bursar/core/errors.js';
import { ask, askList, decideBy, grant, person, policyOf, statement } from './fixture.ts';

const bucketArn = 'arn:aws:s3:::raw';

function refusalOf(text: string | Uint8Array): Refusal {
  try {
    parsePolicy(Buffer.from(text), { tenant: 'cms', name: 'raw' });
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error('the policy was taken');
}

function refusalOfStatement(change: object): string {
  const whole = { Version: '2012-10-17', Statement: [statement(change)] };
  const { code, message } = refusalOf(JSON.stringify(whole));
  expect(code).toBe('MalformedPolicy');
  return message;
}

describe('a policy', () => {
  it.each<[unknown, string, boolean]>([
    ['arn:aws:s3:::raw/*', 'a/b', true],
    ['arn:aws:s3:::raw/a*', 'ab/c', true],
    ['arn:aws:s3:::raw/raw/2026', 'raw/2026', true],
    ['arn:aws:s3:::raw/raw/2026', 'raw/2026/a', false],
    ['arn:aws:s3:::raw/raw/2026*', 'raw/20260', true],
    ['arn:aws:s3:::raw/raw/2026/*', 'raw/20260', false],
    ['arn:aws:s3:::raw/*.root', 'a/b.root', true],
    ['arn:aws:s3:::raw/*.root', 'a/b.rootx', false],
    ['arn:aws:s3:::raw/a?c', 'abc', true],
    ['arn:aws:s3:::raw/a?c', 'ac', false],
    ['arn:aws:s3:::raw*', 'a', true],
    ['arn:aws:s3::cms:raw/*', 'a', true],
    [['arn:aws:s3:::raw/x', 'arn:aws:s3:::raw/y'], 'y', true],
    ['arn:aws:s3:::raw/a.c', 'abc', false],
    ['arn:aws:s3:::raw/(a|b)', 'a', false],
    ['arn:aws:s3:::raw/a\nb*', 'a\nbc', true],
  ])('for %j covers %j: %s', (Resource, key, expected) => {
    expect(decideBy(policyOf(statement({ Resource })), ask({ key })).allowed).toBe(expected);
  });

  it.each<[unknown, boolean, boolean]>([
    [bucketArn, true, false],
    [[bucketArn, `${bucketArn}/*`], true, false],
    [`${bucketArn}*`, true, false],
  ])('that lists %j lists the bucket and reads nothing', (Resource, list, read) => {
    const policy = policyOf(statement({ Action: 's3:ListBucket', Resource }));
    expect(decideBy(policy, askList('a')).allowed).toBe(list);
    expect(decideBy(policy, askList(null)).allowed).toBe(list);
    expect(decideBy(policy, ask({ key: 'a' })).allowed).toBe(read);
  });

  it('that reads everything lists nothing, as in IAM', () => {
    expect(decideBy(policyOf(statement({})), askList('a/')).allowed).toBe(false);
  });

  it('of one bucket says nothing about another', () => {
    expect(decideBy(policyOf(statement({})), ask({ key: 'a', bucket: 'other' })).allowed).toBe(
      false,
    );
    const elsewhere = ask({ key: 'a', tenant: 'atlas' });
    expect(decideBy(policyOf(statement({})), elsewhere).allowed).toBe(false);
  });

  it.each<[unknown, string | null, string[], boolean]>([
    ['*', null, [], true],
    [{ AWS: '*' }, null, [], true],
    [{ AWS: 'arn:aws:iam::atlas:user/bob' }, 'atlas/bob', [], true],
    [{ AWS: 'arn:aws:iam::atlas:user/bob' }, 'cms/bob', [], false],
    [{ AWS: 'arn:aws:iam::atlas:root' }, 'atlas/bob', [], true],
    [{ AWS: 'atlas' }, 'atlas/bob', [], true],
    [{ AWS: 'atlas' }, 'atlasx/bob', [], false],
    [{ AWS: 'atlas' }, null, [], false],
    [{ AWS: 'atlas/bob' }, 'atlas/bob', [], true],
    [{ AWS: ['cms/x', 'atlas/bob'] }, 'atlas/bob', [], true],
    [{ AWS: 'arn:aws:iam::atlas:group/daq' }, 'atlas/bob', ['daq'], true],
    [{ AWS: 'arn:aws:iam::atlas:group/daq' }, 'atlas/bob', ['daqs'], false],
    [{ AWS: 'arn:aws:iam::cms:group/daq' }, 'atlas/bob', ['daq'], false],
  ])('for %j concerns %s of the groups %j: %s', (Principal, id, groups, expected) => {
    const request = ask({ who: id === null ? null : person(id), groups, key: 'a' });
    expect(decideBy(policyOf(statement({ Principal })), request).allowed).toBe(expected);
  });

  it('can deny everybody but some', () => {
    const except = { Effect: 'Deny', Principal: undefined, NotPrincipal: { AWS: 'cms/alice' } };
    const policy = policyOf(statement({}), statement(except));
    expect(decideBy(policy, ask({ key: 'a' })).allowed).toBe(true);
    expect(decideBy(policy, ask({ who: person('cms/bob'), key: 'a' })).allowed).toBe(false);
    expect(decideBy(policy, ask({ who: person('cms/boss'), key: 'a' })).allowed).toBe(false);
    expect(decideBy(policy, ask({ who: null, key: 'a' })).allowed).toBe(false);
  });

  it('can name all actions and all resources but some', () => {
    const policy = policyOf({
      Effect: 'Allow',
      Principal: '*',
      NotAction: ['s3:Put*', 's3:Delete*'],
      NotResource: [bucketArn, `${bucketArn}/secret/*`],
    });
    expect(decideBy(policy, ask({ key: 'a' })).allowed).toBe(true);
    expect(decideBy(policy, ask({ key: 'secret/a' })).allowed).toBe(false);
    expect(decideBy(policy, ask({ key: 'a', action: 's3:PutObject' })).allowed).toBe(false);
    expect(decideBy(policy, askList(null)).allowed).toBe(false);
    const administration = ask({ action: 'bursar:GetUsage', key: 'a' });
    expect(decideBy(policy, administration).allowed).toBe(false);
  });

  it('with the action * gives S3’s alone', () => {
    const policy = policyOf(statement({ Action: '*', Resource: [bucketArn, `${bucketArn}/*`] }));
    expect(decideBy(policy, ask({ action: 's3:DeleteBucketPolicy' })).allowed).toBe(true);
    expect(decideBy(policy, ask({ action: 'bursar:GetUsage' })).allowed).toBe(false);
  });

  it('may have one statement without a list, an Id, Sids, and the older version', () => {
    const text = JSON.stringify({ Id: 'x', Statement: statement({ Sid: 'Read of all' }) });
    const rules = parsePolicy(Buffer.from(text), { tenant: 'cms', name: 'raw' });
    expect(decideBy(rules, ask({ key: 'a' })).by).toBe('policy:Read of all');
  });
});

it('a policy may give every statement an empty Sid', () => {
  const document = { Statement: [statement({ Sid: '' }), statement({ Sid: '' })] };
  const rules = parsePolicy(Buffer.from(JSON.stringify(document)), { tenant: 'cms', name: 'raw' });
  expect(rules.map(({ name }) => name)).toEqual(['1', '2']);
});

describe('refused is', () => {
  it.each<[string, object, RegExp]>([
    ['Allow with NotPrincipal', { Principal: undefined, NotPrincipal: '*' }, /NotPrincipal/],
    ['no principal', { Principal: undefined }, /Missing required field Principal/],
    ['both principals', { NotPrincipal: '*' }, /either Principal or NotPrincipal/],
    ['a name as principal', { Principal: 'cms/alice' }, /Invalid principal/],
    ['a service', { Principal: { Service: 'logging.s3.amazonaws.com' } }, /Invalid principal/],
    ['a federation', { Principal: { AWS: '*', Federated: 'x' } }, /Invalid principal/],
    ['no names', { Principal: { AWS: [] } }, /Invalid principal/],
    ['part of an ARN', { Principal: { AWS: 'arn:aws:iam::cms:user/*' } }, /Invalid principal/],
    ['a role', { Principal: { AWS: 'arn:aws:iam::cms:role/x' } }, /Invalid principal/],
    ['no effect', { Effect: undefined }, /Missing required field Effect/],
    ['another effect', { Effect: 'allow' }, /Invalid effect: allow/],
    ['no action', { Action: undefined }, /Missing required field Action/],
    ['an unknown action', { Action: 's3:GetObjects' }, /invalid action: s3:GetObjects/],
    ['another service', { Action: 'sqs:SendMessage' }, /invalid action/],
    ['administration', { Action: 'bursar:*' }, /invalid action/],
    ['a wildcard for nothing', { Action: 's3:Foo*' }, /invalid action/],
    ['no resource', { Resource: undefined }, /Missing required field Resource/],
    ['another bucket', { Resource: 'arn:aws:s3:::rawer/*' }, /invalid resource/],
    ['part of a name', { Resource: 'arn:aws:s3:::ra*' }, /invalid resource/],
    ['more than the name', { Resource: 'arn:aws:s3:::raw*/a' }, /invalid resource/],
    ['every bucket', { Resource: 'arn:aws:s3:::*' }, /invalid resource/],
    ['everything', { Resource: '*' }, /invalid resource/],
    ['another tenant', { Resource: 'arn:aws:s3::atlas:raw/*' }, /invalid resource/],
    ['a number', { Resource: 1 }, /invalid resource/],
    ['objects of a bucket', { Resource: bucketArn }, /Action does not apply to any resource/],
    ['a bucket of objects', { Action: 's3:ListBucket' }, /Action does not apply/],
    ['one of two', { Action: ['s3:GetObject', 's3:ListBucket'] }, /Action does not apply/],
    ['listing buckets', { Action: 's3:ListAllMyBuckets' }, /Action does not apply/],
    ['an unknown member', { Actions: 's3:GetObject' }, /Unknown field Actions/],
    ['a Sid that is no text', { Sid: 1 }, /Invalid Sid/],
  ])('%s', (_what, change, message) => {
    expect(refusalOfStatement(change)).toMatch(message);
  });

  // Deeper than JSON.stringify goes.
  const nested = `${'['.repeat(9000)}${']'.repeat(9000)}`;
  const statementText = (member: string) =>
    `{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",${member}}}`;

  it.each<[string, string | Uint8Array, RegExp]>([
    ['no JSON', 'x', /valid JSON/],
    ['nothing', '', /valid JSON/],
    ['a list', '[]', /valid JSON/],
    ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), /valid JSON/],
    ['a member given twice', '{"Version":"2012-10-17","Version":"2012-10-17"}', /given twice/],
    ['no statement', '{"Version":"2012-10-17"}', /Missing required field Statement/],
    ['an empty list', '{"Version":"2012-10-17","Statement":[]}', /Statement is empty/],
    ['a statement that is none', '{"Version":"2012-10-17","Statement":[1]}', /is no object/],
    ['an unknown member', '{"Version":"2012-10-17","Statements":[]}', /Unknown field/],
    ['another version', '{"Version":"2026-01-01","Statement":[]}', /valid version/],
    ['an Id that is no text', '{"Id":1,"Statement":[]}', /Invalid policy Id/],
    ['statements nested deeply', `{"Statement":${nested}}`, /is no object/],
    ['a resource nested deeply', statementText(`"Resource":${nested}`), /invalid resource/],
    [
      'a value nested deeply',
      statementText(`"Resource":"${bucketArn}/*","Condition":{"Bool":{"a":${nested}}}`),
      /value/,
    ],
  ])('%s', (_what, text, message) => {
    const refusal = refusalOf(text);
    expect(refusal.code).toBe('MalformedPolicy');
    expect(refusal.message).toMatch(message);
  });

  it('a variable in the older language, where it would be a plain text', () => {
    const one = statement({ Resource: `${bucketArn}/\x24{aws:username}/*` });
    expect(refusalOf(JSON.stringify({ Statement: [one] })).message).toMatch(/2012-10-17/);
    const escaped = JSON.stringify({ Statement: [one] }).replace('\x24{', '\\u0024{');
    expect(refusalOf(escaped).message).toMatch(/2012-10-17/);
  });

  it('a Sid that is given twice', () => {
    const twice = { Statement: [statement({ Sid: 'a' }), statement({ Sid: 'a' })] };
    expect(refusalOf(JSON.stringify(twice)).message).toMatch(/must be unique/);
  });

  it('more than 20 KiB, and not a byte less', () => {
    const text = JSON.stringify({ Version: '2012-10-17', Statement: [statement({})] });
    const longest = text.padEnd(policyBytesMax);
    const bucket = { tenant: 'cms', name: 'raw' };
    expect(parsePolicy(Buffer.from(longest), bucket)).toHaveLength(1);
    expect(refusalOf(`${longest} `).message).toMatch(/20480 bytes/);
  });

  it('many patterns with a single-character wildcard, which are slow to search', () => {
    const Resource = Array.from({ length: 20 }, (_, i) => `${bucketArn}/*${'a'.repeat(60)}${i}?*`);
    expect(refusalOfStatement({ Resource })).toMatch(/patterns/);
    expect(policyOf(statement({ Resource: Resource.slice(0, 10) }))).toHaveLength(1);
  });
});

describe('a policy is public', () => {
  const fixed = { IpAddress: { 'aws:SourceIp': '192.0.2.0/24' } };

  it.each<[string, object, boolean]>([
    ['for everybody', {}, true],
    ['for everybody, as AWS principal', { Principal: { AWS: '*' } }, true],
    ['for everybody and somebody', { Principal: { AWS: ['cms', '*'] } }, true],
    ['for a tenant', { Principal: { AWS: 'arn:aws:iam::s3tenant1:root' } }, false],
    ['denied to everybody', { Effect: 'Deny' }, false],
    ['for everybody in a network', { Condition: fixed }, false],
    ['for everybody but a network', { Condition: { NotIpAddress: fixed.IpAddress } }, true],
    ['for an eighth', { Condition: { IpAddress: { 'aws:SourceIp': '10.0.0.0/8' } } }, false],
    ['for a seventh', { Condition: { IpAddress: { 'aws:SourceIp': '10.0.0.0/7' } } }, true],
    ['for IPv6', { Condition: { IpAddress: { 'aws:SourceIp': '2000::/3' } } }, true],
    [
      'for one of two',
      { Condition: { IpAddress: { 'aws:SourceIp': ['10.0.0.0/8', '::/0'] } } },
      true,
    ],
    ['with another condition', { Condition: { Bool: { 'aws:SecureTransport': 'true' } } }, true],
    ['with both', { Condition: { ...fixed, Bool: { 'aws:SecureTransport': 'true' } } }, false],
    ['if there is an address', { Condition: { IpAddressIfExists: fixed.IpAddress } }, true],
    ['by referer', { Condition: { StringLike: { 'aws:Referer': 'https://a/*' } } }, true],
    [
      'for an ARN',
      { Condition: { ArnEquals: { 'aws:PrincipalArn': 'arn:aws:iam::cms:user/a' } } },
      false,
    ],
    [
      'for ARNs like it',
      { Condition: { ArnLike: { 'aws:PrincipalArn': 'arn:aws:iam::*:user/a' } } },
      true,
    ],
    [
      'for who is themselves',
      { Condition: { StringEquals: { 'aws:PrincipalAccount': '\x24{aws:PrincipalAccount}' } } },
      true,
    ],
    ['by user id', { Condition: { StringEquals: { 'aws:userid': 'anonymous' } } }, true],
  ])('%s', (_what, change, expected) => {
    expect(isPublic(policyOf(statement(change)))).toBe(expected);
  });

  it('if one of its statements is', () => {
    const closed = statement({ Principal: { AWS: 'cms' } });
    expect(isPublic(policyOf(closed))).toBe(false);
    expect(isPublic(policyOf(closed, statement({})))).toBe(true);
    expect(isPublic([])).toBe(false);
  });
});

describe('a grant is refused', () => {
  it.each<[string, object]>([
    ['with an unknown member', { principal: 'cms/alice' }],
    ['without subjects', { subjects: [] }],
    ['with a subject twice', { subjects: ['anyone', 'anyone'] }],
    ['with a subject of another form', { subjects: ['cms/alice'] }],
    ['with a wildcard subject', { subjects: ['principal:cms/*'] }],
    ['with a subject that is no text', { subjects: [1] }],
    ['with too many subjects', { subjects: Array.from({ length: 101 }, (_, i) => `tenant:t${i}`) }],
    ['without actions', { actions: [] }],
    ['with an unknown action', { actions: ['s3:GetObjects'] }],
    ['with another effect', { effect: 'Allow' }],
    ['with a name of another form', { name: 'A grant' }],
    ['with prefix and key', { prefix: 'a', key: 'a' }],
    ['with a prefix and no bucket', { prefix: 'a', bucket: undefined }],
    ['with an empty key', { key: '' }],
    ['with a key that is too long', { key: '\u00e9'.repeat(513) }],
    ['with half a surrogate pair', { prefix: 'a\ud800' }],
    ['with a bucket of another form', { bucket: 'Raw' }],
    ['with a pattern as bucket', { bucket: 'ra*' }],
    ['with a bucket that is null', { bucket: null }],
    [
      'with too long conditions',
      { conditions: { StringEquals: { 'aws:Referer': 'a'.repeat(2048) } } },
    ],
    ['with conditions that are a list', { conditions: [] }],
  ])('%s', (_what, change) => {
    expect(() => grant(change)).toThrow(expect.objectContaining({ code: 'InvalidInput' }));
  });

  it('if it is no object', () => {
    for (const value of [null, 'a', [], 1]) expect(() => parseGrant(value)).toThrow(Refusal);
    const deep = JSON.parse(`${'['.repeat(9000)}${']'.repeat(9000)}`);
    expect(() => grant({ conditions: { Bool: { 'aws:SecureTransport': deep } } })).toThrow(Refusal);
  });
});
