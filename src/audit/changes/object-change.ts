// What a record says of the objects in a bucket: the feed of changes is the audit log, read so. By
// the members of a record that every change of an object has, not by its action: whoever replays
// the changes of a bucket in their order has its objects, however they came and went. Pure.

/** How an object changed. */
export type ChangeKind =
  /** A version was made, and is the newest of its key. */
  | 'created'
  /** A version was ended for good: the newest of its key, or the one that `versionId` names. */
  | 'removed'
  /** A delete marker was put over the object. */
  | 'marked'
  /** What is there has other tags, or another access control list. */
  | 'tagged'
  | 'untagged'
  | 'acl'
  /** No store has its bytes any more, as its class allows. */
  | 'lost'
  /** A lifecycle rule, or how it is used, has moved it into another storage class. */
  | 'moved'
  /** It is asked for from an archive, can be read, or cannot any more. */
  | 'restoring'
  | 'restored'
  | 'restoreEnded';

/** Why or how a version was made or ended, where S3 has a name for that. */
export type ChangeCause = 'put' | 'copy' | 'multipart' | 'lifecycle' | 'use' | 'delete';

export interface ObjectChange {
  /** Index of its record. */
  index: number;
  /** RFC 3339. */
  time: string;
  kind: ChangeKind;
  cause: ChangeCause;
  /** The tenant of the bucket. */
  tenant: string;
  bucket: string;
  key: string;
  /** `null` of the null version; undefined: the bucket never kept versions. */
  versionId: string | undefined;
  /** Of what was made. */
  size: number | undefined;
  etag: string | undefined;
  class: string | undefined;
  sha256: string | undefined;
  /** The version by number, of what was made: the index; of what was ended or changed, its own. */
  version: number;
  requestId: string;
  /** `cms/alice`, and where the request came from. */
  by: string;
  source: string;
}

/** The members of a record that are read here. */
interface Recorded {
  index: number;
  time: string;
  action: string;
  error?: string;
  tenant: string;
  principal: string;
  bucketTenant?: string;
  bucket?: string;
  key?: string;
  versionId?: string;
  version?: number;
  marker?: boolean;
  supersedes?: number;
  amends?: { version: number };
  size?: number;
  etag?: string;
  class?: string;
  sha256?: string;
  target?: string;
  change?: ChangeDetail & Restoring;
  requestId: string;
  source: string;
}

interface ChangeDetail {
  source?: object;
  renamed?: object;
  rule?: string;
  /** The class whose tiers it was moved along. */
  tier?: string;
  lost?: Named;
}

interface Restoring {
  moved?: Named;
  restore?: Named;
  restored?: Named;
  restoreEnded?: Named;
}

interface Named {
  version: number;
}

/** What was changed, by a record's canonical text; undefined: no object was. */
export function changeOf(text: string): ObjectChange | undefined {
  // Reads are nearly all records of most logs, and are told apart without being parsed.
  if (!mayChange.test(text)) return undefined;
  const record = JSON.parse(text) as Recorded;
  const { bucket, key, error } = record;
  if (bucket === undefined || key === undefined || error !== undefined) return undefined;
  const what = kindOf(record);
  if (!what) return undefined;
  const { index, time, versionId, size, etag, sha256, requestId, source } = record;
  return {
    ...{ index, time, ...what, tenant: record.bucketTenant ?? record.tenant, bucket, key },
    ...{ versionId, size, etag, class: record.class, sha256, requestId },
    ...{ by: `${record.tenant}/${record.principal}`, source },
  };
}

/** Such a member stands in no text of a record, where quotes are escaped. */
const mayChange = /"(?:version|supersedes|amends)":/;

function kindOf(record: Recorded): Pick<ObjectChange, 'kind' | 'cause' | 'version'> | undefined {
  const { version, marker, supersedes, amends, action, change } = record;
  const cause = causeOf(record);
  if (version !== undefined) return { kind: marker ? 'marked' : 'created', cause, version };
  if (supersedes !== undefined) return { kind: 'removed', cause, version: supersedes };
  if (action === 'bursar:LoseObject' && change?.lost) {
    return { kind: 'lost', cause, version: change.lost.version };
  }
  if (action === 'bursar:MoveObject' && change?.moved) {
    const by = change.tier === undefined ? cause : 'use';
    return { kind: 'moved', cause: by, version: change.moved.version };
  }
  const restoring = change && restoringOf(action, change);
  if (restoring) return { ...restoring, cause };
  if (!amends) return undefined;
  const amended = { cause, version: amends.version };
  if (/^s3:Put.*Tagging$/.test(action)) return { kind: 'tagged', ...amended };
  if (/^s3:Delete.*Tagging$/.test(action)) return { kind: 'untagged', ...amended };
  return /^s3:Put.*Acl$/.test(action) ? { kind: 'acl', ...amended } : undefined;
}

function restoringOf(
  action: string,
  { restore, restored, restoreEnded }: Restoring,
): Pick<ObjectChange, 'kind' | 'version'> | undefined {
  if (action === 's3:RestoreObject' && restore) return { kind: 'restoring', ...versionIn(restore) };
  if (action === 'bursar:CompleteRestore' && restored) {
    return { kind: 'restored', ...versionIn(restored) };
  }
  if (action !== 'bursar:EndRestore' || !restoreEnded) return undefined;
  return { kind: 'restoreEnded', ...versionIn(restoreEnded) };
}

function versionIn({ version }: Named): Named {
  return { version };
}

function causeOf({ version, marker, target, change }: Recorded): ChangeCause {
  if (version === undefined || marker) return change?.rule === undefined ? 'delete' : 'lifecycle';
  if (change?.source || change?.renamed) return 'copy';
  return target?.startsWith('uploads/') ? 'multipart' : 'put';
}
