// Who could read a place of a bucket at a moment of its history, by the functions that decide
// requests. Conditions of rules are about requests that were not made, so a rule that has some is
// shown with their names: it let in, or kept out, where they held.
import type { AccessRequest, RequestFacts } from '../../authz/grants/access-request.ts';
import { decideAccess } from '../../authz/grants/decide.ts';
import { compileGrant, type Grant } from '../../authz/grants/grant.ts';
import { GrantIndex } from '../../authz/grants/grant-index.ts';
import { isPublic, parsePolicy } from '../../authz/grants/policy.ts';
import { fullName, isForAnyone, type Rule, verdictOf } from '../../authz/grants/rule.ts';
import { anyone, subjectsOf } from '../../authz/grants/subjects.ts';
import { covers, parseScope } from '../../authz/tokens/scope.ts';
import { aclGives } from '../../core/acl.ts';
import { defaultTenant, type Principal, principalId, type Role } from '../../core/principal.ts';
import type { AccessHistory, ToldDelegation } from './history.ts';

export interface Access {
  /** `cms/alice`, `group:atlas/x`, `tenant:atlas`, `anyone`; of a token or link its principal. */
  who: string;
  /** `owner`, `admin`, `grant:NAME`, `policy:SID`, `acl`, `token:ID`, `share:ID`. */
  by: string;
  /** Of a rule: by which subject it means who. */
  through: string;
  /** What of the place; the keys below a prefix as `prefix*`. */
  places: string[];
  /** The conditions of the rule, and of rules that deny it; empty: none. */
  conditions: string[];
}

export interface Place {
  tenant: string;
  bucket: string;
  /** A key, or a prefix; empty: the whole bucket. */
  key: string;
}

interface Asker {
  who: string;
  principal: Principal | null;
  subjects: readonly string[];
}

/** A key that nobody has named: it stands for all below a prefix. */
const someKey = '\u{10FFFD}';
const placesMax = 200;
const noRules = new GrantIndex();

export function whoCouldRead(history: AccessHistory, place: Place, atMs: number): Access[] {
  const { bucket } = history;
  if (!bucket) return [];
  const rules = rulesOf(history, place);
  const isOpen = rules.some((rule) => rule.effect === 'allow' && isForAnyone(rule));
  if (isOpen && bucket.isAsMade && !history.tenants.has(defaultTenant)) {
    history.notTold.add(
      'whether the bucket kept the public out: nobody has set it, new buckets do, and those of ' +
        'release 0.1.0 did not; operators are told when the gateway was upgraded',
    );
  }
  const found = new Map<string, Access>();
  const note = (one: Omit<Access, 'places'>, at: string) => {
    const name = JSON.stringify([one.who, one.by, one.through, one.conditions]);
    const before = found.get(name) ?? { ...one, places: [] };
    if (!before.places.includes(at)) before.places.push(at);
    found.set(name, before);
  };
  for (const key of keysIn(history, place, rules)) {
    const shown = key.replace(someKey, '*');
    const readers = new Set<string>();
    for (const asker of askersOf(history, rules)) {
      for (const one of waysOf(history, place, { asker, key, rules, atMs })) {
        readers.add(one.who);
        note(one, shown);
      }
    }
    for (const one of history.delegations.values()) {
      if (!opens(one, place, key, atMs) || !isReader(one, readers)) continue;
      const who = principalId(one.tenant, one.principal);
      note({ who, by: `${one.kind}:${one.id}`, through: '', conditions: [] }, shown);
    }
  }
  return [...found.values()].sort((a, b) => (a.who + a.by < b.who + b.by ? -1 : 1));
}

/** The places that are told apart, as accesses have them: what is named below them is like them. */
export function placesIn(history: AccessHistory, place: Place): string[] {
  return keysIn(history, place, rulesOf(history, place)).map((key) => key.replace(someKey, '*'));
}

/** Is it the same access, though at one time rules, tokens or links named more places? */
export function isSameAccess(
  one: { given: readonly string[]; among: readonly string[] },
  other: { given: readonly string[]; among: readonly string[] },
): boolean {
  const has = ({ given, among }: typeof one, place: string) =>
    given.includes(nearest(among, place));
  return [...one.among, ...other.among].every((place) => has(one, place) === has(other, place));
}

/** The place itself where it is told apart, or the closest above it. */
function nearest(places: readonly string[], place: string): string {
  if (places.includes(place)) return place;
  const above = places.filter((one) => one.endsWith('*') && place.startsWith(one.slice(0, -1)));
  return above.reduce((a, b) => (b.length > a.length ? b : a), '');
}

function rulesOf(history: AccessHistory, { tenant, bucket: name }: Place): Rule[] {
  const rules: Rule[] = [];
  for (const [id, grant] of history.grants) {
    if (id.startsWith(`${tenant}/`)) rules.push(compileGrant(tenant, grant as Grant));
  }
  const text = history.bucket?.policy;
  if (text) rules.push(...parsePolicy(Buffer.from(text), { tenant, name }));
  return rules;
}

/** Other tenants that rules name, and of whose people not all is told. */
export function strangersIn(history: AccessHistory, place: Place): Set<string> {
  const named = rulesOf(history, place).flatMap(({ subjects }) => subjects.names);
  const tenants = named.flatMap((subject) => /^[a-z]+:([^/]+)/.exec(subject)?.[1] ?? []);
  return new Set(tenants.filter((one) => one !== place.tenant && !history.tenants.has(one)));
}

/** All that are known, and whom rules name of whom it is not told whether they are there. */
function askersOf({ principals, tenants }: AccessHistory, rules: readonly Rule[]): Asker[] {
  const askers: Asker[] = [];
  for (const { name, role, active, groups, tenant } of principals.values()) {
    if (!active) continue;
    const principal = principalOf(tenant, name, role as Role);
    askers.push({ who: principal.id, principal, subjects: subjectsOf(principal, groups) });
  }
  for (const subject of new Set(rules.flatMap(({ subjects }) => subjects.names))) {
    const [, kind, of = '', name = ''] = /^([a-z]+):([^/]+)(?:\/(.+))?$/.exec(subject) ?? [];
    if (kind === undefined || tenants.has(of) || principals.has(`${of}/${name}`)) continue;
    const isOne = kind === 'principal';
    const principal = principalOf(of, isOne ? name : someKey, 'member');
    const subjects = isOne ? subjectsOf(principal, []) : [subject, `tenant:${of}`, anyone];
    askers.push({ who: isOne ? principal.id : subject, principal, subjects });
  }
  askers.push({ who: anyone, principal: null, subjects: [anyone] });
  return askers;
}

function principalOf(tenant: string, name: string, role: Role): Principal {
  const kind = 'person';
  return { tenant, name, id: principalId(tenant, name), kind, role, membersCreateBuckets: false };
}

/** The place, and what rules, tokens and links name of it. */
function keysIn(history: AccessHistory, { key: base }: Place, rules: readonly Rule[]): string[] {
  const isFolder = base === '' || base.endsWith('/');
  const keys = new Set(isFolder ? [base + someKey] : [base, `${base}/${someKey}`]);
  const inside = isFolder ? base : `${base}/`;
  const add = (name: string, isWhole: boolean) => {
    if (!name.startsWith(inside) || name === inside || keys.size >= placesMax) return;
    keys.add(isWhole ? name : `${name}${name.endsWith('/') ? '' : '/'}${someKey}`);
  };
  for (const { resource } of rules) {
    if (resource.form === 'object') add(resource.prefix, true);
    else if (resource.form === 'below') add(resource.prefix, false);
  }
  for (const literal of policyKeys(history.bucket?.policy ?? null)) {
    const end = literal.search(/[*?$]/);
    if (end < 0) add(literal, true);
    else if (literal.startsWith(inside)) keys.add(literal.slice(0, end) + someKey);
  }
  for (const { key, kind } of history.delegations.values()) {
    if (kind === 'share') add(key, !key.endsWith('/'));
  }
  for (const key of history.bucket?.acls.keys() ?? []) add(key, true);
  if (keys.size >= placesMax) {
    history.notTold.add(`places beyond the first ${placesMax} that rules name in it`);
  }
  return [...keys];
}

function policyKeys(policy: string | null): string[] {
  return [...(policy ?? '').matchAll(/"arn:aws:s3::[^:/"]*:[^/"]+\/([^"]*)"/g)].map(
    ([, key = '']) => key,
  );
}

interface Question {
  asker: Asker;
  key: string;
  rules: readonly Rule[];
  atMs: number;
}

/** Each way in which who asks could read the key. */
function* waysOf(
  { bucket }: AccessHistory,
  { tenant, bucket: name }: Place,
  { asker: { who, principal, subjects }, key, rules, atMs }: Question,
): Generator<Omit<Access, 'places'>> {
  if (!bucket || (principal?.role === 'auditor' && principal.tenant === tenant)) return;
  const isShutOut = bucket.restrictsPublic && principal?.tenant !== tenant;
  const request: AccessRequest = {
    ...{ who: principal, subjects, action: 's3:GetObject', tenant, bucket: name },
    ...{ owner: bucket.owner, key, listPrefix: null, isShutOut, facts: factsAt(atMs) },
  };
  const applying = rules.filter((rule) => isAbout(rule, request));
  const denials = applying.filter(({ effect }) => effect === 'deny');
  if (denials.some(({ conditions }) => conditions.length === 0)) return;
  const unless = denials.map((rule) => `unless ${fullName(rule)} (${conditionsOf(rule)})`);
  const own = decideAccess(noRules, request);
  if (own.allowed) yield { who, by: own.by, through: '', conditions: unless };
  const isOpen = isPublic(rules.filter(({ source }) => source === 'policy'));
  for (const rule of applying) {
    if (rule.effect === 'deny') continue;
    if (isShutOut && (isForAnyone(rule) || (rule.source === 'policy' && isOpen))) continue;
    const through = subjects.find((one) => rule.subjects.names.includes(one)) ?? '';
    const conditions = rule.conditions.length > 0 ? [`if ${conditionsOf(rule)}`] : [];
    yield { who, by: fullName(rule), through, conditions: [...conditions, ...unless] };
  }
  const acl = bucket.acls.get(key);
  const takesLists = bucket.ownership !== null && bucket.ownership !== 'BucketOwnerEnforced';
  const asked = { id: principal?.id ?? null, ignoresPublic: bucket.ignoresPublicAcls };
  if (acl && takesLists && aclGives(acl, 'READ', asked)) {
    yield { who, by: 'acl', through: '', conditions: unless };
  }
}

/** But for its conditions. */
function isAbout(rule: Rule, request: AccessRequest): boolean {
  return verdictOf({ ...rule, conditions: [] }, request) === 'applies';
}

function conditionsOf({ conditions }: Rule): string {
  return conditions.map(({ name }) => name).join(' and ');
}

function factsAt(timeMs: number): RequestFacts {
  const none: ReadonlyMap<string, string> = new Map();
  return {
    ...{ timeMs, sourceAddress: '127.0.0.1', isSecure: true, headers: {}, query: [] },
    ...{ versionId: null, copySource: null, authentication: null },
    ...{ requestTags: none, objectTags: none },
  };
}

/** Is it valid then, and does it cover the key? */
function opens(one: ToldDelegation, place: Place, key: string, atMs: number): boolean {
  if (!(one.expiresMs > atMs)) return false;
  if (one.kind === 'share') {
    return one.key === '' || one.key === key || (one.key.endsWith('/') && key.startsWith(one.key));
  }
  if (one.scope === undefined) return true;
  const { tenant, bucket } = place;
  const names = [`${tenant}:${bucket}`, ...(one.tenant === tenant ? [bucket] : [])];
  try {
    const scope = parseScope(one.scope);
    return names.some((name) => covers(scope, 'read', name, key));
  } catch {
    return false;
  }
}

/** Could its principal read it: by its own name, or as everybody, or as one of its tenant? */
function isReader({ tenant, principal }: ToldDelegation, readers: ReadonlySet<string>): boolean {
  return [principalId(tenant, principal), `tenant:${tenant}`, anyone].some((one) =>
    readers.has(one),
  );
}
