// Who may what: rights of one's own, grants and policies together, and what an explanation says.
import { describe, expect, it } from 'vitest';
import type { Action } from '#bursar/authz/grants/actions.js';
import { allowsEveryKey, decideAccess, explainAccess } from '#bursar/authz/grants/decide.js';
import type { Grant } from '#bursar/authz/grants/grant.js';
import type { Principal } from '#bursar/core/principal.js';
import {
  ask,
  askList,
  type Given,
  grant,
  indexOf,
  person,
  policyOf,
  statement,
} from './fixture.ts';

const empty = indexOf();

function byDefault(given: Given): string {
  const { allowed, by } = decideAccess(empty, ask({ key: 'a', ...given }));
  return `${allowed ? 'allowed' : 'denied'} by ${by}`;
}

describe('without any rule', () => {
  it.each<[string, Given, string]>([
    ['a stranger', { who: null }, 'denied by default'],
    ['a member', { who: person('cms/alice') }, 'denied by default'],
    ['the owner', { who: person('cms/boss') }, 'allowed by owner'],
    ['an admin', { who: person('cms/ann', 'admin') }, 'allowed by admin'],
    ['an operator of the tenant', { who: person('cms/op', 'operator') }, 'allowed by admin'],
    ['an auditor', { who: person('cms/aud', 'auditor') }, 'denied by role'],
    ['an auditor who owns', { who: person('cms/boss', 'auditor') }, 'denied by role'],
    ["another tenant's admin", { who: person('atlas/ann', 'admin') }, 'denied by default'],
    ["another tenant's operator", { who: person('atlas/op', 'operator') }, 'denied by default'],
    ["the owner's namesake elsewhere", { who: person('atlas/boss') }, 'denied by default'],
  ])('%s of objects: %o', (_who, given, expected) => {
    expect(byDefault(given)).toBe(expected);
  });

  it.each<[Action, Principal, string]>([
    ['s3:ListAllMyBuckets', person('cms/alice'), 'allowed by default'],
    ['s3:CreateBucket', person('cms/alice'), 'allowed by default'],
    ['s3:CreateBucket', person('cms/alice', 'member', false), 'denied by default'],
    ['s3:CreateBucket', person('atlas/bob'), 'denied by default'],
    ['s3:DeleteBucket', person('cms/alice'), 'denied by default'],
    ['s3:GetBucketLocation', person('cms/alice'), 'denied by default'],
    ['bursar:ListPrincipals', person('cms/alice'), 'denied by default'],
    ['bursar:ListPrincipals', person('cms/aud', 'auditor'), 'denied by default'],
    ['bursar:ListPrincipals', person('cms/ann', 'admin'), 'allowed by admin'],
    ['bursar:ListPrincipals', person('atlas/ann', 'admin'), 'denied by default'],
    ['bursar:ListPrincipals', person('default/op', 'operator'), 'allowed by admin'],
  ])('%s by %o', (action, who, expected) => {
    expect(byDefault({ action, who, key: null })).toBe(expected);
  });

  it('what is missing is told to members of the tenant alone', () => {
    expect(byDefault({ owner: null })).toBe('allowed by default');
    expect(byDefault({ owner: null, who: person('atlas/bob') })).toBe('denied by default');
    expect(byDefault({ owner: null, who: null })).toBe('denied by default');
  });
});

describe('grants and rights together', () => {
  it('a denial wins over every allowance, whoever asks', () => {
    const index = indexOf(
      grant({ subjects: ['anyone'], actions: ['s3:*'] }),
      grant({ name: 'embargo', effect: 'deny', subjects: ['anyone'], prefix: 'embargo/' }),
    );
    const asked = ['cms/alice', 'cms/boss'].map((id) => person(id));
    for (const who of [...asked, person('cms/ann', 'admin'), null]) {
      expect(decideAccess(index, ask({ who, key: 'open/a' })).allowed).toBe(true);
      const denied = decideAccess(index, ask({ who, key: 'embargo/a' }));
      expect(denied).toMatchObject({ allowed: false, by: 'grant:embargo' });
    }
  });

  it('a denial in a policy wins over a grant, and one in a grant over a policy', () => {
    const allows = indexOf(grant({ subjects: ['anyone'] }));
    const denies = indexOf(grant({ subjects: ['anyone'], effect: 'deny' }));
    const request = ask({ key: 'a' });
    const allow = policyOf(statement({}));
    const deny = policyOf(statement({ Effect: 'Deny' }));
    expect(decideAccess(allows, request, deny).allowed).toBe(false);
    expect(decideAccess(denies, request, allow).allowed).toBe(false);
    expect(decideAccess(allows, request, allow).allowed).toBe(true);
  });

  it('an auditor gets no data by any rule', () => {
    const index = indexOf(grant({ subjects: ['anyone', 'tenant:cms', 'principal:cms/aud'] }));
    const request = ask({ who: person('cms/aud', 'auditor'), key: 'a' });
    expect(decideAccess(index, request, policyOf(statement({}))).allowed).toBe(false);
  });

  it('an auditor or member can be granted administration, and only what was granted', () => {
    const actions = ['bursar:List*'];
    const index = indexOf(grant({ actions, bucket: undefined, subjects: ['tenant:cms'] }));
    for (const who of [person('cms/aud', 'auditor'), person('cms/alice')]) {
      const asked = { who, bucket: null, owner: null } as const;
      const list = ask({ ...asked, action: 'bursar:ListPrincipals' });
      const create = ask({ ...asked, action: 'bursar:CreatePrincipal' });
      expect(decideAccess(index, list).allowed).toBe(true);
      expect(decideAccess(index, create).allowed).toBe(false);
    }
  });

  it('a grant lets a member create buckets where members may not', () => {
    const who = person('cms/alice', 'member', false);
    const index = indexOf(grant({ actions: ['s3:CreateBucket'], bucket: 'mine' }));
    const request = { who, action: 's3:CreateBucket', owner: null } as const;
    expect(decideAccess(index, ask({ ...request, bucket: 'mine' })).allowed).toBe(true);
    expect(decideAccess(index, ask({ ...request, bucket: 'other' })).allowed).toBe(false);
  });

  it.each([
    [['principal:atlas/bob'], true],
    [['group:atlas/shifters'], true],
    [['tenant:atlas'], true],
    [['anyone'], true],
    [['principal:cms/bob'], false],
    [['group:cms/shifters'], false],
    [['tenant:cms'], false],
    [['principal:atlas/bo', 'principal:atlas/bobby'], false],
  ])('a grant to %s reaches a shifter of another tenant: %s', (subjects, expected) => {
    const index = indexOf(grant({ subjects }));
    const request = ask({ who: person('atlas/bob'), groups: ['shifters'], key: 'a' });
    expect(decideAccess(index, request).allowed).toBe(expected);
  });

  it('a grant of one tenant says nothing about the buckets of another', () => {
    const index = indexOf(grant({ subjects: ['anyone'], bucket: undefined }));
    expect(decideAccess(index, ask({ key: 'a' })).allowed).toBe(true);
    expect(decideAccess(index, ask({ key: 'a', tenant: 'atlas' })).allowed).toBe(false);
    expect(decideAccess(index, ask({ key: 'a', tenant: 'cm' })).allowed).toBe(false);
  });
});

describe('the way back', () => {
  const policy = policyOf(
    statement({
      Effect: 'Deny',
      Action: 's3:*',
      Resource: ['arn:aws:s3:::raw', 'arn:aws:s3:::raw/*'],
    }),
  );
  const keepers = [person('cms/boss'), person('cms/ann', 'admin'), person('cms/op', 'operator')];

  it('the owner and admins can replace a policy that denies them everything', () => {
    for (const who of keepers) {
      for (const action of [
        's3:GetBucketPolicy',
        's3:PutBucketPolicy',
        's3:DeleteBucketPolicy',
      ] as const) {
        expect(decideAccess(empty, ask({ who, action }), policy).allowed).toBe(true);
      }
      expect(decideAccess(empty, ask({ who, key: 'a' }), policy).allowed).toBe(false);
    }
    const member = ask({ action: 's3:DeleteBucketPolicy' });
    expect(decideAccess(empty, member, policy).allowed).toBe(false);
  });

  it('admins can remove a grant that denies them everything; it binds the owner', () => {
    const index = indexOf(
      grant({ effect: 'deny', subjects: ['anyone'], actions: ['*'], bucket: undefined }),
    );
    const remove = { action: 'bursar:DeleteGrant', bucket: null } as const;
    for (const who of keepers.slice(1)) {
      expect(decideAccess(index, ask({ who, ...remove })).allowed).toBe(true);
      expect(decideAccess(index, ask({ who, action: 's3:PutBucketPolicy' })).allowed).toBe(false);
      expect(decideAccess(index, ask({ who, action: 'bursar:GetUsage' })).allowed).toBe(false);
    }
    const owner = { who: keepers[0] };
    expect(decideAccess(index, ask({ ...owner, action: 's3:PutBucketPolicy' })).allowed).toBe(
      false,
    );
    expect(decideAccess(index, ask({ ...owner, ...remove })).allowed).toBe(false);
  });
});

describe('tags of objects', () => {
  const isOpen = { StringEquals: { 's3:ExistingObjectTag/kind': 'open' } };
  const open = new Map([['kind', 'open']]);
  const closed = new Map([['kind', 'closed']]);

  function decide(index: typeof empty, objectTags: ReadonlyMap<string, string> | undefined) {
    const { allowed, needsTags } = decideAccess(index, ask({ key: 'a', facts: { objectTags } }));
    return needsTags ? 'needs tags' : allowed;
  }

  it('are asked for only where they decide', () => {
    const allows = indexOf(grant({ conditions: isOpen }));
    expect(decide(allows, undefined)).toBe('needs tags');
    expect(decide(allows, open)).toBe(true);
    expect(decide(allows, closed)).toBe(false);
    expect(decide(indexOf(grant({ conditions: isOpen }), grant({})), undefined)).toBe(true);
    const denied = indexOf(grant({ conditions: isOpen }), grant({ effect: 'deny' }));
    expect(decide(denied, undefined)).toBe(false);
    const elsewhere = indexOf(grant({ conditions: isOpen, prefix: 'b/' }));
    expect(decide(elsewhere, undefined)).toBe(false);
  });

  it('can deny what something else allows, and are not loaded for what nothing allows', () => {
    const denial = { effect: 'deny', conditions: isOpen } as const;
    const both = indexOf(grant({}), grant(denial));
    expect(decide(both, undefined)).toBe('needs tags');
    expect(decide(both, open)).toBe(false);
    expect(decide(both, closed)).toBe(true);
    expect(decide(indexOf(grant(denial)), undefined)).toBe(false);
  });

  it('until they are loaded the answer is no', () => {
    const index = indexOf(grant({ conditions: isOpen }));
    const request = ask({ key: 'a', facts: { objectTags: undefined } });
    expect(decideAccess(index, request)).toMatchObject({ allowed: false, needsTags: true });
  });

  it('bind the owner too', () => {
    const index = indexOf(grant({ effect: 'deny', subjects: ['anyone'], conditions: isOpen }));
    const request = ask({ who: person('cms/boss'), key: 'a', facts: { objectTags: undefined } });
    expect(decideAccess(index, request).needsTags).toBe(true);
  });
});

describe('an explanation', () => {
  it('names every rule that was looked at, why it did not apply, and which decided', () => {
    const isInside = { IpAddress: { 'aws:SourceIp': '10.0.0.0/8' } };
    const index = indexOf(
      grant({ name: 'reads' }),
      grant({ name: 'writes', actions: ['s3:PutObject'] }),
      grant({ name: 'inside', conditions: isInside, prefix: 'a/' }),
      grant({ name: 'bobs', subjects: ['principal:cms/bob'], prefix: 'a' }),
    );
    const policy = policyOf(
      statement({ Sid: 'no-b', Effect: 'Deny', Resource: 'arn:aws:s3:::raw/b*' }),
    );
    const { decision, considered } = explainAccess(index, ask({ key: 'a/b' }), policy);
    expect(decision).toMatchObject({ allowed: true, by: 'grant:reads' });
    expect(Object.fromEntries(considered.map((one) => [one.name, one.verdict]))).toEqual({
      'grant:reads': 'applies',
      'grant:writes': 'another action',
      'grant:inside': 'a condition does not hold',
      'grant:bobs': 'another subject',
      'policy:no-b': 'another resource',
    });
    const inside = considered.find(({ name }) => name === 'grant:inside');
    expect(inside?.condition).toBe('IpAddress aws:SourceIp');
  });

  it('names the right of one’s own and the default', () => {
    const ofOwner = explainAccess(empty, ask({ who: person('cms/boss'), key: 'a' }));
    expect(ofOwner.decision.by).toBe('owner');
    expect(explainAccess(empty, askList('a/')).decision.by).toBe('default');
  });
});

describe('what is allowed of every key', () => {
  const boss = person('cms/boss');
  const any = { StringEquals: { 's3:ExistingObjectTag/kind': 'open' } };
  const isSecure = { Bool: { 'aws:SecureTransport': 'false' } };
  const all = grant({});
  const denies = (given: Parameters<typeof grant>[0]) => grant({ effect: 'deny', ...given });
  const ofBoss = { subjects: ['principal:cms/boss'] };
  const secret = 'arn:aws:s3:::raw/secret/*';
  const denial = (given: object) => statement({ Effect: 'Deny', ...given });

  it.each<[string, Grant[], object[], Given, boolean]>([
    ['nothing', [], [], {}, false],
    ['being the owner', [], [], { who: boss }, true],
    ['being an auditor', [], [], { who: person('cms/boss', 'auditor') }, false],
    ['a grant on all', [all], [], {}, true],
    ['a grant on all of the tenant', [grant({ bucket: undefined })], [], {}, true],
    ['a grant on a prefix', [grant({ prefix: 'a' })], [], {}, false],
    ['a grant that asks for tags', [grant({ conditions: any })], [], {}, false],
    ['a denied prefix', [all, denies({ prefix: 'secret/' })], [], {}, false],
    ['a denied key', [all, denies({ key: 'a' })], [], {}, false],
    ['a denied key, to the owner', [denies({ key: 'a', ...ofBoss })], [], { who: boss }, false],
    ['a denied key of others', [all, denies({ key: 'a', ...ofBoss })], [], {}, true],
    [
      'a denied key of other actions',
      [all, denies({ key: 'a', actions: ['s3:PutObject'] })],
      [],
      {},
      true,
    ],
    ['a denied key of another bucket', [all, denies({ key: 'a', bucket: 'kept' })], [], {}, true],
    ['denied tags', [all, denies({ conditions: any })], [], {}, false],
    ['what is denied without TLS', [all, denies({ conditions: isSecure })], [], {}, true],
    ['a policy on all', [], [statement({})], {}, true],
    ['a policy on some', [], [statement({ Resource: 'arn:aws:s3:::raw/*e*' })], {}, false],
    [
      'a policy on all but some',
      [],
      [statement({ Resource: undefined, NotResource: secret })],
      {},
      false,
    ],
    ['a policy that denies some', [all], [denial({ Resource: secret })], {}, false],
    [
      'a policy that denies some, to the owner',
      [],
      [denial({ Resource: secret })],
      { who: boss },
      false,
    ],
    ['a policy that denies tags', [all], [denial({ Condition: any })], {}, false],
    ['a policy that denies without TLS', [all], [denial({ Condition: isSecure })], {}, true],
    [
      'a policy that denies others',
      [all],
      [denial({ Principal: { AWS: 'arn:aws:iam::cms:user/bob' } })],
      {},
      true,
    ],
  ])('with %s', (_what, grants, statements, given, expected) => {
    const policy = statements.length > 0 ? policyOf(...statements) : undefined;
    const request = ask({ key: 'unnamed', ...given, facts: { objectTags: undefined } });
    expect(allowsEveryKey(indexOf(...grants), request, policy)).toBe(expected);
  });

  it('goes by the grants that are there', () => {
    const denied = denies({ prefix: 'secret/' });
    const index = indexOf(all, denied);
    const request = ask({ key: 'unnamed', facts: { objectTags: undefined } });
    expect(allowsEveryKey(index, request)).toBe(false);
    index.remove('cms', denied);
    expect(allowsEveryKey(index, request)).toBe(true);
  });
});
