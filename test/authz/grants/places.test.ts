// Where a grant holds: prefixes end at boundaries of segments, listings show nothing else, and an
// index of many grants looks at few.
import { beforeAll, describe, expect, it } from 'vitest';
import { grantsPerPlaceMax } from '#bursar/authz/grants/bounds.js';
import { decideAccess } from '#bursar/authz/grants/decide.js';
import type { Grant } from '#bursar/authz/grants/grant.js';
import { GrantIndex, PathHash } from '#bursar/authz/grants/grant-index.js';
import { verdictOf } from '#bursar/authz/grants/rule.js';
import { ask, askList, grant, indexOf, person } from './fixture.ts';

describe('a grant', () => {
  it.each<[Partial<Grant>, string, boolean]>([
    [{ prefix: 'raw/2026' }, 'raw/2026', true],
    [{ prefix: 'raw/2026' }, 'raw/2026/', true],
    [{ prefix: 'raw/2026' }, 'raw/2026/a/b', true],
    [{ prefix: 'raw/2026' }, 'raw/20260', false],
    [{ prefix: 'raw/2026' }, 'raw/2026a/b', false],
    [{ prefix: 'raw/2026' }, 'raw/202', false],
    [{ prefix: 'raw/2026' }, 'raw/2026%2Fa', false],
    [{ prefix: 'raw/2026' }, 'raw/2026\\a', false],
    [{ prefix: 'raw/2026' }, 'raw/2026\uff0fa', false],
    [{ prefix: 'raw/2026' }, '/raw/2026/a', false],
    [{ prefix: 'raw/2026' }, 'RAW/2026/a', false],
    [{ prefix: 'raw/2026' }, 'raw/./2026/a', false],
    [{ prefix: 'raw/2026' }, 'raw/2026/../secret', true],
    [{ prefix: 'raw/2026/' }, 'raw/2026', false],
    [{ prefix: 'raw/2026/' }, 'raw/2026/', true],
    [{ prefix: 'raw/2026/' }, 'raw/2026//a', true],
    [{ prefix: 'raw//' }, 'raw//a', true],
    [{ prefix: 'raw//' }, 'raw/a', false],
    [{ prefix: '/' }, '/a', true],
    [{ prefix: '/' }, 'a', false],
    [{ prefix: '' }, 'a', true],
    [{}, 'a/b', true],
    [{ bucket: undefined }, 'a/b', true],
    [{ bucket: 'rawer' }, 'a', false],
    [{ bucket: 'ra' }, 'w/a', false],
    [{ prefix: 'caf\u00e9' }, 'cafe\u0301', false],
    [{ key: 'raw/2026' }, 'raw/2026', true],
    [{ key: 'raw/2026' }, 'raw/2026/a', false],
    [{ key: 'raw/2026' }, 'raw/2026/', false],
    [{ key: 'raw/' }, 'raw/', true],
    [{ key: 'raw/' }, 'raw', false],
    [{ prefix: 'a*' }, 'ab', false],
    [{ prefix: '\x24{aws:username}' }, 'alice/a', false],
  ])('of %o reads %j: %s', (place, key, expected) => {
    expect(decideAccess(indexOf(grant(place)), ask({ key })).allowed).toBe(expected);
  });

  it('of a prefix is no right to the bucket itself', () => {
    const all = { actions: ['s3:*'] };
    const request = ask({ action: 's3:GetBucketPolicy' });
    expect(decideAccess(indexOf(grant({ ...all, prefix: 'a/' })), request).allowed).toBe(false);
    expect(decideAccess(indexOf(grant({ ...all, key: 'a' })), request).allowed).toBe(false);
    expect(decideAccess(indexOf(grant(all)), request).allowed).toBe(true);
  });

  it.each<[string[], boolean]>([
    [['s3:GetObject'], true],
    [['S3:getobject'], true],
    [['s3:*'], true],
    [['*'], true],
    [['s3:Get*'], true],
    [['s3:Get?bject'], true],
    [['s3:PutObject', 's3:ListBucket'], false],
    [['s3:GetObjectTagging'], false],
    [['bursar:*'], false],
  ])('of the actions %s reads: %s', (actions, expected) => {
    expect(decideAccess(indexOf(grant({ actions })), ask({ key: 'a' })).allowed).toBe(expected);
  });
});

describe('a listing', () => {
  const lists = (given: Partial<Grant>, prefix: string | null) =>
    decideAccess(indexOf(grant(given)), askList(prefix)).allowed;

  it.each([
    ['raw/2026/', true],
    ['raw/2026/a', true],
    ['raw/2026', false],
    ['raw/20', false],
    ['raw/', false],
    ['raw/2025/', false],
    ['raw/20260/', false],
    ['', false],
    [null, false],
  ])('with the prefix %j, of who may read raw/2026/: %s', (prefix, expected) => {
    expect(lists({ prefix: 'raw/2026/' }, prefix)).toBe(expected);
    expect(lists({ prefix: 'raw/2026' }, prefix)).toBe(expected);
    expect(lists({ prefix: 'raw/2026/', actions: ['s3:ListBucket'] }, prefix)).toBe(expected);
    expect(lists({ prefix: 'raw/2026/', actions: ['s3:PutObject'] }, prefix)).toBe(false);
  });

  it('of versions or uploads needs its own right', () => {
    const index = indexOf(grant({ prefix: 'a/' }));
    const versions = askList('a/', { action: 's3:ListBucketVersions' });
    expect(decideAccess(index, versions).allowed).toBe(false);
    const both = grant({ prefix: 'a/', actions: ['s3:ListBucketVersions'] });
    expect(decideAccess(indexOf(both), versions).allowed).toBe(true);
  });

  it('is no right of who may read single objects', () => {
    for (const prefix of ['a', 'a/', '', null]) expect(lists({ key: 'a' }, prefix)).toBe(false);
  });

  it('shows nothing around which something is denied', () => {
    const denial = { effect: 'deny', actions: ['s3:*'] } as const;
    const index = indexOf(
      grant({}),
      grant({ ...denial, prefix: 'a/secret/' }),
      grant({ ...denial, key: 'b/c/d' }),
    );
    const expected: [string, boolean][] = [
      ['', false],
      ['a', false],
      ['a/', false],
      ['a/s', false],
      ['a/secret', false],
      ['a/secret/', false],
      ['a/secret/x', false],
      ['a/secrets', true],
      ['a/t', true],
      ['b/', false],
      ['b/c/d', false],
      ['b/c/d/', true],
      ['c', true],
    ];
    for (const [prefix, allowed] of expected) {
      expect([prefix, decideAccess(index, askList(prefix)).allowed]).toEqual([prefix, allowed]);
    }
  });

  it('is not hindered by denials to others, of reading alone, or of other conditions', () => {
    const denial = { effect: 'deny', prefix: 'a/b/' } as const;
    const index = indexOf(
      grant({}),
      grant({ ...denial, actions: ['s3:*'], subjects: ['principal:cms/bob', 'tenant:atlas'] }),
      grant(denial),
      grant({
        ...denial,
        actions: ['s3:*'],
        conditions: { Bool: { 'aws:SecureTransport': 'false' } },
      }),
    );
    expect(decideAccess(index, askList('a/')).allowed).toBe(true);
    const plain = askList('a/', { facts: { isSecure: false } });
    expect(decideAccess(index, plain).allowed).toBe(false);
    expect(decideAccess(index, ask({ key: 'a/b/c' })).allowed).toBe(false);
  });
});

describe('a change', () => {
  it('counts from the next decision on', () => {
    const index = new GrantIndex();
    const [allow, deny] = [grant({}), grant({ effect: 'deny', prefix: 'a/' })];
    const may = () => decideAccess(index, ask({ key: 'a/b' })).allowed;
    expect(may()).toBe(false);
    index.add('cms', allow);
    expect(may()).toBe(true);
    index.add('cms', deny);
    expect(may()).toBe(false);
    expect(index.remove('cms', deny)).toBe(true);
    expect(may()).toBe(true);
    expect(index.remove('atlas', allow)).toBe(false);
    expect(may()).toBe(true);
    expect(index.remove('cms', allow)).toBe(true);
    expect(may()).toBe(false);
  });

  it('of one of two tenants’ grants of one name leaves the other', () => {
    const index = new GrantIndex();
    const one = grant({ name: 'same' });
    index.add('cms', one);
    index.add('atlas', one);
    index.remove('cms', one);
    expect(decideAccess(index, ask({ key: 'a', tenant: 'atlas' })).allowed).toBe(true);
    expect(decideAccess(index, ask({ key: 'a' })).allowed).toBe(false);
  });
});

describe('among many grants', () => {
  const index = new GrantIndex();
  const deepest = 'a/'.repeat(512);

  beforeAll(() => {
    for (let i = 0; i < 20_000; i++) {
      // One subject in many places, many subjects in one place, and both by groups.
      index.add('cms', grant({ prefix: `runs/${i}/` }));
      index.add('cms', grant({ subjects: [`principal:cms/u${i}`], prefix: 'crowd/' }));
      if (i % 4 === 0) index.add('cms', grant({ subjects: [`group:cms/g${i}`] }));
    }
    for (let end = 2; end <= deepest.length; end += 2) {
      index.add('cms', grant({ prefix: deepest.slice(0, end), subjects: ['anyone'] }));
    }
  });

  it('a decision looks at those of the place and the subject alone', () => {
    expect(index.propose(ask({ key: 'runs/7/x' }))).toHaveLength(1);
    expect(index.propose(ask({ key: 'runs/70000/x' }))).toHaveLength(0);
    const crowded = ask({ who: person('cms/u77'), groups: ['g4', 'g8', 'g5'], key: 'crowd/x' });
    expect(index.propose(crowded)).toHaveLength(3);
    expect(index.propose(ask({ bucket: 'other', key: 'runs/7/x' }))).toHaveLength(0);
  });

  it('a key of 512 segments meets each place around it once', () => {
    const request = ask({ who: null, key: `${deepest.slice(0, -1)}b` });
    const found = index.propose(request);
    expect(found).toHaveLength(511);
    expect(found.every((rule) => verdictOf(rule, request) === 'applies')).toBe(true);
  });

  it('a prefix longer than any key is looked at no further than a key', () => {
    const request = askList('b/'.repeat(8000), { who: null });
    expect(index.propose(request)).toHaveLength(0);
    expect(decideAccess(index, askList(`${deepest}${'a/'.repeat(8000)}`)).allowed).toBe(true);
  });

  it('one subject has room in one place for so many', () => {
    const crowded = new GrantIndex();
    const more = grant({ subjects: ['principal:cms/alice', 'anyone'] });
    for (let i = 0; i < grantsPerPlaceMax; i++) {
      expect(crowded.hasRoomFor('cms', more)).toBe(true);
      crowded.add('cms', grant({}));
    }
    expect(crowded.hasRoomFor('cms', more)).toBe(false);
    expect(crowded.hasRoomFor('cms', grant({ subjects: ['anyone'] }))).toBe(true);
    expect(crowded.hasRoomFor('cms', grant({ prefix: 'a' }))).toBe(true);
  });
});

describe('the hash of a path', () => {
  it('is the same whole and in pieces, and another in another process', () => {
    const hash = new PathHash(100);
    const whole = hash.of('cms/raw/a');
    hash.restart();
    hash.add('cms');
    expect(hash.value).toBe(hash.of('cms'));
    hash.add('/raw/a-');
    hash.restart();
    hash.add('xcms/raw/y', 1, 9);
    hash.add('a');
    expect(hash.value).toBe(whole);
    expect(new PathHash(100).of('cms/raw/a')).not.toBe(whole);
  });

  it('spreads texts that collide in a simpler hash', () => {
    const hash = new PathHash(1024);
    // Aa and BB collide in Java's; zero units are lost in a sum of products without the one.
    const texts = ['Aa', 'BB', '\0', '\0\0', '', 'a\0', 'a', '\u0100', '\u0001'];
    for (let i = 0; i < 12; i++) texts.push(...texts.slice(0, 400).map((text) => `BB${text}Aa`));
    const distinct = new Set(texts);
    const hashes = new Set([...distinct].map((text) => hash.of(text)));
    expect(hashes.size).toBeGreaterThan(distinct.size - 3);
  });
});
