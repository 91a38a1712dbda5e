// What stands in the way of a change, in words, where the code of its refusal alone would leave its
// caller to guess. Nothing is told here that the code does not tell them anyway.
import { type ErrorCode, Refusal } from '../../core/errors.ts';
import { defaultTenant } from '../../core/principal.ts';
import type { NativeChange } from './deps.ts';

/** The message of a refusal; undefined: what its code says for all. */
export function conflictWords(code: ErrorCode, change: NativeChange | null): string | undefined {
  if (change === null) return undefined;
  switch (code) {
    case 'AlreadyExists':
      return takenWords(change);
    case 'InUse':
      return inUseWords(change);
    case 'NoSuchPrincipal':
      return change.kind === 'putGrant' ? missingOf(change, 'principal', subjectsOf) : undefined;
    case 'NoSuchGroup':
      if (change.kind === 'putGrant') return missingOf(change, 'group', subjectsOf);
      if (change.kind !== 'createPrincipal' && change.kind !== 'updatePrincipal') return undefined;
      return missingOf(change, 'group', () => change.groups ?? []);
    default:
      return undefined;
  }
}

type PutGrant = Extract<NativeChange, { kind: 'putGrant' }>;

/** Who of the tenant itself is named, of a kind: the others are not looked up. */
function subjectsOf({ tenant, grant }: PutGrant, kind: 'principal' | 'group'): string[] {
  const own = `${kind}:${tenant}/`;
  const subjects = grant.subjects.filter((subject) => subject.startsWith(own));
  return subjects.map((subject) => subject.slice(own.length));
}

const notAgain = 'Names are not given again, also when what had them was deleted.';

/** One of those that were named is not there. */
function missingOf<C extends NativeChange & { tenant: string }>(
  change: C,
  kind: 'principal' | 'group',
  namedIn: (change: C, kind: 'principal' | 'group') => readonly string[],
): string | undefined {
  const ids = namedIn(change, kind).map((name) => `${change.tenant}/${name}`);
  if (ids.length === 0) return undefined;
  if (ids.length === 1) return `There is no ${kind} ${ids[0]}.`;
  const more = ids.length > namesMax ? ' and others' : '';
  return `One of the ${kind}s ${ids.slice(0, namesMax).join(', ')}${more} is not there.`;
}

const namesMax = 10;

function takenWords(change: NativeChange): string | undefined {
  switch (change.kind) {
    case 'createTenant':
      return `There is a tenant ${change.name}, or was one. ${notAgain}`;
    case 'createPrincipal':
      return `There is a principal ${change.tenant}/${change.name}, or was one. ${notAgain}`;
    case 'createGroup':
      return `There is a group ${change.name} of ${change.tenant}, or was one. ${notAgain}`;
    case 'putMount':
      return `${change.tenant} has a bucket ${change.name}; a mount cannot have its name.`;
    case 'putOwnMount':
      return `${change.tenant} has a bucket or a mount ${change.name}: choose another name.`;
    case 'putIssuer':
      return 'The tokens of this issuer for this audience are those of another entry already.';
    case 'createClass':
      return (
        `A class of ${change.tenant} has the name ${change.name} or one of these aliases, or the ` +
        `name is one of everybody's or, for a class of everybody's, of some tenant's.`
      );
    case 'createSnapshot':
      return `The bucket has a snapshot ${change.name} already.`;
    case 'createPublicKey':
      return 'The key was enrolled before. A key is of one principal, and is not enrolled again.';
    default:
      return undefined;
  }
}

function inUseWords(change: NativeChange): string | undefined {
  switch (change.kind) {
    case 'deleteTenant':
      if (change.name === defaultTenant) return `The tenant ${defaultTenant} stays.`;
      return lastKey;
    case 'deleteClass':
      return 'A bucket has, or had, objects or uploads of this class.';
    case 'updatePrincipal':
    case 'deletePrincipal':
    case 'updateAccessKey':
    case 'deleteAccessKey':
    case 'updatePublicKey':
    case 'deletePublicKey':
      return lastKey;
    default:
      return undefined;
  }
}

const lastKey =
  'It is, or has, the last active access key of an operator. Give an operator another first: ' +
  `bursar principal create ${defaultTenant}/NAME --role operator; ` +
  `bursar key create ${defaultTenant}/NAME`;

const namedMax = 3;

/** So many names are enough to say which buckets are in the way. */
export const ownedMax = namedMax + 1;

/** Throws `Refusal` InUse where there are buckets, and says which. */
export function refuseOwned(owner: string, buckets: readonly string[]): void {
  if (buckets.length === 0) return;
  const names = buckets.slice(0, namedMax).join(', ');
  const message =
    `${owner} owns ${buckets.length > 1 ? 'buckets' : 'a bucket'}: ` +
    `${names}${buckets.length > namedMax ? ' and more' : ''}.`;
  throw new Refusal('InUse', { message });
}
