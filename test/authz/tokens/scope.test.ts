// Scopes: what they cover, what contains what, and which texts are none.
import { describe, expect, it } from 'vitest';
import {
  covers,
  coversAdministration,
  isSubset,
  mountScope,
  parseScope,
  renderScope,
  ScopeError,
  type Wanted,
  writeRight,
} from '#bursar/authz/tokens/scope.js';

function allows(scope: string, wanted: Wanted, bucket: string, key: string): boolean {
  return covers(parseScope(scope), wanted, bucket, key);
}

describe('a scope', () => {
  it.each([
    ['/raw/foo', 'foo', true],
    ['/raw/foo', 'foo/bar', true],
    ['/raw/foo', 'foo/', true],
    ['/raw/foo', 'foobar', false],
    ['/raw/foo', 'fo', false],
    ['/raw/foo', 'Foo', false],
    ['/raw/foo', '/foo', false],
    ['/raw/foo', 'foo%2Fbar', false],
    ['/raw/foo', 'foo\\bar', false],
    ['/raw/foo', 'foo\uff0fbar', false],
    ['/raw/foo', 'foo\0/bar', false],
    ['/raw/f%C3%B6', 'f\u00f6/x', true],
    ['/raw/f%C3%B6', 'fo\u0308/x', false],
    ['/raw/foo%20bar', 'foo bar', true],
    ['/raw/foo/', 'foo/', true],
    ['/raw/foo/', 'foo/bar', true],
    ['/raw/foo/', 'foo', false],
    ['/raw', 'anything', true],
    ['/raw/', 'anything', true],
    ['/', 'anything', true],
    ['/ra', 'anything', false],
    ['/RAW', 'anything', false],
    ['/other/foo', 'foo', false],
  ])('of %s reads raw/%j: %s', (path, key, expected) => {
    expect(allows(`storage.read:${path}`, 'read', 'raw', key)).toBe(expected);
  });

  it.each([
    ['/raw/foo', '', false],
    ['/raw/foo', 'foo', false],
    ['/raw/foo', 'foo/', true],
    ['/raw/foo', 'foo/b', true],
    ['/raw/foo/', 'foo', false],
    ['/raw/foo/', 'foo/', true],
    ['/raw', '', true],
    ['/', '', true],
  ])('of %s lists raw with the prefix %j: %s', (path, prefix, expected) => {
    expect(allows(`storage.read:${path}`, 'list', 'raw', prefix)).toBe(expected);
  });

  it.each([
    ['read', ['read', 'list', 'stat']],
    ['create', ['create', 'stat']],
    ['modify', ['create', 'modify', 'stat']],
    ['stage', ['read', 'list', 'stage', 'stat']],
  ])('to %s allows %j', (right, expected) => {
    const all: Wanted[] = ['read', 'create', 'modify', 'stage', 'list', 'stat'];
    const allowed = all.filter((one) => allows(`storage.${right}:/b`, one, 'b', 'k'));
    expect(allowed.sort()).toEqual([...expected].sort());
  });

  it('to create may never overwrite, unless another entry lets it modify', () => {
    const scope = parseScope('storage.create:/b storage.modify:/b/mine');
    expect(writeRight(scope, 'b', 'other')).toBe('create');
    expect(writeRight(scope, 'b', 'mine/x')).toBe('modify');
    expect(writeRight(scope, 'c', 'x')).toBeUndefined();
  });

  it.each([
    '',
    ' ',
    'storage.read',
    'storage.read:',
    'storage.read:b',
    'storage.write:/b',
    'storage.constructor:/b',
    'Storage.read:/b',
    'openid',
    'storage.read:/b  storage.read:/c',
    'storage.read:/b ',
    'storage.read:/b/../c',
    'storage.read:/b/..',
    'storage.read:/..',
    'storage.read:/b/./c',
    'storage.read:/b/%2e%2e/c',
    'storage.read:/b/%2E./c',
    'storage.read:/b%2Fc',
    'storage.read:/b/c%2fd',
    'storage.read:/b/c%252Fd',
    'storage.read:/b/c%25',
    'storage.read:/b/c%',
    'storage.read:/b/c%4',
    'storage.read:/b/c%zz',
    'storage.read:/b/c%00',
    'storage.read:/b/c%0a',
    'storage.read:/b/c%C2%85',
    'storage.read:/b/c%C0%AF',
    'storage.read:/b/c%FF',
    'storage.read:/b/c%ED%A0%80',
    'storage.read:/b//c',
    'storage.read://b',
    'storage.read://',
    'storage.read:/b\\c',
    'storage.read:/b?c',
    'storage.read:/b#c',
    'storage.read:/b/\u00f6',
    'storage.read:/b/*"',
    `storage.read:/b/${'x'.repeat(1200)}`,
    Array.from({ length: 65 }, () => 'storage.read:/b').join(' '),
  ])('is never %j', (text) => {
    expect(() => parseScope(text)).toThrow(ScopeError);
  });

  it.each([
    'storage.read:/',
    'storage.read:/raw',
    'storage.modify:/cms:raw/2026/run%207/',
    'storage.create:/b/%F0%9F%99%82 storage.stage:/c/d',
  ])('%s is written as it was read', (text) => {
    expect(renderScope(parseScope(text))).toBe(text);
  });
});

describe('of two scopes', () => {
  it.each([
    ['storage.read:/b/foo', 'storage.read:/b/foo'],
    ['storage.read:/b/foo/', 'storage.read:/b/foo'],
    ['storage.read:/b/foo/bar', 'storage.read:/b/foo/'],
    ['storage.read:/b', 'storage.read:/'],
    ['storage.read:/', 'storage.read:/'],
    ['storage.read:/b', 'storage.stage:/b'],
    ['storage.create:/b/x', 'storage.modify:/b'],
    ['storage.read:/b/x storage.create:/c', 'storage.create:/c storage.read:/b'],
  ])('%s lies in %s', (child, parent) => {
    expect(isSubset(parseScope(child), parseScope(parent))).toBe(true);
  });

  it.each([
    ['storage.read:/b/foobar', 'storage.read:/b/foo'],
    ['storage.read:/b/foo', 'storage.read:/b/foo/'],
    ['storage.read:/b', 'storage.read:/b/foo'],
    ['storage.read:/', 'storage.read:/b'],
    ['storage.read:/c', 'storage.read:/b'],
    ['storage.stage:/b', 'storage.read:/b'],
    ['storage.modify:/b', 'storage.create:/b'],
    ['storage.create:/b', 'storage.read:/b'],
    ['storage.read:/b', 'storage.modify:/b'],
    ['storage.read:/b/x storage.read:/c', 'storage.read:/b'],
  ])('%s does not lie in %s', (child, parent) => {
    expect(isSubset(parseScope(child), parseScope(parent))).toBe(false);
  });
});

describe('the scope of an outside issuer', () => {
  it.each([
    ['storage.read:/', '/cms/data', 'storage.read:/cms/data/'],
    ['storage.read:/', '/cms', 'storage.read:/cms'],
    ['storage.read:/', '/', 'storage.read:/'],
    ['storage.read:/foo', '/cms/data', 'storage.read:/cms/data/foo'],
    ['storage.read:/foo/', '/cms/data/', 'storage.read:/cms/data/foo/'],
    ['openid storage.create:/a compute.read storage.poll:/', '/cms', 'storage.create:/cms/a'],
  ])('%s below %s is %s', (text, mount, expected) => {
    expect(renderScope(mountScope(text, mount) ?? [])).toBe(expected);
  });

  it.each(['', 'openid profile', 'compute.read'])(
    'that says nothing of storage (%j) leaves it to groups',
    (text) => {
      expect(mountScope(text, '/cms')).toBeUndefined();
    },
  );

  it.each([
    'storage.poll:/',
    'openid storage.readers:/x',
    'Storage.Read:/x',
    'openid\tstorage.read:/x',
  ])('that names no right to storage that is known (%j) is not taken for all of them', (text) => {
    expect(() => mountScope(text, '/cms')).toThrow(ScopeError);
  });

  it.each([
    'storage.read',
    'storage.read:',
    'storage.read:x',
    'storage.read:/../x',
    'storage.read://',
  ])('that is not a good one (%s) is refused whole', (text) => {
    expect(() => mountScope(`storage.read:/ok ${text}`, '/cms')).toThrow(ScopeError);
  });
});

describe('administration', () => {
  it('is one entry without a place, which covers nothing that is stored', () => {
    const scope = parseScope('bursar.admin:/');
    expect(coversAdministration(scope)).toBe(true);
    expect(renderScope(scope)).toBe('bursar.admin:/');
    for (const wanted of ['read', 'create', 'modify', 'stage', 'list', 'stat'] as const) {
      expect(covers(scope, wanted, 'raw', '')).toBe(false);
    }
    expect(coversAdministration(parseScope('storage.modify:/ storage.stage:/'))).toBe(false);
    for (const text of ['bursar.admin', 'bursar.admin:', 'bursar.admin:/x', 'Bursar.admin:/']) {
      expect(() => parseScope(text)).toThrow(ScopeError);
    }
  });

  it('is handed on only by who has it, and never comes from an outside issuer', () => {
    const admin = parseScope('bursar.admin:/');
    expect(isSubset(admin, admin)).toBe(true);
    expect(isSubset(admin, parseScope('storage.modify:/'))).toBe(false);
    expect(isSubset(parseScope('storage.read:/raw'), admin)).toBe(false);
    expect(mountScope('bursar.admin:/', '/raw')).toBeUndefined();
    expect(mountScope('storage.read:/x bursar.admin:/', '/raw')).toEqual(
      parseScope('storage.read:/raw/x'),
    );
  });
});
