// Which changes may be told to whom: of keys that they may list and read, by what is true when they
// are told. One place for those who ask (native/change-routes.ts) and for targets that are told
// (notifications/).
import type { ObjectChange } from '../../audit/changes/object-change.ts';
import { findNamedEvenly } from '../../catalog/versions.ts';
import type { Reader } from '../../core/database.ts';
import { Refusal } from '../../core/errors.ts';
import type { Keyring } from '../../core/keyring.ts';
import type { Principal } from '../../core/principal.ts';
import { administers } from '../native/rights.ts';
import type { Target } from '../s3/access.ts';
import type { NamedBucket } from '../s3/bucket-lookup.ts';
import { aclOf } from '../s3/objects/object-attributes.ts';

export function listingOf(found: NamedBucket, askedName: string, listPrefix: string): Target {
  return { action: 's3:ListBucket', askedName, found, key: null, listPrefix };
}

/** `versionId`: of a version; absent: of the newest one, whichever that is. */
export function readingOf(
  deps: { read: Reader; keyring: Keyring },
  found: NamedBucket,
  { askedName, key, versionId }: { askedName: string; key: string; versionId?: string | undefined },
): Target {
  const action = versionId === undefined ? 's3:GetObject' : 's3:GetObjectVersion';
  const load = async () => {
    const { bucket } = found;
    const named = bucket && (await findNamedEvenly(deps, bucket, { key, versionId }));
    // Nobody knows whether what was there could be read, where that depends on what it was.
    if (!named?.version || named.version.isMarker) throw new Refusal('AccessDenied');
    return named;
  };
  return {
    ...{ action, askedName, found, key, versionId, listPrefix: null },
    loadTags: async () => (await load()).tags,
    loadAcl: async () => aclOf((await load()).version),
  };
}

/** May they know who made a change, and from where? */
export function mayKnowWho(who: Principal, { tenant, by }: ObjectChange): boolean {
  const isAuditor = who.role === 'auditor' && who.tenant === tenant;
  return administers(who, tenant) || isAuditor || by === `${who.tenant}/${who.name}`;
}
