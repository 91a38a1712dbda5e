// RestoreObject: asks for a version of a class that is read after a restore, for some days.
// Specification: RestoreObject of the Amazon S3 API reference.
import { recordedChange } from '../../../audit/recorded-change.ts';
import { calendarDayMs, endOfDay } from '../../../catalog/lifecycle.ts';
import { findRestore, isReadable } from '../../../catalog/restore-rows.ts';
import type { Version } from '../../../catalog/versions.ts';
import { isArchiveClass } from '../../../core/aws-classes.ts';
import { dateMsMax } from '../../../core/clock.ts';
import { IntegrityError, Refusal } from '../../../core/errors.ts';
import { decodeManifest, type ExtentRun } from '../../../core/manifest.ts';
import { steadyClock } from '../../../core/steady-clock.ts';
import { type RestoreTier, restoreTiers, usualClass } from '../../../quota/prices/price-book.ts';
import { mayHaveCopies } from '../../../tiering/extent-copies.ts';
import { AttemptFailure } from '../../../tiering/stores/attempt-failure.ts';
import type { RecallTerms } from '../../../tiering/stores/store.ts';
import { emptyReply, type Reply } from '../../http/reply.ts';
import { childOf, parseXml, textOf, type XmlNode } from '../../http/xml.ts';
import { findAsked, versionHeaders } from '../asked-version.ts';
import { receiveSmall } from '../body.ts';
import { isArchived, notRestored } from '../objects/restored.ts';
import { answeringStore, recallDelayOf } from '../objects/written-class.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const restoreObject: Operation<'object'> = {
  name: 'RestoreObject',
  action: 's3:RestoreObject',
  takesVersion: true,
  resource: 'object',
  price: 'put',
  bodyBytesMax: 64 * 1024,
  run,
};

const daysMax = 2 ** 31 - 1;
/** What is in a tier moves back before that; days are not asked for there, as on AWS. */
const returnDays = 7;
/** How often it is decided again whether it is there already. */
const triesMax = 3;

async function run(context: Reserved<'object'>): Promise<Reply> {
  const { services, bucket } = context;
  const { days: asked, tier } = parseRestore(await receiveSmall(context));
  const version = await findAsked(context, 'MethodNotAllowed');
  if (!isArchived(services, bucket, version)) throw notRestored(services, bucket, version);
  const { definition } = services.classes.named(bucket.tenant, version.class) ?? {};
  const days = asked ?? (definition?.tier ? returnDays : undefined);
  if (days === undefined) throw new Refusal('MalformedXML');
  const losing = services.losses.check(bucket.tenant, version);
  if (losing) await losing;
  const store = answeringStore(services, bucket, version.class);
  checkTier(context, store, tier);
  // Of an archive of S3 all is asked for at once, in the background.
  const isRecalled = services.stores.isArchive(store);
  const archived = isRecalled ? decodeManifest(version.manifest).filter(mayHaveCopies) : [];
  const delayMs = isRecalled ? 0 : recallDelayOf(services, bucket.tenant, version.class);
  if (isRecalled) context.readFrom(bucket, version.class, { tier });
  checkUntil(days, delayMs + services.dayMs);
  for (let tries = 1; tries <= triesMax; tries++) {
    const restore = await findRestore(services.read, version.seq);
    if (restore && restore.expiresMs === null) throw new Refusal('RestoreAlreadyInProgress');
    const isThere = isReadable(restore, steadyClock.nowMs());
    // So a store that restores nothing says so to who asks, and one that restores keeps it longer.
    const some = isThere ? archived : archived.slice(0, 1);
    await recall(context, version, some, { days: days + 1, tier });
    const terms = { days, tier, delayMs, isThere };
    if (await begin(context, version, terms)) {
      return emptyReply(isThere ? 200 : 202, versionHeaders(bucket, version));
    }
  }
  throw new Refusal('SlowDown');
}

interface Asked {
  days: number;
  tier: RestoreTier;
  delayMs: number;
  isThere: boolean;
}

/** Resolves to false where it is to be decided again: it came, or ended, meanwhile. */
async function begin(
  context: Reserved<'object'>,
  { seq, sizeBytes, etag, class: of }: Version,
  { days, tier, delayMs, isThere }: Asked,
): Promise<boolean> {
  const { services, bucket, key } = context;
  // What was set aside for a try before this one is no more.
  await (isThere
    ? context.budget.reserveExpected()
    : context.budget.reserve({ retrievalBytes: sizeBytes, sourceClass: of }));
  const { dayMs } = services;
  const change = { kind: 'beginRestore', bucketId: bucket.id, key, seq } as const;
  const result = await context.tryCommit(
    { ...change, days, tier, delayMs, dayMs, isThere },
    {
      ...{ status: isThere ? 200 : 202, sizeBytes, etag, class: of },
      change: recordedChange({ restore: { version: seq, days, tier } }),
    },
  );
  if (!result.ok && result.code !== 'SlowDown') throw context.failureOf(result);
  return result.ok;
}

/**
 * Throws `Refusal` InvalidRequest where the store's class is not restored so fast, by its server or
 * by its prices.
 */
function checkTier({ services }: Reserved<'object'>, store: number, tier: RestoreTier): void {
  const { storageClass } = services.stores.declaredOf(store);
  if (!isArchiveClass(storageClass)) return;
  const isPriced = services.bookOf(store).classes.get(usualClass)?.restore;
  const isLacking = isPriced && isPriced.size > 0 && !isPriced.has(tier);
  if (!isLacking && !(storageClass === 'DEEP_ARCHIVE' && tier === 'Expedited')) return;
  const message = 'Retrieval option is not supported by this storage class';
  throw new Refusal('InvalidRequest', { message });
}

/** How many extents are asked for at once. */
const recallsMax = 16;

/** Throws `Refusal` NotImplemented where the store restores nothing. */
async function recall(
  { services, bucket }: Reserved<'object'>,
  version: Version,
  runs: readonly ExtentRun[],
  terms: RecallTerms,
): Promise<void> {
  const { reader, losses } = services;
  try {
    for (let i = 0; i < runs.length; i += recallsMax) {
      const some = runs.slice(i, i + recallsMax);
      await Promise.all(
        some.map(async (run) => (await reader.findArchived(run)).archive?.recall(run.id, terms)),
      );
    }
  } catch (error) {
    if (error instanceof IntegrityError) throw await losses.explain({ bucket, version }, error);
    const { cause } = error as Error;
    if (!(cause instanceof AttemptFailure) || cause.reason !== 'unfit') throw error;
    const message = `The store of this class does not restore it: ${cause.message}`;
    throw new Refusal('NotImplemented', { message, cause });
  }
}

/** Throws `Refusal` InvalidArgument where the days end when no date can say it. */
function checkUntil(days: number, beforeMs: number): void {
  if (endOfDay(steadyClock.nowMs() + beforeMs, days, calendarDayMs) <= dateMsMax) return;
  throw new Refusal('InvalidArgument', { message: 'Restore period is too long.' });
}

/** Throws `Refusal` MalformedXML, InvalidArgument, or NotImplemented for what selects. */
function parseRestore(document: Buffer): { days: number | undefined; tier: RestoreTier } {
  const root = parseXml(document, 'RestoreRequest');
  const known = ['Days', 'Tier', 'GlacierJobParameters', 'Description', 'Type'];
  const other = root.children.find(({ name }) => !known.includes(name));
  if (other || textOf(root, 'Type') !== undefined) {
    throw new Refusal('NotImplemented', { fields: { Element: other?.name ?? 'Type' } });
  }
  const said = textOf(root, 'Days')?.trim();
  const days = said === undefined ? undefined : Number(said);
  if (days !== undefined && (!/^\d{1,10}$/.test(said ?? '') || days > daysMax)) {
    throw new Refusal('MalformedXML');
  }
  if (days === 0) {
    throw new Refusal('InvalidArgument', { message: 'Restore period must be at least one day.' });
  }
  return {
    days,
    tier: tierIn(childOf(root, 'GlacierJobParameters')) ?? tierIn(root) ?? 'Standard',
  };
}

function tierIn(node: XmlNode | undefined): RestoreTier | undefined {
  const said = node && textOf(node, 'Tier')?.trim();
  const tier = restoreTiers.find((one) => one === said);
  if (said === undefined || tier) return tier;
  throw new Refusal('MalformedXML');
}
