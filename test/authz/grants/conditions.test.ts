// Conditions: every operator with values that fit, that do not, and that are not there.
import { describe, expect, it } from 'vitest';
import type { AccessRequest, RequestFacts } from '#bursar/authz/grants/access-request.js';
import { decideAccess } from '#bursar/authz/grants/decide.js';
import { Refusal } from '#bursar/core/errors.js';
import {
  ask,
  askList,
  decideBy,
  facts,
  grant,
  indexOf,
  person,
  policyOf,
  statement,
} from './fixture.ts';

type Block = Record<string, Record<string, unknown>>;

/** Does a statement that allows under this condition allow the request? */
function holds(condition: Block, request: AccessRequest): boolean {
  return decideBy(policyOf(statement({ Condition: condition })), request).allowed;
}

function given(facts: Partial<RequestFacts>): AccessRequest {
  return ask({ key: 'a', facts });
}

function agent(value: string | undefined): AccessRequest {
  return given({ headers: value === undefined ? {} : { 'user-agent': value } });
}

describe('a condition on texts', () => {
  // Operator, its values, and whether it holds for `curl/8`, for `other`, and for no value.
  it.each<[string, unknown, boolean, boolean, boolean]>([
    ['StringEquals', 'curl/8', true, false, false],
    ['StringEquals', ['x', 'curl/8'], true, false, false],
    ['StringEquals', 'CURL/8', false, false, false],
    ['StringEquals', 'curl/*', false, false, false],
    ['StringEqualsIgnoreCase', 'CURL/8', true, false, false],
    ['StringLike', 'curl/*', true, false, false],
    ['StringLike', 'curl/?', true, false, false],
    ['StringLike', '*', true, true, false],
    ['StringLike', 'curl', false, false, false],
    ['StringNotEquals', 'curl/8', false, true, true],
    ['StringNotEquals', ['x', 'curl/8'], false, true, true],
    ['StringNotEqualsIgnoreCase', 'CURL/8', false, true, true],
    ['StringNotLike', ['c*', 'd*'], false, true, true],
    ['StringEqualsIfExists', 'curl/8', true, false, true],
    ['StringNotLikeIfExists', 'c*', false, true, true],
    ['ForAnyValue:StringEquals', 'curl/8', true, false, false],
    ['ForAllValues:StringEquals', 'curl/8', true, false, true],
    ['ForAnyValue:StringNotEquals', 'curl/8', false, true, false],
    ['Null', 'true', false, false, true],
    ['Null', false, true, true, false],
  ])('%s %j', (operator, values, fits, others, absent) => {
    const condition = { [operator]: { 'aws:UserAgent': values } };
    expect(holds(condition, agent('curl/8'))).toBe(fits);
    expect(holds(condition, agent('other'))).toBe(others);
    expect(holds(condition, agent(undefined))).toBe(absent);
  });

  it('reads an empty header as a value, and the name of a key in any case', () => {
    expect(holds({ StringEquals: { 'AWS:useragent': '' } }, agent(''))).toBe(true);
    expect(holds({ Null: { 'aws:userAgent': 'true' } }, agent(''))).toBe(false);
  });

  it('on several keys and operators holds if all do', () => {
    const condition = {
      StringLike: { 'aws:UserAgent': 'curl*', 'aws:Referer': 'https://*' },
      Bool: { 'aws:SecureTransport': 'true' },
    };
    const headers = { 'user-agent': 'curl', referer: 'https://a' };
    expect(holds(condition, given({ headers }))).toBe(true);
    expect(holds(condition, given({ headers, isSecure: false }))).toBe(false);
    expect(holds(condition, given({ headers: { 'user-agent': 'curl' } }))).toBe(false);
  });
});

describe('a condition on the network', () => {
  it.each<[string, unknown, string, boolean]>([
    ['IpAddress', '192.0.2.0/24', '192.0.2.255', true],
    ['IpAddress', '192.0.2.0/24', '192.0.3.0', false],
    ['IpAddress', '192.0.2.7', '192.0.2.7', true],
    ['IpAddress', '192.0.2.7', '192.0.2.77', false],
    ['IpAddress', '192.0.2.0/24', '::ffff:192.0.2.1', true],
    ['IpAddress', '0.0.0.0/0', '2001:db8::1', false],
    ['IpAddress', '2001:db8::/32', '2001:DB8:0:0::1', true],
    ['IpAddress', '2001:db8::/32', '2001:db9::1', false],
    ['IpAddress', ['10.0.0.0/8', '2001:db8::/32'], '2001:db8::1', true],
    ['IpAddress', '0.0.0.0/0', 'unknown', false],
    ['NotIpAddress', '192.0.2.0/24', '192.0.2.1', false],
    ['NotIpAddress', '192.0.2.0/24', '::ffff:192.0.2.1', false],
    ['NotIpAddress', '192.0.2.0/24', '192.0.3.1', true],
    ['NotIpAddress', '192.0.2.0/24', 'unknown', true],
  ])('%s %j of %s: %s', (operator, values, sourceAddress, expected) => {
    const condition = { [operator]: { 'aws:SourceIp': values } };
    expect(holds(condition, given({ sourceAddress }))).toBe(expected);
  });

  it('believes the address that the gateway found, and no header', () => {
    const headers = { 'x-forwarded-for': '10.0.0.1', forwarded: 'for=10.0.0.1' };
    const condition = { IpAddress: { 'aws:SourceIp': '10.0.0.0/8' } };
    expect(holds(condition, given({ headers }))).toBe(false);
  });
});

describe('a condition on numbers and times', () => {
  it.each<[string, unknown, string | undefined, boolean]>([
    ['NumericLessThanEquals', '10', '10', true],
    ['NumericLessThanEquals', 10, '11', false],
    ['NumericLessThan', '10', '9', true],
    ['NumericLessThan', '10', '10', false],
    ['NumericGreaterThan', '9', '10', true],
    ['NumericGreaterThanEquals', '10', '9', false],
    ['NumericEquals', '10', '10.0', true],
    ['NumericNotEquals', '10', '10', false],
    ['NumericNotEquals', '10', undefined, true],
    ['NumericLessThan', '10', undefined, false],
    ['NumericLessThanIfExists', '10', undefined, true],
    ['NumericLessThan', '10', 'x', false],
    ['NumericLessThan', '10', '-1e3', false],
  ])('%s %j of max-keys=%s: %s', (operator, values, keys, expected) => {
    const query = keys === undefined ? [] : [['max-keys', keys] as const];
    const Condition = { [operator]: { 's3:max-keys': values } };
    const policy = policyOf(
      statement({ Action: 's3:ListBucket', Resource: 'arn:aws:s3:::raw', Condition }),
    );
    expect(decideBy(policy, askList(null, { facts: { query } })).allowed).toBe(expected);
  });

  // The request is of noon, 15 June 2026.
  it.each<[string, string, unknown, boolean]>([
    ['DateLessThan', 'aws:CurrentTime', '2026-06-15T12:00:01Z', true],
    ['DateLessThan', 'aws:CurrentTime', '2026-06-15T12:00:00Z', false],
    ['DateLessThanEquals', 'aws:CurrentTime', '2026-06-15T14:00:00+02:00', true],
    ['DateGreaterThan', 'aws:CurrentTime', '2026-06-15', true],
    ['DateGreaterThan', 'aws:CurrentTime', '2026-07', false],
    ['DateGreaterThan', 'aws:CurrentTime', '2026', true],
    ['DateEquals', 'aws:CurrentTime', '2026-06-15T12:00:00Z', true],
    ['DateNotEquals', 'aws:CurrentTime', '2026-06-15T12:00:00Z', false],
    ['DateLessThan', 'aws:EpochTime', '1781524801', true],
    ['DateLessThan', 'aws:EpochTime', 1781524800, false],
    ['NumericLessThan', 'aws:EpochTime', 1781524801, true],
    ['StringLike', 'aws:CurrentTime', '2026-06-*', true],
  ])('%s %s %j: %s', (operator, key, value, expected) => {
    expect(holds({ [operator]: { [key]: value } }, given({}))).toBe(expected);
  });

  it('on the age of a signature counts milliseconds since it was made', () => {
    const condition = { NumericGreaterThan: { 's3:signatureAge': 600_000 } };
    const signed = { type: 'REST-QUERY-STRING', version: 'AWS4-HMAC-SHA256' };
    const timeMs = 1_000_000_000;
    const aged = (ageMs: number) =>
      given({ timeMs, authentication: { ...signed, signedAtMs: timeMs - ageMs } });
    expect(holds(condition, aged(600_001))).toBe(true);
    expect(holds(condition, aged(600_000))).toBe(false);
    expect(holds(condition, given({}))).toBe(false);
    expect(holds({ StringEquals: { 's3:authType': 'REST-QUERY-STRING' } }, aged(1))).toBe(true);
  });
});

describe('a condition on who asks', () => {
  it.each<[string, unknown, string | null, boolean]>([
    ['ArnEquals', 'arn:aws:iam::cms:user/alice', 'cms/alice', true],
    ['ArnLike', 'arn:aws:iam::cms:user/*', 'cms/alice', true],
    ['ArnLike', 'arn:aws:iam::*:user/alice', 'cms/alice', true],
    ['ArnLike', 'arn:*:user/alice:*:*:*', 'cms/alice', false],
    ['ArnLike', 'arn:aws:iam::cms:user/*', 'cmsx/alice', false],
    ['ArnLike', 'arn:aws:iam::cms:user/*', null, false],
    ['ArnNotLike', 'arn:aws:iam::cms:user/*', 'cms/alice', false],
    ['ArnNotEquals', 'arn:aws:iam::cms:user/alice', null, true],
    ['StringLike', 'arn:*/alice', 'cms/alice', true],
  ])('%s %j of %s: %s', (operator, values, id, expected) => {
    const who = id === null ? null : person(id);
    const condition = { [operator]: { 'aws:PrincipalArn': values } };
    expect(holds(condition, ask({ who, key: 'a' }))).toBe(expected);
  });

  it.each([
    ['aws:username', 'alice', undefined],
    ['aws:userid', 'cms/alice', 'anonymous'],
    ['aws:PrincipalType', 'User', 'Anonymous'],
    ['aws:PrincipalAccount', 'cms', undefined],
  ])('%s is %s, and %s of a stranger', (key, own, strange) => {
    expect(holds({ StringEquals: { [key]: own } }, ask({ key: 'a' }))).toBe(true);
    const stranger = ask({ who: null, key: 'a' });
    const wanted: Block =
      strange === undefined ? { Null: { [key]: true } } : { StringEquals: { [key]: strange } };
    expect(holds(wanted, stranger)).toBe(true);
    expect(holds({ StringEquals: { [key]: own } }, stranger)).toBe(false);
  });
});

describe('a condition on the request', () => {
  it.each([
    ['s3:x-amz-acl', { headers: { 'x-amz-acl': 'v' } }],
    ['s3:x-amz-storage-class', { headers: { 'x-amz-storage-class': 'v' } }],
    ['s3:x-amz-metadata-directive', { headers: { 'x-amz-metadata-directive': 'v' } }],
    ['s3:x-amz-server-side-encryption', { headers: { 'x-amz-server-side-encryption': 'v' } }],
    ['s3:x-amz-content-sha256', { headers: { 'x-amz-content-sha256': 'v' } }],
    ['s3:x-amz-copy-source', { copySource: 'v' }],
    ['s3:VersionId', { versionId: 'v' }],
    ['s3:RequestObjectTag/Kind', { requestTags: new Map([['Kind', 'v']]) }],
    ['s3:ExistingObjectTag/Kind', { objectTags: new Map([['Kind', 'v']]) }],
  ])('%s', (key, facts) => {
    expect(holds({ StringEquals: { [key]: 'v' } }, given(facts))).toBe(true);
    expect(holds({ StringEquals: { [key]: 'w' } }, given(facts))).toBe(false);
    expect(holds({ StringEquals: { [key]: 'v' } }, given({}))).toBe(false);
    expect(holds({ Null: { [key]: 'true' } }, given({}))).toBe(true);
  });

  it('on the conditions of a request is about those that are kept', () => {
    const headers = { 'if-none-match': '*', 'if-match': '"v"' };
    const asked = (action: AccessRequest['action'], query: RequestFacts['query'] = []) =>
      ask({ action, key: 'k', facts: { headers, query } });
    const answers = (Condition: Block, request: AccessRequest) =>
      decideBy(policyOf(statement({ Action: 's3:*', Condition })), request).allowed;
    const makes = (value: string) => ({ Bool: { 's3:ObjectCreationOperation': value } });
    const kept = { Null: { 's3:if-match': 'false', 's3:if-none-match': 'false' } };
    const whole = asked('s3:PutObject');
    expect([answers(makes('true'), whole), answers(kept, whole)]).toEqual([true, true]);
    for (const name of ['uploads', 'partNumber']) {
      const part = asked('s3:PutObject', [[name, '1']]);
      expect([answers(makes('true'), part), answers(kept, part)]).toEqual([false, false]);
      expect(answers(makes('false'), part)).toBe(true);
    }
    expect(answers(kept, asked('s3:DeleteObjectVersion'))).toBe(true);
    const read = asked('s3:GetObject');
    expect([makes('true'), makes('false'), kept].map((one) => answers(one, read))).toEqual([
      ...[false, false, false],
    ]);
  });

  it('on object lock is about what would be locked, and in whole days', () => {
    const { timeMs } = facts;
    const lock = (days: number, legalHold?: boolean) => ({
      lock: { retention: { mode: 'GOVERNANCE', untilMs: timeMs + days * 86_400_000 }, legalHold },
    });
    const governed = { StringEquals: { 's3:object-lock-mode': 'GOVERNANCE' } };
    expect(holds(governed, given(lock(10)))).toBe(true);
    expect(holds(governed, given({}))).toBe(false);
    const bound = { NumericLessThanEquals: { 's3:object-lock-remaining-retention-days': '10' } };
    expect(holds(bound, given(lock(10)))).toBe(true);
    expect(holds(bound, given(lock(10.01)))).toBe(false);
    const year = { DateLessThan: { 's3:object-lock-retain-until-date': '2027-01-01T00:00:00Z' } };
    expect(holds(year, given(lock(10)))).toBe(true);
    expect(holds(year, given(lock(1000)))).toBe(false);
    const held = { StringEquals: { 's3:object-lock-legal-hold': 'ON' } };
    expect(holds(held, given(lock(1, true)))).toBe(true);
    expect(holds(held, given(lock(1, false)))).toBe(false);
    expect(holds(held, given(lock(1)))).toBe(false);
  });

  it('tells the names of tags by their case', () => {
    const requestTags = new Map([['kind', 'v']]);
    const condition = { StringEquals: { 's3:RequestObjectTag/Kind': 'v' } };
    expect(holds(condition, given({ requestTags }))).toBe(false);
  });

  it.each<[string, string[], string[], boolean]>([
    ['ForAllValues:StringEquals', ['a', 'b'], ['a'], true],
    ['ForAllValues:StringEquals', ['a', 'b'], ['a', 'c'], false],
    ['ForAllValues:StringEquals', ['a', 'b'], [], true],
    ['ForAnyValue:StringEquals', ['a', 'b'], ['c', 'b'], true],
    ['ForAnyValue:StringEquals', ['a', 'b'], ['c'], false],
    ['ForAnyValue:StringEquals', ['a', 'b'], [], false],
    ['ForAllValues:StringNotLike', ['a*'], ['b', 'c'], true],
    ['ForAllValues:StringNotLike', ['a*'], ['b', 'ab'], false],
    ['ForAnyValue:StringLike', ['a*'], ['b', 'ab'], true],
  ])('%s %j of the tags %j: %s', (operator, values, tags, expected) => {
    const requestTags = new Map(tags.map((tag) => [tag, '']));
    const condition = { [operator]: { 's3:RequestObjectTagKeys': values } };
    expect(holds(condition, given({ requestTags }))).toBe(expected);
  });

  it('that are a listing’s are none of other actions', () => {
    const query = [['prefix', 'a/']] as const;
    const condition = { StringEquals: { 's3:prefix': 'a/' } };
    expect(holds(condition, given({ query }))).toBe(false);
    const policy = policyOf(
      statement({ Action: 's3:ListBucket', Resource: 'arn:aws:s3:::raw', Condition: condition }),
    );
    expect(decideBy(policy, askList('a/')).allowed).toBe(true);
    expect(decideBy(policy, askList('a/b')).allowed).toBe(false);
    expect(decideBy(policy, askList(null)).allowed).toBe(false);
  });
});

describe('a variable', () => {
  const home = { Resource: 'arn:aws:s3:::raw/home/\x24{aws:username}/*' };

  it('in a resource stands for the value of the request', () => {
    const policy = policyOf(statement(home));
    expect(decideBy(policy, ask({ key: 'home/alice/x' })).allowed).toBe(true);
    expect(decideBy(policy, ask({ key: 'home/bob/x' })).allowed).toBe(false);
    expect(decideBy(policy, ask({ key: 'home/\x24{aws:username}/x' })).allowed).toBe(false);
  });

  it('without a value matches nothing, unless it says what stands for it', () => {
    const stranger = ask({ who: null, key: 'home//x' });
    expect(decideBy(policyOf(statement(home)), stranger).allowed).toBe(false);
    const Resource = "arn:aws:s3:::raw/home/\x24{aws:username, 'all'}/*";
    const policy = policyOf(statement({ Resource }));
    expect(decideBy(policy, ask({ who: null, key: 'home/all/x' })).allowed).toBe(true);
    expect(decideBy(policy, ask({ key: 'home/all/x' })).allowed).toBe(false);
  });

  it('whose value has wildcards is no pattern', () => {
    const condition = { StringLike: { 's3:x-amz-copy-source': 'raw/\x24{aws:Referer}/x' } };
    const asked = (referer: string, copySource: string) =>
      given({ headers: { referer }, copySource });
    expect(holds(condition, asked('a', 'raw/a/x'))).toBe(true);
    expect(holds(condition, asked('*', 'raw/a/x'))).toBe(false);
    expect(holds(condition, asked('?', 'raw/a/x'))).toBe(false);
    expect(holds(condition, asked('*', 'raw/*/x'))).toBe(true);
  });

  it('whose value is long makes a pattern that matches nothing, so no search is costly', () => {
    const condition = { StringLike: { 'aws:UserAgent': '*\x24{aws:Referer}*' } };
    const asked = (length: number) =>
      given({ headers: { referer: 'a'.repeat(length), 'user-agent': 'a'.repeat(300) } });
    expect(holds(condition, asked(256))).toBe(true);
    expect(holds(condition, asked(257))).toBe(false);
  });

  it('beside `?` is refused only where it would be searched for', () => {
    const anchored = Array.from({ length: 20 }, (_, i) => `${i}?\x24{aws:username}*?`);
    expect(holds({ StringLike: { 'aws:Referer': anchored } }, given({}))).toBe(false);
  });

  it('can stand for the wildcards themselves', () => {
    const condition = { StringLike: { 'aws:Referer': 'a\x24{*}b\x24{?}c\x24{$}d*' } };
    expect(holds(condition, given({ headers: { referer: 'a*b?c$de' } }))).toBe(true);
    expect(holds(condition, given({ headers: { referer: 'axbxc$de' } }))).toBe(false);
  });
});

describe('a condition of a grant', () => {
  it('is IAM’s', () => {
    const index = indexOf(grant({ conditions: { IpAddress: { 'aws:SourceIp': '192.0.2.0/24' } } }));
    expect(decideAccess(index, ask({ key: 'a' })).allowed).toBe(true);
    const elsewhere = ask({ key: 'a', facts: { sourceAddress: '198.51.100.1' } });
    expect(decideAccess(index, elsewhere).allowed).toBe(false);
  });
});

describe('refused as malformed is', () => {
  const unitSearch = '*?\x24{aws:UserAgent}*';
  it.each<[string, unknown]>([
    ['an operator that is not known', { StringMatches: { 'aws:UserAgent': 'a' } }],
    ['an operator in another case', { stringEquals: { 'aws:UserAgent': 'a' } }],
    ['an order of texts', { StringLessThan: { 'aws:UserAgent': 'a' } }],
    ['a negated order', { NumericNotLessThan: { 's3:max-keys': 1 } }],
    ['bytes', { BinaryEquals: { 'aws:UserAgent': 'QQ==' } }],
    ['a key that is not known', { StringEquals: { 'aws:PrincipalTag/a': 'a' } }],
    ['a tag without a name', { StringEquals: { 's3:ExistingObjectTag/': 'a' } }],
    ['an inherited name', { StringEquals: { constructor: 'a' } }],
    ['an operator that does not fit the key', { IpAddress: { 'aws:UserAgent': '10.0.0.0/8' } }],
    ['numbers of a text', { NumericEquals: { 'aws:UserAgent': '1' } }],
    ['a list without a quantifier', { StringEquals: { 's3:RequestObjectTagKeys': 'a' } }],
    ['a quantifier of Null', { 'ForAnyValue:Null': { 'aws:Referer': 'true' } }],
    ['an address that is none', { IpAddress: { 'aws:SourceIp': '10.0.0' } }],
    ['a network that is none', { IpAddress: { 'aws:SourceIp': '10.0.0.0/33' } }],
    ['a number that is none', { NumericEquals: { 's3:max-keys': '1e3' } }],
    ['a local time', { DateLessThan: { 'aws:CurrentTime': '2026-06-15T12:00:00' } }],
    ['a day that is none', { DateLessThan: { 'aws:CurrentTime': '2026-13-01' } }],
    ['a bool that is none', { Bool: { 'aws:SecureTransport': 'yes' } }],
    ['an ARN that is none', { ArnLike: { 'aws:PrincipalArn': 'alice' } }],
    ['two values of Null', { Null: { 'aws:Referer': ['true', 'false'] } }],
    ['no values', { StringEquals: { 'aws:Referer': [] } }],
    ['a value that is an object', { StringEquals: { 'aws:Referer': {} } }],
    ['a value that is null', { StringEquals: { 'aws:Referer': null } }],
    ['a variable that is not known', { StringEquals: { 'aws:Referer': '\x24{aws:me}' } }],
    ['a variable of tags', { StringEquals: { 'aws:Referer': '\x24{s3:ExistingObjectTag/a}' } }],
    ['half a surrogate pair', { StringLike: { 'aws:Referer': 'a\ud800' } }],
    ['keys that are no object', { StringEquals: ['aws:Referer'] }],
    ['a list of operators', [{ StringEquals: { 'aws:Referer': 'a' } }]],
    ['a variable without its end', { StringLike: { 'aws:Referer': 'a\x24{aws:username' } }],
    [
      'an ARN longer than any',
      { ArnLike: { 'aws:PrincipalArn': `arn:*:*:*:*:${'*'.repeat(501)}` } },
    ],
    ['a long search', { StringLike: { 'aws:Referer': `*${'a'.repeat(1024)}?*` } }],
    ['a search for long values', { StringLike: { 'aws:Referer': Array(4).fill(unitSearch) } }],
  ])('%s', (_what, condition) => {
    expect(() => policyOf(statement({ Condition: condition }))).toThrow(Refusal);
    expect(() => grant({ conditions: condition as Record<string, unknown> })).toThrow(Refusal);
  });
});
