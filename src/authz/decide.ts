// May this principal do this? Pure. Until finer grants exist: a principal owns its buckets, admins
// and operators hold all rights in their tenant, auditors have no data. What is not allowed is
// denied.
import type { Principal } from '../core/principal.ts';

export type S3Action =
  | 's3:ListAllMyBuckets'
  | 's3:CreateBucket'
  | 's3:DeleteBucket'
  | 's3:ListBucket'
  | 's3:GetBucketLocation'
  | 's3:ListBucketMultipartUploads'
  | 's3:GetObject'
  | 's3:PutObject'
  | 's3:DeleteObject'
  | 's3:AbortMultipartUpload'
  | 's3:ListMultipartUploadParts';

export interface Resource {
  tenant: string;
  /** The bucket's owner in its tenant; null: no bucket, or none of this name. */
  owner: string | null;
}

export type Decision = { allowed: true } | { allowed: false; reason: string };

const allowed: Decision = { allowed: true };

/**
 * Allows or denies `action` on `resource`. Never reveals whether a resource of another tenant is.
 */
export function decide(who: Principal, action: S3Action, resource: Resource): Decision {
  if (resource.tenant !== who.tenant) return denied('another tenant');
  switch (who.role) {
    case 'operator':
    case 'admin':
      return allowed;
    case 'auditor':
      return denied('auditors have no data');
    case 'member':
      return decideMember(who, action, resource);
  }
}

function decideMember(who: Principal, action: S3Action, resource: Resource): Decision {
  switch (action) {
    case 's3:ListAllMyBuckets':
      return allowed;
    case 's3:CreateBucket':
      return who.membersCreateBuckets ? allowed : denied('members may not create buckets');
    default:
      // Where there is no bucket there is nothing to protect: the answer is NoSuchBucket.
      return resource.owner === null || resource.owner === who.name
        ? allowed
        : denied('another principal owns the bucket');
  }
}

function denied(reason: string): Decision {
  return { allowed: false, reason };
}
