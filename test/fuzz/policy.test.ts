// Grants and policies at random: the index decides as asking every rule would, and readers take
// what they understand or refuse it.
import { describe, expect, it } from 'vitest';
import type { AccessRequest } from '#bursar/authz/grants/access-request.js';
import { decideAccess } from '#bursar/authz/grants/decide.js';
import { compileGrant, type Grant, parseGrant } from '#bursar/authz/grants/grant.js';
import { GrantIndex } from '#bursar/authz/grants/grant-index.js';
import { isPublic, parsePolicy } from '#bursar/authz/grants/policy.js';
import { type Rule, verdictOf } from '#bursar/authz/grants/rule.js';
import { matchesSegments, wildcardSegments } from '#bursar/authz/grants/wildcards.js';
import { Refusal } from '#bursar/core/errors.js';
import { ask, person } from '../authz/grants/fixture.ts';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

type Random = () => number;

const segments = ['a', 'ab', 'b', '', 'a-', '\u00e9', 'A', '0'];

function textOf(random: Random, pieces: readonly string[], max: number): string {
  return Array.from({ length: randomBelow(random, max + 1) }, () => randomOf(random, pieces)).join(
    '',
  );
}

function pathOf(random: Random): string {
  const count = randomBelow(random, 5);
  return Array.from({ length: count }, () => randomOf(random, segments)).join('/');
}

const subjects = [
  ...['anyone', 'tenant:cms', 'tenant:atlas', 'group:cms/a', 'group:cms/b', 'group:atlas/a'],
  ...['principal:cms/alice', 'principal:cms/bob', 'principal:atlas/alice'],
];
const actions = ['s3:GetObject', 's3:PutObject', 's3:ListBucket', 's3:Get*', 's3:*', 's3:List*'];
const conditions = [
  undefined,
  undefined,
  { Bool: { 'aws:SecureTransport': 'true' } },
  { StringEquals: { 's3:ExistingObjectTag/kind': 'open' } },
];

function someOf<T>(random: Random, items: readonly T[]): T[] {
  const some = items.filter(() => random() < 0.25);
  return some.length > 0 ? some : [randomOf(random, items)];
}

function grantOf(random: Random, name: string): Grant {
  const place = random();
  const path = pathOf(random);
  return parseGrant({
    name,
    effect: random() < 0.7 ? 'allow' : 'deny',
    subjects: someOf(random, subjects),
    actions: someOf(random, actions),
    ...(place > 0.1 && { bucket: randomOf(random, ['raw', 'rawer']) }),
    ...(place > 0.7 && path !== '' && { key: path }),
    ...(place > 0.2 && place <= 0.7 && { prefix: path + (random() < 0.5 ? '/' : '') }),
    conditions: randomOf(random, conditions),
  });
}

function requestOf(random: Random): AccessRequest {
  const who = randomOf(random, [
    ...[null, person('cms/alice'), person('cms/bob'), person('atlas/alice')],
    person('cms/boss'),
  ]);
  const groups = who ? ['a', 'b'].filter(() => random() < 0.5) : [];
  const tags = [undefined, new Map<string, string>(), new Map([['kind', 'open']])];
  const facts = { isSecure: random() < 0.5, objectTags: randomOf(random, tags) };
  const common = { who, groups, facts, bucket: randomOf(random, ['raw', 'rawer', 'other']) };
  if (random() < 0.3) {
    return ask({ ...common, action: 's3:ListBucket', listPrefix: pathOf(random) });
  }
  if (random() < 0.1) return ask({ ...common, action: 's3:GetBucketPolicy' });
  const action = randomOf(random, ['s3:GetObject', 's3:PutObject', 's3:GetObjectTagging'] as const);
  return ask({ ...common, action, key: pathOf(random) || 'a' });
}

/** What the rules say, each asked, without an index. */
function decideNaively(rules: readonly Rule[], request: AccessRequest): string {
  const verdicts = (effect: string) =>
    new Set(rules.filter((rule) => rule.effect === effect).map((rule) => verdictOf(rule, request)));
  const [denials, grants] = [verdicts('deny'), verdicts('allow')];
  const isOwn = request.who?.id === 'cms/boss';
  // What no rule can let everybody do.
  if (request.who === null && request.action === 's3:GetBucketPolicy') return 'denied';
  if (denials.has('applies')) return 'denied';
  if (!isOwn && !grants.has('applies') && !grants.has('needs tags')) return 'denied';
  if (denials.has('needs tags')) return 'needs tags';
  return isOwn || grants.has('applies') ? 'allowed' : 'needs tags';
}

function decideIndexed(index: GrantIndex, request: AccessRequest): string {
  const decision = decideAccess(index, request);
  if (decision.needsTags) return 'needs tags';
  return decision.allowed ? 'allowed' : 'denied';
}

describe('the index of grants, fuzzed', () => {
  it('decides as every rule would, while grants come and go', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    const outcomes = new Map<string, number>();
    await fuzz(200_000, 150, (random) => {
      const index = new GrantIndex();
      const kept: Grant[] = [];
      const rules = new Map<Grant, Rule>();
      // Few places and many grants divide places by subject; the other way around, hashes count.
      const count = randomOf(random, [3, 30, 120]);
      for (let i = 0; i < 60; i++) {
        while (kept.length < count) {
          const made = grantOf(random, `g${i}-${kept.length}`);
          kept.push(made);
          rules.set(made, compileGrant('cms', made));
          index.add('cms', made);
        }
        const request = requestOf(random);
        const outcome = decideNaively([...rules.values()], request);
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
        expect(decideIndexed(index, request)).toBe(outcome);
        const gone = kept.splice(randomBelow(random, kept.length), 1 + randomBelow(random, 3));
        for (const one of gone) {
          expect(index.remove('cms', one)).toBe(true);
          rules.delete(one);
        }
        expect(index.count).toBe(kept.length);
      }
    });
    for (const outcome of ['allowed', 'denied', 'needs tags']) {
      expect(outcomes.get(outcome)).toBeGreaterThan(100);
    }
  });

  it('an index that lost all its grants allows nothing', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(210_000, 30, (random) => {
      const index = new GrantIndex();
      const made = Array.from({ length: 60 }, (_, i) => grantOf(random, `g${i}`));
      for (const one of made) index.add('cms', one);
      for (const one of made) expect(index.remove('cms', one)).toBe(true);
      for (const one of made) expect(index.remove('cms', one)).toBe(false);
      for (let i = 0; i < 30; i++) expect(index.propose(requestOf(random))).toEqual([]);
    });
  });

  it('a listing shows no key that a denial covers', { timeout: fuzzTimeoutMs }, async () => {
    let listed = 0;
    await fuzz(220_000, 200, (random) => {
      const index = new GrantIndex();
      const denials: Grant[] = [];
      for (let i = 0; i < 12; i++) {
        const one = { ...grantOf(random, `g${i}`), actions: ['s3:*'], conditions: undefined };
        index.add('cms', one);
        if (one.effect === 'deny') denials.push(one);
      }
      for (let i = 0; i < 20; i++) {
        const asked = requestOf(random);
        const prefix = pathOf(random);
        const facts = { ...asked.facts, query: [['prefix', prefix]] as const };
        const listing = { action: 's3:ListBucket', key: null, listPrefix: prefix, facts } as const;
        if (!decideAccess(index, { ...asked, ...listing }).allowed) continue;
        listed++;
        const shown = [prefix, `${prefix}/a`, `${prefix}a/b`, prefix + pathOf(random)];
        for (const key of shown.filter((one) => one !== prefix)) {
          const read = { ...asked, action: 's3:GetObject', key, listPrefix: null } as const;
          const denies = denials.map((one) => verdictOf(compileGrant('cms', one), read));
          expect(denies).not.toContain('applies');
        }
      }
    });
    expect(listed).toBeGreaterThan(100);
  });
});

const values: readonly unknown[] = [
  ...['*', 'Allow', 'Deny', 's3:*', 's3:GetObject', 'arn:aws:s3:::raw', 'arn:aws:s3:::raw/*', ''],
  ...[
    'arn:aws:iam::cms:user/alice',
    'cms',
    '2012-10-17',
    '\x24{aws:username}',
    '\x24{',
    'a?b*c',
    'true',
  ],
  ...[0, -1, true, null, [], {}, [[]], { AWS: '*' }, { AWS: ['cms/bob'] }, '\ud800', '10.0.0.0/8'],
  ...[{ Bool: { 'aws:SecureTransport': 'true' } }, { StringLike: { 's3:prefix': 'a*' } }],
  ...[{ IpAddress: { 'aws:SourceIp': ['10.0.0.0/8', '::/0'] } }, { Null: { 'aws:Referer': true } }],
];
const names = [
  ...['Version', 'Id', 'Statement', 'Sid', 'Effect', 'Principal', 'NotPrincipal', 'Action'],
  ...['NotAction', 'Resource', 'NotResource', 'Condition', 'AWS', '__proto__', 'constructor'],
  ...['StringLike', 'aws:SourceIp', 'ForAnyValue:StringEquals', 's3:RequestObjectTagKeys'],
];

function mutate(random: Random, value: unknown): unknown {
  if (random() < 0.15 || typeof value !== 'object' || value === null) {
    return random() < 0.6 ? value : randomOf(random, values);
  }
  if (Array.isArray(value)) return value.map((one) => mutate(random, one));
  const entries = Object.entries(value).map(([name, one]) => [
    random() < 0.04 ? randomOf(random, names) : name,
    random() < 0.3 ? mutate(random, one) : one,
  ]);
  if (random() < 0.1) entries.push([randomOf(random, names), randomOf(random, values)]);
  return Object.fromEntries(entries);
}

const whole = {
  Version: '2012-10-17',
  Statement: [
    {
      Sid: 'a',
      Effect: 'Allow',
      Principal: { AWS: ['arn:aws:iam::cms:user/alice', 'atlas'] },
      Action: ['s3:GetObject', 's3:List*'],
      Resource: ['arn:aws:s3:::raw', 'arn:aws:s3:::raw/home/\x24{aws:username}/*'],
      Condition: { IpAddress: { 'aws:SourceIp': '10.0.0.0/8' } },
    },
    {
      Effect: 'Deny',
      Principal: '*',
      NotAction: 's3:Get*',
      NotResource: 'arn:aws:s3:::raw/open/*',
      Condition: { StringNotLikeIfExists: { 'aws:Referer': 'https://*' } },
    },
  ],
};

/** The rules, or that it was refused as a policy is; nothing else is thrown. */
function attempt(text: Uint8Array): readonly Rule[] | 'refused' {
  try {
    return parsePolicy(text, { tenant: 'cms', name: 'raw' });
  } catch (error) {
    if (error instanceof Refusal && error.code === 'MalformedPolicy') return 'refused';
    throw error;
  }
}

describe('the reader of policies, fuzzed', () => {
  it('takes or refuses what is nearly a policy, and decides by it', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    const seen = { taken: 0, refused: 0 };
    await fuzz(230_000, 3000, (random) => {
      const rules = attempt(Buffer.from(JSON.stringify(mutate(random, whole))));
      if (rules === 'refused') {
        seen.refused++;
        return;
      }
      seen.taken++;
      isPublic(rules);
      for (let i = 0; i < 3; i++) decideAccess(new GrantIndex(), requestOf(random), rules);
    });
    expect(seen.taken).toBeGreaterThan(100);
    expect(seen.refused).toBeGreaterThan(100);
  });

  it('refuses bytes that are no policy', { timeout: fuzzTimeoutMs }, async () => {
    const text = JSON.stringify(whole);
    const letters = ['{', '}', '"', ',', ':', '[', '\\', '\0', '\u00e9', 'x', '1', ' '];
    await fuzz(240_000, 2000, (random) => {
      const at = randomBelow(random, text.length);
      const put = textOf(random, letters, 3);
      attempt(Buffer.from(text.slice(0, at) + put + text.slice(at + randomBelow(random, 4))));
    });
    expect(attempt(Buffer.from('['.repeat(20_000)))).toBe('refused');
    expect(attempt(Buffer.from('{"Statement":'.repeat(1500)))).toBe('refused');
  });

  it('nobody gets more by a denial', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(250_000, 1000, (random) => {
      const rules = attempt(Buffer.from(JSON.stringify(mutate(random, whole))));
      if (rules === 'refused') return;
      const request = requestOf(random);
      const without = rules.filter((rule) => rule.effect === 'allow');
      const index = new GrantIndex();
      if (decideAccess(index, request, rules).allowed) {
        expect(decideAccess(index, request, without).allowed).toBe(true);
      }
    });
  });
});

describe('wildcards, fuzzed', () => {
  it('match as the regular expression does', { timeout: fuzzTimeoutMs }, async () => {
    let matched = 0;
    await fuzz(260_000, 20_000, (random) => {
      const pattern = textOf(random, ['a', 'b', '*', '?', '.'], 7);
      const text = textOf(random, ['a', 'b', '.'], 8);
      const form = pattern.replaceAll('.', '\\.').replaceAll(/\*+/g, '.*').replaceAll('?', '.');
      const expected = new RegExp(`^${form}$`, 's').test(text);
      if (expected) matched++;
      expect(matchesSegments(wildcardSegments(pattern), text), `${pattern} ${text}`).toBe(expected);
    });
    expect(matched).toBeGreaterThan(500);
  });
});
