// Whom a grant or a policy names that is nobody, and a grant's bucket that is not there: most
// likely a slip of the pen. Invariant: of another tenant's principals and buckets, and of whether
// there is such a tenant, nothing is said and nothing is looked up, but for operators, who see all
// tenants.
import type { Principal } from '../core/principal.ts';
import type { BucketCache } from '../state/bucket-cache.ts';
import type { Directory } from '../state/directory.ts';

type Known = Pick<Directory, 'readTenant' | 'readPrincipal' | 'readGroup'>;

/** So many of one document are looked at. */
const subjectsMax = 200;

/** `subjects`: `principal:cms/alice`, `group:cms/shifters`, `tenant:cms`, `anyone`. */
export async function warnOfNobody(
  directory: Known,
  who: Pick<Principal, 'tenant' | 'role'>,
  subjects: Iterable<string>,
): Promise<string[]> {
  const warnings: string[] = [];
  const unchecked: string[] = [];
  let looked = 0;
  for (const subject of new Set(subjects)) {
    const [, kind, tenant = '', name = ''] = subjectForm.exec(subject) ?? [];
    if (kind === undefined) continue;
    looked += 1;
    if (looked > subjectsMax) {
      warnings.push(`only the first ${subjectsMax} of those named were looked at`);
      break;
    }
    if (tenant !== who.tenant && who.role !== 'operator') unchecked.push(subject);
    else if (!(await isThere(directory, kind, tenant, name))) {
      warnings.push(`there is no ${kind} ${name === '' ? tenant : `${tenant}/${name}`}`);
    }
  }
  if (unchecked.length > 0) {
    const shown = unchecked.slice(0, shownMax).join(', ');
    const more = unchecked.length > shownMax ? ` and ${unchecked.length - shownMax} more` : '';
    const why = 'names of other tenants are theirs to know';
    warnings.push(`not checked whether there is ${shown}${more}: ${why}`);
  }
  return warnings;
}

/** Of a grant of `tenant`; null: it is about none. */
export async function warnOfNoBucket(
  buckets: Pick<BucketCache, 'find'>,
  who: Pick<Principal, 'tenant' | 'role'>,
  { tenant, bucket }: { tenant: string; bucket: string | undefined },
): Promise<string[]> {
  if (bucket === undefined) return [];
  if (tenant !== who.tenant && who.role !== 'operator') return [];
  if (await buckets.find(tenant, bucket)) return [];
  return [`there is no bucket ${tenant}/${bucket} yet: the grant counts once it is made`];
}

const subjectForm = /^(principal|group|tenant):([^/]+)(?:\/(.+))?$/;
const shownMax = 5;

async function isThere(
  directory: Known,
  kind: string,
  tenant: string,
  name: string,
): Promise<boolean> {
  if (kind === 'tenant') return (await directory.readTenant(tenant)) !== undefined;
  const read = kind === 'group' ? directory.readGroup : directory.readPrincipal;
  return (await read.call(directory, tenant, name)) !== undefined;
}
