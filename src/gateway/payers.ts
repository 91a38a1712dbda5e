// Who pays for requests. Most requests are some principal's in some bucket, so one object says it
// for all of them: it crosses threads once for those that cross together, and nobody makes it anew.
import type { Identity } from '../authz/identity.ts';
import type { Bucket } from '../catalog/buckets.ts';
import type { Charged } from '../quota/charge.ts';

/** Of one bucket; beyond it all are made anew. */
const keptMax = 1000;

const kept = new WeakMap<Bucket, Map<string, Charged>>();

/** `tenant`: of who asks; without credentials the bucket's. */
export function payersOf(who: Identity, tenant: string, bucket: Bucket | null): Charged {
  const principal = who.principal.name;
  if (!bucket || who.delegation) return chargedFor(who, tenant, bucket);
  const known = kept.get(bucket) ?? new Map<string, Charged>();
  // Neither may contain a slash.
  const name = `${tenant}/${principal}`;
  let charged = known.get(name);
  if (!charged) {
    charged = chargedFor(who, tenant, bucket);
    if (known.size >= keptMax) known.clear();
    kept.set(bucket, known.set(name, charged));
  }
  return charged;
}

function chargedFor({ principal, delegation }: Identity, tenant: string, about: Bucket | null) {
  // A bucket may have a long policy, which nobody needs to know to charge.
  const bucket = about && { tenant: about.tenant, name: about.name, owner: about.owner };
  return { tenant, principal: principal.name, tokens: delegation?.accounts ?? [], bucket };
}
