// What has to be done so that a gateway has what a file describes. Invariants: what the file does
// not say stays as it is, and nothing is removed unless that was asked for; a plan for what a dump
// describes is empty.
import type { ApiRequest } from '../api-client.ts';
import {
  type Description,
  type Entry,
  isSame,
  type Kind,
  keyOf,
  kinds,
  type Members,
  normal,
  ownNameOf,
  tenantOf,
} from './entries.ts';

export interface Step {
  readonly action: 'create' | 'set' | 'delete';
  readonly kind: Kind;
  readonly name: string;
  readonly at: string;
  /** What is said; of a deletion, what there is. */
  readonly value: Members;
  /** What is different, by its name. */
  readonly changes: readonly string[];
}

/** Kinds of which every entry is described whole; of the others, by what is said. */
const whole: ReadonlySet<Kind> = new Set(['mount', 'issuer', 'grant', 'limit']);

/** These are not removed: what is in them would go, too. */
const kept: ReadonlySet<Kind> = new Set(['tenant', 'bucket']);

/** Steps in the order in which they can be done. `spared`: who asks is not deleted. */
export function makePlan(
  wanted: Description,
  present: Description,
  { prune, spared }: { prune: boolean; spared: string },
): Step[] {
  const steps: Step[] = [];
  for (const entry of wanted.entries.values()) {
    const before = present.entries.get(keyOf(entry));
    if (!before) steps.push({ ...entry, action: 'create', changes: Object.keys(entry.value) });
    else {
      const changes = differences(entry, before);
      if (changes.length > 0) steps.push({ ...entry, action: 'set', changes });
    }
  }
  steps.sort((one, other) => kinds.indexOf(one.kind) - kinds.indexOf(other.kind));
  if (!prune) return steps;
  const removed = [...present.entries.values()].filter(
    (entry) =>
      !wanted.entries.has(keyOf(entry)) &&
      !kept.has(entry.kind) &&
      wanted.said.has(`${tenantOf(entry)} ${entry.kind}`) &&
      !(entry.kind === 'principal' && entry.name === spared),
  );
  removed.sort((one, other) => kinds.indexOf(other.kind) - kinds.indexOf(one.kind));
  return [...steps, ...removed.map(deletion)];
}

function deletion(entry: Entry): Step {
  return { ...entry, action: 'delete', changes: [] };
}

function differences({ kind, value }: Entry, before: Entry): string[] {
  const names = new Set([
    ...Object.keys(value),
    ...(whole.has(kind) ? Object.keys(before.value) : []),
  ]);
  return [...names].filter((name) => {
    // What a grant does is to allow, unless it is said.
    const fallback = kind === 'grant' && name === 'effect' ? 'allow' : undefined;
    return !isSame(value[name] ?? fallback, before.value[name] ?? fallback);
  });
}

/** The calls that a step takes, one after the other. Those for buckets: `buckets.ts`. */
export function requestsOf({ action, kind, name, value, changes }: Step): ApiRequest[] {
  const tenant = tenantOf({ kind, name });
  const own = ownNameOf({ name });
  const path = pathOf(kind, tenant, own, name);
  if (action === 'delete') return [{ method: 'DELETE', path }];
  if (whole.has(kind)) return [{ method: 'PUT', path, body: bodyOf(kind, value) }];
  if (action === 'set') {
    const changed = changes.map((member) => [member, value[member] ?? null] as const);
    return [{ method: 'PATCH', path, body: Object.fromEntries(changed) }];
  }
  const { active, ...made } = value;
  const body = { ...stripped(made), name: own };
  const create: ApiRequest = { method: 'POST', path: path.slice(0, -1), body };
  return active === false ? [create, { method: 'PATCH', path, body: { active } }] : [create];
}

function pathOf(kind: Kind, tenant: string, own: string, name: string): string[] {
  if (kind === 'tenant') return ['tenants', tenant];
  if (kind === 'limit') return ['limits', name];
  return ['tenants', tenant, `${kind}s`, own];
}

function bodyOf(kind: Kind, value: Members): object {
  if (kind === 'mount') {
    const { bucket, ...others } = stripped(value);
    const [bucketTenant, name] = String(bucket).split(':');
    return { ...others, bucketTenant, bucket: name };
  }
  return kind === 'grant' ? { effect: 'allow', ...stripped(value) } : stripped(value);
}

function stripped(value: Members): Members {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => normal(one) !== null));
}
