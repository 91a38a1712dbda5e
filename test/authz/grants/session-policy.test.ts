// Session policies: what they let temporary keys do, name by name.
import { describe, expect, it } from 'vitest';
import type { AccessRequest } from '#bursar/authz/grants/access-request.js';
import { verdictOf } from '#bursar/authz/grants/rule.js';
import { parseSessionPolicy } from '#bursar/authz/grants/session-policy.js';
import { ask, askList } from './fixture.ts';

function policyText(...statements: readonly object[]): string {
  const common = { Effect: 'Allow', Action: 's3:*', Resource: '*' };
  const all = statements.map((one) => ({ ...common, ...one }));
  return JSON.stringify({ Version: '2012-10-17', Statement: all });
}

/** As access.ts decides: what is not allowed, or is denied, is refused. */
function allows(text: string, request: AccessRequest): boolean {
  const rules = parseSessionPolicy(text, 'cms');
  const applying = rules.filter((rule) => verdictOf(rule, request) === 'applies');
  return applying.length > 0 && applying.every(({ effect }) => effect === 'allow');
}

const read = (key: string, bucket = 'raw', tenant = 'cms') => ask({ key, bucket, tenant });

describe('a session policy', () => {
  it.each([
    ['*', true, true, true],
    ['arn:aws:s3:::*', true, true, true],
    ['arn:aws:s3:::raw', false, false, false],
    ['arn:aws:s3:::raw*', true, true, false],
    ['arn:aws:s3:::raw/*', true, false, false],
    ['arn:aws:s3:::raw/a/?', true, false, false],
    ['arn:aws:s3:::r*/a/b', true, true, false],
    ['arn:aws:s3::cms:raw/*', true, false, false],
    ['arn:aws:s3:::cms:raw/*', true, false, false],
    ['arn:aws:s3:::atlas:raw/*', false, false, true],
    ['arn:aws:s3::atlas:raw/*', false, false, true],
    ['arn:aws:s3:::*:raw/*', false, false, true],
    ['arn:aws:s3:::RAW/*', false, false, false],
    ['arn:aws:s3:::raw/a', false, false, false],
  ])('for %s reaches what that names', (resource, raw, rawer, foreign) => {
    const text = policyText({ Resource: resource });
    expect(allows(text, read('a/b'))).toBe(raw);
    expect(allows(text, read('a/b', 'rawer'))).toBe(rawer);
    expect(allows(text, read('a/b', 'raw', 'atlas'))).toBe(foreign);
    const others = policyText({ Resource: undefined, NotResource: resource });
    expect(allows(others, read('a/b'))).toBe(!raw);
    const denial = policyText({}, { Effect: 'Deny', Resource: resource });
    expect(allows(denial, read('a/b'))).toBe(!raw);
    expect(allows(denial, read('a/b', 'raw', 'atlas'))).toBe(!foreign);
  });

  it('names a bucket for what is about the bucket itself', () => {
    const text = policyText({ Action: ['s3:ListBucket'], Resource: 'arn:aws:s3:::raw' });
    expect(allows(text, askList('a/'))).toBe(true);
    expect(allows(text, askList('a/', { bucket: 'rawer' }))).toBe(false);
    expect(allows(text, read('a'))).toBe(false);
    const prefixed = policyText({
      Action: 's3:ListBucket',
      Condition: { StringLike: { 's3:prefix': 'a/*' } },
    });
    expect(allows(prefixed, askList('a/b'))).toBe(true);
    expect(allows(prefixed, askList(null))).toBe(false);
  });

  it('for everything alone covers what is about no bucket', () => {
    const list = ask({ action: 's3:ListAllMyBuckets', bucket: null });
    expect(allows(policyText({}), list)).toBe(true);
    expect(allows(policyText({ Resource: 'arn:aws:s3:::raw' }), list)).toBe(false);
  });

  it('takes variables from the request', () => {
    const text = policyText({ Resource: 'arn:aws:s3:::raw/$' + '{aws:username}/*' });
    expect(allows(text, read('alice/x'))).toBe(true);
    expect(allows(text, read('bob/x'))).toBe(false);
  });

  it.each([
    ['a principal', policyText({ Principal: '*' })],
    ['no resource', policyText({ Resource: undefined })],
    ['both kinds of resources', policyText({ NotResource: '*' })],
    ['a resource of another service', policyText({ Resource: 'arn:aws:sqs:::raw' })],
    ['a resource in a region', policyText({ Resource: 'arn:aws:s3:eu-west-1::raw' })],
    ['a bucket without its ARN', policyText({ Resource: 'raw/*' })],
    ['an empty resource', policyText({ Resource: 'arn:aws:s3:::' })],
    ['an action that is none', policyText({ Action: 's3:Gettobject' })],
    ['administration', policyText({ Effect: 'Deny', Action: 'bursar:*' })],
    ['another condition', policyText({ Condition: { StringEquals: { 'aws:mfa': '1' } } })],
    ['another member', policyText({ NotPrincipal: '*' })],
    ['members given twice', policyText({}).replace('"Effect"', '"Effect":"Deny","Effect"')],
    ['no statement', '{"Version":"2012-10-17","Statement":[]}'],
    ['no JSON', 'allow all'],
  ])('with %s is refused', (_what, text) => {
    expect(() => parseSessionPolicy(text, 'cms')).toThrow(
      expect.objectContaining({ code: 'MalformedPolicyDocument' }),
    );
  });
});
