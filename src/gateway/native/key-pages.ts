// Pages of the keys of a bucket that begin with a prefix, for routes that look at each of them.
// Invariant: no page leaves the prefix, on which the caller's right was decided.
import { listKeysEver } from '../../catalog/snapshot-reads.ts';
import type { Reader } from '../../core/database.ts';
import { Refusal } from '../../core/errors.ts';
import { keyBytesMax } from '../../core/limits.ts';
import { textSuccessor } from '../../core/text-order.ts';
import { checkKeyLength } from '../s3/request.ts';
import { pageQuery, text } from './schemas.ts';

/** One page looks at so many keys, whether there is something to say of them or not. */
const keysPerPage = 1000;

export const keyPageQuery = {
  ...pageQuery,
  after: text('The `next` of the page before.', { maxLength: keyBytesMax }),
} as const;

export interface KeyPage {
  keys: string[];
  /** Behind which the next page begins; null: this is the last. */
  next: string | null;
}

/** Of the keys that have or had versions. Throws `Refusal`, of an `after` without the prefix. */
export async function readKeyPage(
  read: Reader,
  { bucketId, prefix }: { bucketId: number; prefix: string },
  { after, limit }: { after?: string; limit?: string },
): Promise<KeyPage> {
  if (after !== undefined) {
    checkKeyLength(after);
    if (!after.startsWith(prefix)) {
      const message = 'Pages begin behind a key that begins with the prefix.';
      throw new Refusal('InvalidInput', { message, fields: { field: 'query.after' } });
    }
  }
  const max = limit === undefined ? keysPerPage : Number(limit);
  const keys = await listKeysEver(read, {
    ...{ bucketId, below: prefix === '' ? null : textSuccessor(prefix) },
    ...{ from: after ?? prefix, exclusive: after !== undefined, max },
  });
  return { keys, next: keys.length === max ? (keys.at(-1) ?? null) : null };
}
