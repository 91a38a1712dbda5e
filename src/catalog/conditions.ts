// Preconditions on writes (RFC 9110 section 13.1, as S3 restricts it): the entity tag that must, or
// must not, be current. Decided inside the ledger's transaction, the one place where order is
// known.
import { type Outcome, refused } from './outcome.ts';

export interface WriteConditions {
  /** Entity tags without quotes, or `*`; null: no such header. */
  ifMatch: readonly string[] | null;
  ifNoneMatch: readonly string[] | null;
  /** Set where it is the credential that demands `If-None-Match: *`. */
  mustCreate?: true;
  /**
   * Set where a lost version is made again of other bytes: the version that must be current, which
   * the write makes noncurrent. It ends none.
   */
  supersedesSeq?: number;
  /**
   * Of deletions: when what is deleted was made, in seconds since 1970; undefined: no such header.
   */
  modifiedSeconds?: number | undefined;
  /** And its size. */
  sizeBytes?: number | undefined;
}

/**
 * Null when a deletion may go on, as far as time and size go: they are of the version that is
 * there, a delete marker too, and demand nothing where there is none.
 */
export function checkDeletion(
  { modifiedSeconds, sizeBytes }: WriteConditions,
  found: { createdMs: number; sizeBytes: number } | null,
): Outcome<never> | null {
  if (!found) return null;
  if (modifiedSeconds !== undefined && Math.floor(found.createdMs / 1000) !== modifiedSeconds) {
    return refused('PreconditionFailed', { Condition: 'x-amz-if-match-last-modified-time' });
  }
  if (sizeBytes !== undefined && found.sizeBytes !== sizeBytes) {
    return refused('PreconditionFailed', { Condition: 'x-amz-if-match-size' });
  }
  return null;
}

/** Returns whether the conditions ask for anything. */
export function isConditional(conditions: WriteConditions): boolean {
  const { ifMatch, ifNoneMatch, supersedesSeq, modifiedSeconds, sizeBytes } = conditions;
  const others = supersedesSeq ?? modifiedSeconds ?? sizeBytes;
  return Boolean(ifMatch || ifNoneMatch) || others !== undefined;
}

/** Returns whether one of the tags of a header names `etag`. */
export function matchesTag(tags: readonly string[], etag: string): boolean {
  return tags.includes('*') || tags.includes(etag);
}

/** Null when the write may go on; `currentEtag` is null when there is no current object. */
export function checkWriteConditions(
  conditions: WriteConditions,
  currentEtag: string | null,
): Outcome<never> | null {
  const { ifMatch, ifNoneMatch } = conditions;
  if (ifMatch) {
    if (currentEtag === null) return refused('NoSuchKey');
    if (!matchesTag(ifMatch, currentEtag))
      return refused('PreconditionFailed', { Condition: 'If-Match' });
  }
  if (ifNoneMatch && currentEtag !== null && matchesTag(ifNoneMatch, currentEtag)) {
    if (conditions.mustCreate) return refused('AccessDenied');
    return refused('PreconditionFailed', { Condition: 'If-None-Match' });
  }
  return null;
}
