// DeleteObjects: up to 1,000 keys, each decided, committed and recorded by itself, all in one
// batch. Who may delete none of them is told nothing else, as of a bucket that is not there.
import type { WriteConditions } from '../../catalog/conditions.ts';
import { type ErrorCode, messageOf, Refusal } from '../../core/errors.ts';
import { deleteBodyBytesMax, deleteKeysMax } from '../../core/limits.ts';
import { Pace } from '../../core/pace.ts';
import { receiveSmall } from '../body.ts';
import { parseTags } from '../conditional.ts';
import type { Context, Reply } from '../context.ts';
import { demandDigest } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import { xmlReply } from '../replies.ts';
import { checkKeyLength } from '../request.ts';
import { parseXml, textOf, type XmlNode } from '../xml.ts';

export const deleteObjects: Operation = {
  name: 'DeleteObjects',
  action: 's3:DeleteObject',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: deleteBodyBytesMax,
  admit,
  run,
};

interface Target {
  key: string;
  versionId: string | undefined;
  conditions: WriteConditions;
}

type Deletion = { key: string; refused: { code: ErrorCode; message: string } | null };

interface Decided {
  targets: Target[];
  /** Why each is not deleted; null: it may be. */
  refusals: (Refusal | null)[];
  quiet: boolean;
}

/** From the admission of a request to its run. */
const admitted = new WeakMap<Context, Decided>();

/**
 * The keys are in the body, so it is read before anything is decided, alike for a bucket that is
 * not there. Only strangers without credentials are not asked for it.
 */
async function admit(context: Context): Promise<void> {
  if (context.who.isAnonymous) throw new Refusal('AccessDenied');
  demandDigest(context);
  const { targets, quiet } = parseTargets(await receiveSmall(context, deleteBodyBytesMax));
  const refusals: (Refusal | null)[] = [];
  const pace = new Pace();
  for (const target of targets) {
    refusals.push(await decideOne(context, target));
    await pace.rest();
  }
  if (refusals.every((one) => one?.code === 'AccessDenied')) throw new Refusal('AccessDenied');
  admitted.set(context, { targets, refusals, quiet });
}

async function run(context: Context): Promise<Reply> {
  const { targets, refusals, quiet } = admitted.get(context) as Decided;
  const deletions = await Promise.all(
    targets.map((target, i) => deleteOne(context, target, refusals[i] ?? null)),
  );
  return xmlReply('DeleteResult', {
    Deleted: quiet ? [] : deletions.filter((one) => !one.refused).map(({ key }) => ({ Key: key })),
    Error: deletions.flatMap(({ key, refused }) =>
      refused ? [{ Key: key, Code: refused.code, Message: refused.message }] : [],
    ),
  });
}

async function decideOne(context: Context, target: Target): Promise<Refusal | null> {
  const { key, conditions, versionId } = target;
  try {
    checkKeyLength(key);
    if (versionId !== undefined && versionId !== 'null') throw new Refusal('NotImplemented');
    await context.authorizeKey('s3:DeleteObject', { key });
    // As for one object: the answer tells of its content.
    if (conditions.ifMatch) await context.authorizeKey('s3:GetObject', { key, wanted: 'stat' });
    return null;
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

async function deleteOne(
  context: Context,
  { key, conditions }: Target,
  refused: Refusal | null,
): Promise<Deletion> {
  if (refused) {
    const failed = await context.recordNow(refused.status, refused.code, { key });
    if (failed !== null) throw new Refusal(failed);
    return { key, refused };
  }
  const change = { kind: 'deleteObject', bucketId: context.bucket.id, key, conditions } as const;
  const result = await context.tryCommit(change, { key });
  if (result.ok) return { key, refused: null };
  return { key, refused: { code: result.code, message: messageOf(result.code) } };
}

function parseTargets(body: Buffer): { targets: Target[]; quiet: boolean } {
  if (body.length === 0) throw new Refusal('MissingRequestBodyError');
  const root = parseXml(body, 'Delete');
  const objects = root.children.filter((child) => child.name === 'Object');
  if (objects.length === 0 || objects.length > deleteKeysMax) throw new Refusal('MalformedXML');
  return { targets: objects.map(parseTarget), quiet: textOf(root, 'Quiet')?.trim() === 'true' };
}

function parseTarget(object: XmlNode): Target {
  const key = textOf(object, 'Key');
  if (key === undefined || key === '') throw new Refusal('MalformedXML');
  for (const name of ['LastModifiedTime', 'Size']) {
    if (textOf(object, name) !== undefined) {
      throw new Refusal('NotImplemented', { fields: { Element: name } });
    }
  }
  const conditions = { ifMatch: parseTags(textOf(object, 'ETag')), ifNoneMatch: null };
  return { key, versionId: textOf(object, 'VersionId'), conditions };
}
