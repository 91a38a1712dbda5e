// What can be changed of a version that is there: its tags and its lock. Invariants: nothing else
// of it changes, and its MAC is made again only after it was found right; a lock becomes less only
// as object lock allows.
import { hash } from 'node:crypto';
import type { Tx } from '../core/database.ts';
import type { WriteConditions } from './conditions.ts';
import { mayAmend, type Retention } from './object-lock.ts';
import { noteChange } from './outbox.ts';
import { type Moment, noStorage, type Outcome, refused } from './outcome.ts';
import { lockMomentOf, namedIn, openKey } from './version-places.ts';
import { amendRow } from './version-rows.ts';
import type { Attributes, Tags } from './versions.ts';

export interface AmendVersion {
  kind: 'amendVersion';
  bucketId: number;
  key: string;
  /** `null` or an id; absent: the current one. */
  versionId?: string | undefined;
  amendment: Amendment;
  /** Asked for, and allowed. */
  bypassGovernance?: boolean | undefined;
}

/** Null: none from now on. */
export type Amendment =
  | { tags: Tags | null }
  | { retention: Retention | null }
  | { legalHold: boolean };

/** Changes what can change of a version; its MAC is made again. */
export async function amendVersion(
  tx: Tx,
  change: AmendVersion,
  moment: Moment,
): Promise<Outcome<null>> {
  const opening = await openKey(tx, { ...change, conditions: unconditional }, moment);
  if (!opening.ok) return opening;
  const { bucket, found } = opening.result;
  if (!found) return refused(change.versionId === undefined ? 'NoSuchKey' : 'NoSuchVersion');
  if (found.isDamaged) return refused('BursarIntegrityError');
  if (found.isMarker) return refused('MethodNotAllowed');
  const { amendment } = change;
  if (!('tags' in amendment) && bucket.objectLock === null) return refused('InvalidRequest');
  const attributes = JSON.parse(found.attributes) as Attributes;
  if ('retention' in amendment) {
    const lockMoment = lockMomentOf(change, moment);
    if (!mayAmend(attributes, amendment.retention, lockMoment)) return refused('AccessDenied');
  }
  const amended = { ...found, attributes: JSON.stringify(amend(attributes, amendment)) };
  await amendRow(tx, bucket, amended, moment.keyring);
  const { store, id: bucketId } = bucket;
  const { key, versionId } = found;
  await noteChange(tx, { store, bucketId, key, versionId }, moment);
  const named = namedIn(bucket, { versionId, isMarker: false });
  const attributesHash = hash('sha256', amended.attributes, 'hex');
  const told = { ...named, amended: { seq: found.seq, attributes: attributesHash } };
  return { ok: true, storage: { ...noStorage, ...told }, result: null };
}

const unconditional: WriteConditions = { ifMatch: null, ifNoneMatch: null };

function amend(attributes: Attributes, amendment: Amendment): Attributes {
  if ('legalHold' in amendment) return { ...attributes, legalHold: amendment.legalHold };
  if ('retention' in amendment) {
    const { retention: _, ...others } = attributes;
    return amendment.retention ? { ...others, retention: amendment.retention } : others;
  }
  const { tags: _, ...others } = attributes;
  return amendment.tags?.length ? { ...others, tags: amendment.tags } : others;
}
