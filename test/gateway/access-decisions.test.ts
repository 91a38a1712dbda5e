// Decisions that no client can bring about at will: a stored policy that is not understood, and
// session policies about tags.
import { describe, expect, it } from 'vitest';
import { GrantIndex } from '#bursar/authz/grants/grant-index.js';
import { parseSessionPolicy } from '#bursar/authz/grants/session-policy.js';
import { subjectsOf } from '#bursar/authz/grants/subjects.js';
import type { Delegation, Identity } from '#bursar/authz/identity.js';
import { ChainConditions } from '#bursar/authz/tokens/conditions.js';
import { Access, type Target } from '#bursar/gateway/s3/access.js';
import type { S3Request } from '#bursar/gateway/s3/request.js';
import { BucketCache } from '#bursar/state/bucket-cache.js';

const principal = {
  tenant: 'cms',
  name: 'alice',
  id: 'cms/alice',
  kind: 'person',
  role: 'member',
  membersCreateBuckets: true,
} as const;

function accessOf(delegation: Delegation | null = null): Access {
  const who: Identity = {
    principal,
    subjects: subjectsOf(principal, []),
    isAnonymous: false,
    accessKeyId: 'KEY',
    keyThumbprint: null,
    delegation,
    evidence: 'shared-secret',
    authentication: null,
    payload: { kind: 'unsigned' },
    presigned: false,
  };
  const request = { source: '127.0.0.1', isSecure: false, headers: {}, query: [] };
  const grants = { index: new GrantIndex() } as never;
  const buckets = new BucketCache(
    { get: async () => undefined, all: async () => [] },
    { index: 0 },
  );
  return new Access({ buckets, grants }, request as unknown as S3Request, who);
}

function targetOf(action: Target['action'], policy: string | null = null): Target {
  const place = { tenant: 'cms', name: 'raw' };
  const unset = { objectLock: null, publicAccess: null, ownership: null } as const;
  const bucket = { ...place, id: 1, owner: 'alice', createdMs: 0, store: 1, ...unset };
  const key = action.includes('Bucket') ? null : 'k';
  return {
    action,
    askedName: 'raw',
    found: {
      ...place,
      bucket: { ...bucket, policy, recordReads: null, versioning: 'Unversioned' },
    },
    key,
    listPrefix: null,
  };
}

describe('a stored policy that is not understood', () => {
  it.each(['', 'null', '{"Version":"2012-10-17"}', '{"Version":"2099-01-01","Statement":[]}'])(
    'denies its owner all but to see and replace it: %s',
    async (policy) => {
      const access = accessOf();
      for (const action of ['s3:GetObject', 's3:PutObject', 's3:DeleteBucket'] as const) {
        expect(await access.allows(targetOf(action))).toBe(true);
        expect(await access.allows(targetOf(action, policy))).toBe(false);
      }
      expect(await access.allows({ ...targetOf('s3:ListBucket', policy), listPrefix: '' })).toBe(
        false,
      );
      for (const action of ['s3:GetBucketPolicy', 's3:PutBucketPolicy'] as const) {
        expect(await access.allows(targetOf(action, policy))).toBe(true);
      }
    },
  );
});

describe('a session policy that denies by tags', () => {
  const statements = [
    { Effect: 'Allow', Action: 's3:*', Resource: '*' },
    {
      Effect: 'Deny',
      Action: 's3:GetObject',
      Resource: '*',
      Condition: { StringEquals: { 's3:ExistingObjectTag/secret': 'yes' } },
    },
  ];
  const text = JSON.stringify({ Version: '2012-10-17', Statement: statements });
  const access = accessOf({
    ids: ['id'],
    scope: null,
    conditions: new ChainConditions([]),
    accounts: [],
    policies: [parseSessionPolicy(text, 'cms')],
    expiresAtMs: Number.POSITIVE_INFINITY,
  });

  it.each([
    ['yes', false],
    ['no', true],
  ])('asks for them, though the principal needs none: %s', async (value, isAllowed) => {
    const loadTags = async () => [['secret', value]] as const;
    expect(await access.allows({ ...targetOf('s3:GetObject'), loadTags })).toBe(isAllowed);
  });
});
