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
}

/** Whether one of the tags of a header names `etag`. */
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
