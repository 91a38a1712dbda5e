// DeleteObjects: up to 1,000 keys, each decided, committed and recorded by itself, a hundred at a
// time: for rates, so many are a request, and the ledger has those of one principal at once and no
// more, so that nobody's write waits for thousands. What a rate would have wait for too long is
// refused key by key. Who may delete none of them is told nothing else, as of a bucket that is not
// there.
import type { WriteConditions } from '../../../catalog/conditions.ts';
import { monotonicMs } from '../../../core/clock.ts';
import { messageOf, Refusal } from '../../../core/errors.ts';
import { deleteBodyBytesMax, deleteKeysMax } from '../../../core/limits.ts';
import { Pace } from '../../../core/pace.ts';
import type { CommitResult } from '../../../ledger/commit.ts';
import { emptyReply, largeXmlReply, type Reply } from '../../http/reply.ts';
import { parseLargeXml, textOf, type XmlElements, type XmlNode } from '../../http/xml.ts';
import { deletionHeaders, idOf, isVersionId } from '../asked-version.ts';
import { receiveSmall } from '../body.ts';
import {
  admitDeletion,
  decideDeletion,
  parseTags,
  readModified,
  readSize,
} from '../conditional.ts';
import { demandDigest } from '../demanded-digest.ts';
import {
  bypassesGovernance,
  lockedMessage,
  lockRefusal,
  shownBypass,
} from '../objects/object-lock.ts';
import type { Operation } from '../operation.ts';
import { partsWaitMsMax } from '../rate-gate.ts';
import { checkKeyLength } from '../request.ts';
import type { RecordDetail } from '../request-record.ts';
import type { Asked, Reserved } from '../stages.ts';

export const deleteObjects: Operation<'bucket', List, Decided> = {
  name: 'DeleteObjects',
  action: 's3:DeleteObject',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: deleteBodyBytesMax,
  parse,
  admit,
  run,
};

/** What the body says. */
interface List {
  targets: Target[];
  quiet: boolean;
}

interface Target {
  key: string;
  versionId: string | undefined;
  /** As it was sent. */
  etag: string | undefined;
  conditions: WriteConditions;
}

/** An element of the answer. */
interface Told {
  element: 'Deleted' | 'Error';
  content: XmlElements;
}

interface Decided {
  /** The epoch of rights by which they were decided. */
  epoch: number;
  /** Why each is not deleted; null: it may be. */
  refusals: (Refusal | null)[];
}

/** Each is decided again by itself. */
const isOneOfMany = true;
const atOnceMax = 100;

/**
 * The keys are in the body, so it is read before anything is decided, alike for a bucket that is
 * not there. Only strangers without credentials are not asked for it.
 */
async function parse(asked: Asked<'bucket'>): Promise<List> {
  if (asked.who.isAnonymous) throw new Refusal('AccessDenied');
  demandDigest(asked);
  return parseTargets(await receiveSmall(asked));
}

async function admit(asked: Asked<'bucket'>, { targets }: List): Promise<Decided> {
  const { epoch } = asked;
  const refusals: (Refusal | null)[] = [];
  const pace = new Pace();
  for (const target of targets) {
    refusals.push(await decideOne(asked, target));
    await pace.rest();
  }
  if (refusals.every((one) => one?.code === 'AccessDenied')) throw new Refusal('AccessDenied');
  return { epoch, refusals };
}

async function run(
  context: Reserved<'bucket'>,
  { targets, quiet }: List,
  { epoch, refusals }: Decided,
): Promise<Reply> {
  const told: Told[] = [];
  const byMs = monotonicMs() + partsWaitMsMax;
  let slow: Refusal | null = null;
  for (let from = 0; from < targets.length; from += atOnceMax) {
    // The first came in as the request did.
    if (from > 0) slow ??= await takeTurn(context, byMs);
    const some = targets.slice(from, from + atOnceMax);
    const deleteSome = () =>
      Promise.all(
        some.map((target, i) => {
          const refused = refusals[from + i] ?? slow;
          return refused ? refuseOne(context, target, refused) : deleteOne(context, target, epoch);
        }),
      );
    told.push(...(await context.services.bulkTurns.take(context.requester, deleteSome)));
  }
  const shown = quiet ? told.filter(({ element }) => element === 'Error') : told;
  return largeXmlReply(
    'DeleteResult',
    shown.map(({ element, content }) => ({ [element]: content })),
  );
}

/** Null: the next ones may be deleted. Otherwise why they, and those behind them, are not. */
async function takeTurn(context: Reserved<'bucket'>, byMs: number): Promise<Refusal | null> {
  try {
    await context.countPart(byMs);
    return null;
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

async function decideOne(asked: Asked<'bucket'>, target: Target): Promise<Refusal | null> {
  const { key, conditions, versionId } = target;
  try {
    checkKeyLength(key);
    const one = { key, versionId, isOneOfMany } as const;
    await asked.authorizeKey(actionOn(target), { ...one, ifMatch: target.etag ?? null });
    if (versionId !== undefined && !isVersionId(versionId)) throw new Refusal('NoSuchVersion');
    await admitDeletion(asked, conditions, one);
    return null;
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

function actionOn({ versionId }: Target): 's3:DeleteObject' | 's3:DeleteObjectVersion' {
  return versionId === undefined ? 's3:DeleteObject' : 's3:DeleteObjectVersion';
}

/** What records say of one. What can be no key, or no version, may be of any length. */
function detailOf(target: Target, refused: Refusal | null): RecordDetail {
  const { key, versionId } = target;
  return {
    action: actionOn(target),
    key: refused?.code === 'KeyTooLongError' ? null : key,
    versionId: versionId !== undefined && isVersionId(versionId) ? versionId : null,
  };
}

async function refuseOne(
  context: Reserved<'bucket'>,
  target: Target,
  refused: Refusal,
): Promise<Told> {
  const { key, versionId } = target;
  const { status, code, message } = refused;
  const failed = await context.recordNow(status, code, detailOf(target, refused));
  if (failed !== null) throw new Refusal(failed);
  const content = { Key: key, VersionId: versionId, Code: code, Message: message };
  return { element: 'Error', content };
}

async function deleteOne(
  context: Reserved<'bucket'>,
  target: Target,
  epoch: number,
): Promise<Told> {
  const { key, versionId, conditions } = target;
  const one = { key, versionId, isOneOfMany } as const;
  const asked = { Key: key, VersionId: versionId };
  const detail = detailOf(target, null);
  const { id: bucketId } = context.bucket;
  const bypassGovernance = await bypassesGovernance(context, one);
  const again = async (): Promise<number> => {
    const now = await context.asked.decideAnew();
    const refused = await decideOne(context.asked, target);
    if (refused) throw refused;
    if (bypassGovernance && !(await bypassesGovernance(context, one))) {
      throw new Refusal('AccessDenied');
    }
    return now;
  };
  let result: CommitResult;
  try {
    result = await context.tryCommit(
      { kind: 'deleteObject', bucketId, key, versionId, conditions, bypassGovernance },
      { ...detail, ...shownBypass(bypassGovernance) },
      { epoch, again },
    );
  } catch (error) {
    if (error instanceof Refusal) return refuseOne(context, target, error);
    throw error;
  }
  if (!result.ok) {
    const { code } = result;
    const isLocks = code === 'AccessDenied' && context.bucket.objectLock !== null;
    const Message = isLocks ? lockedMessage : messageOf(code);
    return { element: 'Error', content: { ...asked, Code: code, Message } };
  }
  const { version } = result;
  if (!version?.isMarker) return { element: 'Deleted', content: asked };
  const marker = { DeleteMarker: true, DeleteMarkerVersionId: versionId ?? idOf(version) };
  return { element: 'Deleted', content: { ...asked, ...marker } };
}

async function parseTargets(body: Buffer): Promise<List> {
  if (body.length === 0) throw new Refusal('MissingRequestBodyError');
  const root = await parseLargeXml(body, 'Delete');
  const objects = root.children.filter((child) => child.name === 'Object');
  if (objects.length === 0 || objects.length > deleteKeysMax) throw new Refusal('MalformedXML');
  return { targets: objects.map(parseTarget), quiet: textOf(root, 'Quiet')?.trim() === 'true' };
}

function parseTarget(object: XmlNode): Target {
  const key = textOf(object, 'Key');
  if (key === undefined || key === '') throw new Refusal('MalformedXML');
  const etag = textOf(object, 'ETag');
  const conditions = {
    ifMatch: parseTags(etag),
    ifNoneMatch: null,
    ...readModified(textOf(object, 'LastModifiedTime'), 'LastModifiedTime'),
    ...readSize(textOf(object, 'Size'), 'Size'),
  };
  // Some clients send an empty one for none.
  const versionId = textOf(object, 'VersionId') || undefined;
  return { key, versionId, etag, conditions };
}

/**
 * Deleting what is not there succeeds. In a bucket with versioning it puts a delete marker; with a
 * `versionId` it deletes that version for good.
 */
export const deleteObject: Operation<'object'> = {
  name: 'DeleteObject',
  action: 's3:DeleteObject',
  versionAction: 's3:DeleteObjectVersion',
  resource: 'object',
  price: 'free',
  run: deleteNamed,
};

async function deleteNamed(context: Reserved<'object'>): Promise<Reply> {
  const { bucket, key, versionId } = context;
  const bypassGovernance = await bypassesGovernance(context, context);
  const deleted = await context.tryCommit(
    {
      kind: 'deleteObject',
      bucketId: bucket.id,
      key,
      versionId,
      conditions: await decideDeletion(context),
      bypassGovernance,
    },
    { status: 204, ...shownBypass(bypassGovernance) },
  );
  if (!deleted.ok) throw lockRefusal(context, deleted);
  return emptyReply(204, deletionHeaders(deleted, versionId));
}
