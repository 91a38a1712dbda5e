// What a token's scope must cover for an action: the storage rights of WLCG scopes against S3's
// actions; and what its conditions leave of writes. Invariant: an action that is not named here
// cannot be delegated by a storage scope.
// Specification: WLCG Common JWT Profile 1.x; docs/formats/token.md.
import type { S3Action } from '../../authz/grants/actions.ts';
import type { Delegation } from '../../authz/identity.ts';
import { covers, type Scope, type Wanted } from '../../authz/tokens/scope.ts';
import { Refusal } from '../../core/errors.ts';

/**
 * `touch`: any right in the bucket will do. `whole`: the right to modify all of the bucket.
 * Null: needs no right, because its answer shows only what the scope touches.
 */
const wantedFor: Partial<Record<S3Action, Wanted | 'touch' | 'whole' | null>> = {
  's3:ListAllMyBuckets': null,
  's3:CreateBucket': 'whole',
  's3:DeleteBucket': 'whole',
  's3:GetBucketAcl': 'touch',
  's3:GetBucketLocation': 'touch',
  's3:ListBucket': 'list',
  's3:ListBucketMultipartUploads': 'list',
  's3:ListBucketVersions': 'list',
  's3:GetObject': 'read',
  's3:GetObjectAttributes': 'stat',
  's3:GetObjectAcl': 'stat',
  's3:GetObjectLegalHold': 'stat',
  's3:GetObjectRetention': 'stat',
  's3:GetObjectVersionAcl': 'stat',
  's3:GetObjectTagging': 'read',
  's3:GetObjectVersion': 'read',
  's3:GetObjectVersionAttributes': 'stat',
  's3:GetObjectVersionTagging': 'read',
  's3:PutObject': 'create',
  's3:PutObjectTagging': 'modify',
  's3:PutObjectVersionTagging': 'modify',
  's3:RestoreObject': 'stage',
  's3:AbortMultipartUpload': 'create',
  's3:ListMultipartUploadParts': 'create',
  // Not DeleteObjectVersion: what a scope lets be done in a bucket with versioning can be undone.
  's3:DeleteObject': 'modify',
  's3:DeleteObjectTagging': 'modify',
  's3:DeleteObjectVersionTagging': 'modify',
};

export interface DelegatedTarget {
  action: S3Action;
  /** The bucket by the names that its requester can give it, none where it is about none. */
  bucketNames: readonly string[];
  key: string | null;
  listPrefix: string | null;
  /** What is really done, where that is less than what the action's name stands for. */
  wanted?: Wanted;
}

/** Does the scope let its bearer do this? */
export function isDelegated(scope: Scope, target: DelegatedTarget): boolean {
  const wanted = target.wanted ?? wantedFor[target.action];
  if (wanted === undefined) return false;
  if (wanted === null) return true;
  return target.bucketNames.some((name) => covered(scope, wanted, name, target));
}

function covered(
  scope: Scope,
  wanted: Wanted | 'touch' | 'whole',
  bucket: string,
  { key, listPrefix }: DelegatedTarget,
): boolean {
  if (wanted === 'whole') return covers(scope, 'modify', bucket, '');
  // HeadBucket asks for no prefix; it tells only that the bucket is there.
  if (wanted === 'touch' || (wanted === 'list' && listPrefix === null)) {
    return touches(scope, bucket);
  }
  return covers(scope, wanted, bucket, listPrefix ?? key ?? '');
}

/** Is anything of the bucket in the scope? */
export function touches(scope: Scope, bucket: string): boolean {
  return scope.some(
    ({ right, bucket: own }) => right !== 'admin' && (own === null || own === bucket),
  );
}

/** Throws `Refusal` AccessDenied unless the credential lets an object of this class and size be. */
export function checkWritten(
  { conditions }: Delegation,
  written: { storageClass: string; sizeBytes: number },
): void {
  if (!conditions.allowClass(written.storageClass)) {
    throw new Refusal('AccessDenied', {
      message: `The token may not write into the class ${written.storageClass}.`,
    });
  }
  if (!conditions.allowSize(written.sizeBytes)) {
    throw new Refusal('AccessDenied', {
      message: `The token may write objects of at most ${conditions.objectBytesMax} bytes.`,
    });
  }
}
