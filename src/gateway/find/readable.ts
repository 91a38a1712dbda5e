// Which of the objects that fit a query who asks may know of. Invariant: an object is found, and
// counted, only if who asks may read it, and its tags where the query asks for tags; else whoever
// may list could learn by queries what objects say.
import { randomBytes } from 'node:crypto';
import type { S3Action } from '../../authz/grants/actions.ts';
import type { ListedObject } from '../../catalog/listing.ts';
import { asksForTags } from '../../search/facts.ts';
import type { Query } from '../../search/query.ts';
import type { AskedRequest } from '../s3/asked.ts';
import { aclOf, tagsOf } from '../s3/objects/object-attributes.ts';

/** Whether who asks may know what this object says. */
type MayRead = (row: Pick<ListedObject, 'key' | 'attributes'>) => boolean | Promise<boolean>;

type Place = Pick<AskedRequest, 'askedName' | 'found'>;

/**
 * Whether who asks may read all of the bucket by rules that look at no key and no tag, and none
 * might deny a part of it: who may not is not to learn, by how a query is answered, how many
 * objects say something.
 */
export async function readsAll(
  asked: Pick<AskedRequest, 'mayReach' | 'mayReachEveryKey'>,
  { askedName, found }: Place,
  ...queries: (Query | null)[]
): Promise<boolean> {
  const list = { action: 's3:ListBucket', askedName, found, key: null, listPrefix: '' } as const;
  if (!(await asked.mayReach(list))) return false;
  // No grant on a prefix, however short, covers a name of characters that nobody uses.
  const key = String.fromCodePoint(...Array.from(randomBytes(16), (byte) => 0x10_0000 + byte));
  const about = { askedName, found, key, listPrefix: null };
  if (!actionsOf(found, queries).every((action) => asked.mayReachEveryKey({ action, ...about }))) {
    return false;
  }
  // What is left of that by the scope of a token, too.
  const mayRead = readableBy(asked, { askedName, found }, ...queries);
  return mayRead({ key, attributes: '{"headers":{},"metadata":{}}' });
}

function actionsOf(found: Place['found'], queries: readonly (Query | null)[]): S3Action[] {
  const at = found?.at;
  const actions: S3Action[] = [at ? 's3:GetObjectVersion' : 's3:GetObject'];
  if (queries.some((query) => query && asksForTags(query)))
    actions.push(at ? 's3:GetObjectVersionTagging' : 's3:GetObjectTagging');
  return actions;
}

/** Of the request's own bucket, or of another that it names. */
export function readableBy(
  asked: Pick<AskedRequest, 'mayReach'>,
  { askedName, found }: Place,
  ...queries: (Query | null)[]
): MayRead {
  const actions = actionsOf(found, queries);
  return (row) => {
    const { key } = row;
    const loadTags = async () => tagsOf(row);
    const loadAcl = async () => aclOf(row);
    const ask = (action: S3Action) =>
      asked.mayReach({ action, askedName, found, key, listPrefix: null, loadTags, loadAcl });
    let isAllowed: boolean | Promise<boolean> = true;
    for (const action of actions) {
      // Most decisions are no promises, and take less than one.
      if (isAllowed === true) isAllowed = ask(action);
      else if (isAllowed !== false) isAllowed = isAllowed.then((is) => is && ask(action));
    }
    return isAllowed;
  };
}
