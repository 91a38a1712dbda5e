// Names of accounts, and who may see which.
import { describe, expect, it } from 'vitest';
import { accountName, maySeeAccount, parseAccount } from '#bursar/quota/accounts.js';

const names = [
  ...['tenant:cms', 'principal:cms/alice', 'bucket:cms/raw.2026', 'token:Ab_-.x.y'],
  ...['writer:cms/alice', 'writer:atlas/raw/cms/alice'],
  ...['prefix:cms/raw/run1/', 'prefix:cms/raw/r', 'prefix:cms/raw//', 'prefix:cms/raw/Zürich 1/😀'],
  `prefix:cms/raw/${'a'.repeat(1024)}`,
];

describe('a name of an account', () => {
  it.each(names)('%s is read and written alike', (name) => {
    const account = parseAccount(name);
    expect(account && accountName(account)).toBe(name);
  });

  it.each([
    ...['', 'cms', 'tenant:', 'tenant:CMS', 'tenant:cms/alice', 'tenant:cms\n', ' tenant:cms'],
    ...[
      'principal:cms',
      'principal:/alice',
      'principal:cms/',
      'principal:cms/a/b',
      'bucket:cms/Raw',
    ],
    ...['principal:cms/.a', `principal:cms/${'a'.repeat(64)}`, 'group:cms/a', 'store:local'],
    ...[
      'writer:cms',
      'writer:cms/raw/cms',
      'writer:cms/Alice',
      'writer:a/b/c/d/e',
      'writer:a/b/',
      'prefix:cms',
      'prefix:cms/raw',
      'prefix:cms/raw/',
      'prefix:cms/Raw/a',
      'prefix:cms/raw/a\n',
    ],
    ...['prefix:cms/raw/\ud800', 'prefix:cms/raw/a\u0000b', `prefix:cms/raw/${'ü'.repeat(513)}`],
    ...['token:', 'token:a/b', 'token:a b', 'token:a\u0000', `token:${'a'.repeat(586)}`],
  ])('%j is none', (name) => {
    expect(parseAccount(name)).toBeUndefined();
  });
});

describe('an account is seen', () => {
  const alice = { tenant: 'cms', name: 'alice' };
  const tenant = parseAccount('tenant:cms')!;
  const own = parseAccount('principal:cms/alice')!;
  const bucket = parseAccount('bucket:cms/raw')!;
  const token = parseAccount('token:x')!;

  it('by its owner, and the holder of a bucket or token', () => {
    expect(maySeeAccount(alice, 'self', own, null)).toBe(true);
    for (const account of [bucket, token]) {
      expect(maySeeAccount(alice, 'self', account, alice)).toBe(true);
      expect(maySeeAccount(alice, 'self', account, { tenant: 'cms', name: 'bob' })).toBe(false);
      expect(maySeeAccount(alice, 'self', account, { tenant: 'atlas', name: 'alice' })).toBe(
        account.kind === 'bucket',
      );
      expect(maySeeAccount(alice, 'self', account, { tenant: 'cms', name: null })).toBe(false);
      expect(maySeeAccount(alice, 'self', account, null)).toBe(false);
    }
    expect(maySeeAccount(alice, 'self', tenant, null)).toBe(false);
  });

  it('by those of its tenant whose right goes so far, deleted buckets too', () => {
    for (const account of [tenant, own, bucket]) {
      expect(maySeeAccount(alice, 'tenant', account, null)).toBe(true);
      expect(maySeeAccount({ ...alice, tenant: 'atlas' }, 'tenant', account, null)).toBe(false);
      expect(maySeeAccount(alice, 'none', account, null)).toBe(false);
      expect(maySeeAccount({ ...alice, tenant: 'atlas' }, 'all', account, null)).toBe(true);
    }
    expect(maySeeAccount(alice, 'tenant', token, { tenant: 'cms', name: null })).toBe(true);
    expect(maySeeAccount(alice, 'tenant', token, { tenant: 'atlas', name: 'alice' })).toBe(false);
    expect(maySeeAccount(alice, 'tenant', token, null)).toBe(false);
  });
});
