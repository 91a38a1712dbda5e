// RestrictPublicBuckets: what lets everybody in does not let in who is shut out, and all else
// counts as before.
import { describe, expect, it } from 'vitest';
import { decideAccess, explainAccess } from '#bursar/authz/grants/decide.js';
import { ask, type Given, grant, indexOf, person, policyOf, statement } from './fixture.ts';

const bob = person('atlas/bob');
const open = statement({ Principal: '*' });
const toBob = statement({ Principal: { AWS: 'atlas/bob' } });
const narrowed = statement({
  Principal: '*',
  Condition: { IpAddress: { 'aws:SourceIp': '192.0.2.0/24' } },
});

const allowed = (
  given: Given,
  rules: { grants?: ReturnType<typeof grant>[]; policy?: ReturnType<typeof policyOf> },
) =>
  decideAccess(
    indexOf(...(rules.grants ?? [])),
    ask({ key: 'a', isShutOut: true, ...given }),
    rules.policy,
  ).allowed;

describe('who is shut out', () => {
  it('is let in by no policy that lets everybody in, also where it names them', () => {
    expect(allowed({ who: null, isShutOut: false }, { policy: policyOf(open) })).toBe(true);
    expect(allowed({ who: null }, { policy: policyOf(open) })).toBe(false);
    expect(allowed({ who: bob }, { policy: policyOf(open, toBob) })).toBe(false);
  });

  it('is let in by a policy that names them, or the networks they come from', () => {
    expect(allowed({ who: bob }, { policy: policyOf(toBob) })).toBe(true);
    expect(allowed({ who: null }, { policy: policyOf(narrowed) })).toBe(true);
  });

  it('is let in by no grant to anyone, and by one to them', () => {
    const toAnyone = grant({ subjects: ['anyone'] });
    const named = grant({ subjects: ['principal:atlas/bob'] });
    expect(allowed({ who: null, isShutOut: false }, { grants: [toAnyone] })).toBe(true);
    expect(allowed({ who: null }, { grants: [toAnyone] })).toBe(false);
    expect(allowed({ who: bob }, { grants: [toAnyone] })).toBe(false);
    expect(allowed({ who: bob }, { grants: [toAnyone, named] })).toBe(true);
  });

  it('is denied what a rule denies everybody', () => {
    const denial = statement({ Effect: 'Deny', Principal: '*' });
    const named = grant({ subjects: ['principal:atlas/bob'] });
    expect(allowed({ who: bob }, { grants: [named], policy: policyOf(open, denial) })).toBe(false);
    const deny = grant({ effect: 'deny', subjects: ['anyone'] });
    expect(allowed({ who: bob }, { grants: [named, deny] })).toBe(false);
  });

  it('is explained the same', () => {
    const request = ask({ key: 'a', who: bob, isShutOut: true });
    const { decision } = explainAccess(indexOf(), request, policyOf(open));
    expect(decision).toMatchObject({ allowed: false, by: 'default' });
  });
});
