// Native API: the audit records. Invariants: a filter only ever narrows what the caller may see, so
// another tenant's name in it finds nothing; and records leave verbatim, as they were hashed, or
// marked as altered.

import { PackFailure } from '../../audit/archive/pack-failure.ts';
import { withheldUntilMs } from '../../audit/evidence.ts';
import type { Checkpoint } from '../../audit/log/checkpoint.ts';
import { listLogKeys } from '../../audit/log/log-keys.ts';
import { hashLeaf, proveInclusion, rootFromInclusion } from '../../audit/log/merkle.ts';
import { parseNote, verifyNote } from '../../audit/log/note.ts';
import { readLogSize, storedTiles } from '../../audit/log/stored-tiles.ts';
import { leafOf, type Opening, renderReceipt } from '../../audit/receipt.ts';
import { AlteredRecord, type KeptRecord, type OpenedRecord } from '../../audit/record-store.ts';
import type { ShownRecord } from '../../audit/shown-records.ts';
import { nowMs } from '../../core/clock.ts';
import { IntegrityError, Refusal } from '../../core/errors.ts';
import type { Identity, NativeDeps } from './deps.ts';
import { mayAdminister } from './rights.ts';
import { type Call, param, routeTable } from './route.ts';
import { answerPage, text, time } from './schemas.ts';

const limitDefault = 100;
/** Past which record to go on and, oldest first, before which to end. */
const cursorForm = /^[0-9]{1,15}(?:-[0-9]{1,15})?$/;

export const recordRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/records',
    action: 'bursar:SearchRecords',
    summary:
      'Search the audit records that the caller may see, in the order of the log or from the ' +
      'newest back. A copy is found by what was copied, too. ' +
      'A page may be empty and still have a `next`: the search goes on there until it is null, ' +
      'which it is at the end that the log had when the first page was asked for. ' +
      'What is not what was recorded is only `altered` and `index`, whatever was asked for.',
    query: {
      from: { ...time, description: 'Not before this time (RFC 3339).' },
      to: { ...time, description: 'Before this time (RFC 3339).' },
      tenant: text('Of principals of this tenant, and about its buckets.'),
      principal: text('`alice`, or `cms/alice` with its tenant.'),
      bucket: { type: 'string' },
      bucketTenant: text('Of which tenant the bucket is; absent: of any.'),
      guests: {
        type: 'string',
        enum: ['true'],
        description: 'Only of principals of other tenants, about buckets of `tenant`.',
      },
      prefix: text('Of object keys that begin so.'),
      key: text('Of the object with this key.'),
      action: text('`s3:PutObject`, `bursar:CreateTenant`'),
      token: text('The `jti` of a token in whose chain they were made.'),
      status: { type: 'string', pattern: '^[1-5][0-9]{2}$', description: 'HTTP status.' },
      address: text("The client's address, as records have it."),
      order: {
        type: 'string',
        enum: ['oldest', 'newest'],
        description: 'Which come first; `oldest` if absent.',
      },
      cursor: {
        type: 'string',
        pattern: cursorForm.source,
        description:
          'The `next` of the page before; or a log index, to begin behind it (newest first: ' +
          'before it).',
      },
      limit: {
        type: 'string',
        pattern: '^([1-9][0-9]{0,2}|1000)$',
        description: `Records a page, 1 to 1000; ${limitDefault} if absent.`,
      },
    },
    answer: answerPage('records', { type: 'object', additionalProperties: true }),
    run: async (call) => {
      const scope = visibleScope(call);
      if (!scope) return { answer: { records: [], next: null } };
      const { query } = call;
      const { past, before } = await readCursor(call);
      const { records, nextIndex } = await call.deps.search.find({
        ...scope,
        bucket: query.bucket,
        bucketTenant: query.bucketTenant ?? (query.guests && (scope.tenant ?? undefined)),
        isByGuests: query.guests === 'true',
        prefix: query.prefix,
        key: query.key,
        action: query.action,
        token: query.token,
        status: query.status === undefined ? undefined : Number(query.status),
        source: query.address,
        fromMs: timeOf(query.from),
        toMs: timeOf(query.to),
        pastIndex: past,
        beforeIndex: before,
        isNewestFirst: query.order === 'newest',
        limit: Number(query.limit ?? limitDefault),
      });
      const end = before === undefined ? '' : `-${before}`;
      const next = nextIndex === null ? 'null' : `"${nextIndex}${end}"`;
      const texts = records.map(({ index, text }) => text ?? `{"altered":true,"index":${index}}`);
      return { answer: `{"records":[${texts.join(',')}],"next":${next}}` };
    },
  },
]);

/**
 * Each page is recorded, so who reads page by page up to the end of the log would never come to it:
 * the end is where it was at the first page.
 */
async function readCursor({ query: { cursor, order }, deps }: Call) {
  const [past, before] = cursor?.split('-').map(Number) ?? [];
  if (order === 'newest') return { past, before: undefined };
  return { past, before: before ?? (await readLogSize(deps.read)) };
}

/** Whose records are searched, as far as the caller may see them; undefined: nobody's. */
export function visibleScope({ who, reach, query }: Pick<Call, 'who' | 'reach' | 'query'>) {
  const parts = query.principal?.split('/') ?? [];
  const name = parts.at(-1);
  const asked = parts.length > 1 ? parts.slice(0, -1).join('/') : undefined;
  const isSelf = reach === 'self';
  const requesterTenant = isSelf ? (asked ?? who.tenant) : asked;
  const principal = isSelf ? (name ?? who.name) : name;
  if (isSelf && (requesterTenant !== who.tenant || principal !== who.name)) return undefined;
  // An index leads through what may be seen, never through what is asked for beyond that: how much
  // there is of that is not the caller's to know.
  const visible = reach === 'all' ? undefined : who.tenant;
  const tenant = visible ?? query.tenant ?? requesterTenant ?? null;
  return { tenant, otherTenant: query.tenant, requesterTenant, principal };
}

function timeOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Date.parse(text);
}

// Native API: receipts, each the proof that a record is in the log, to be verified without the
// gateway. Invariants: who may not see a record is answered as if there were none; and a receipt
// that does not verify is not handed out, as it could only mean that the database was altered.
// Specification: C2SP tlog-proof; docs/formats/receipt.md.

const indexForm = /^(?:0|[1-9][0-9]{0,15})$/;

export const receiptRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/receipts/:index',
    action: 'bursar:GetReceipt',
    summary:
      'The receipt of a record: a C2SP tlog-proof that verifies without the gateway. For who ' +
      'made the request, and for who may audit it.',
    answerType: 'text/plain; charset=utf-8',
    answer: { type: 'string' },
    run: async (call) => {
      const text = param(call, 'index');
      const index = Number(text);
      if (!indexForm.test(text) || !Number.isSafeInteger(index)) throw new Refusal('NoSuchRecord');
      const record = await readRecord(call, index);
      if (!record || !maySee(call, record)) throw new Refusal('NoSuchRecord');
      if (record.isAltered) throw damaged(new AlteredRecord(index));
      const { opened } = record;
      if (!opened) throw new Refusal('RecordErased');
      return { answer: await prove(call, record, opened) };
    },
  },
]);

/**
 * Records that the caller may not see are not read from the archive, whose store charges for it.
 */
async function readRecord(call: Call, index: number): Promise<ShownRecord | undefined> {
  try {
    return await call.deps.records.readRecord(index, (whose) => isInReach(call, whose));
  } catch (cause) {
    const isOfRecord = cause instanceof IntegrityError && !(cause instanceof PackFailure);
    throw isOfRecord ? damaged(cause) : cause;
  }
}

interface RecordedUse {
  principal: string;
  accessKeyId?: string;
  tokens?: string[];
}

function isInReach(
  { who, reach }: Call,
  { tenant, bucketTenant }: Pick<KeptRecord, 'tenant' | 'bucketTenant'>,
): boolean {
  if (reach === 'all' || tenant === who.tenant) return true;
  return reach === 'tenant' && bucketTenant === who.tenant;
}

/**
 * What the caller may see: what `reach` says, or with a token that does not cover administration
 * what was done with it.
 */
function maySee(call: Call, record: KeptRecord): boolean {
  const { who, reach, identity } = call;
  const { opened } = record;
  if (!isInReach(call, record)) return false;
  if (reach !== 'self') return true;
  if (!opened) return false;
  const { principal, tokens, accessKeyId } = JSON.parse(opened.record) as RecordedUse;
  if (principal !== who.name) return false;
  const { delegation } = identity;
  if (delegation === null || mayAdminister(delegation)) return true;
  // A session policy leaves temporary keys less than their token, and than other keys of it.
  if (delegation.policies.length > 0 && accessKeyId !== identity.accessKeyId) return false;
  const own = delegation.ids.at(-1);
  return own !== undefined && tokens?.includes(own) === true;
}

async function prove(
  { deps, identity }: Call,
  record: KeptRecord,
  opened: OpenedRecord,
): Promise<string> {
  const { index, pseudonyms } = record;
  const opening: Opening = {
    ...pseudonyms,
    salt: opened.salt,
    record: opened.record,
    evidence: await shownEvidence(deps, identity, opened),
  };
  await deps.log.waitFor(index + 1);
  const { note, checkpoint } = await chooseNote(deps, index);
  const { size, root } = checkpoint;
  const proof = await proveInclusion(storedTiles(deps.read), index, size);
  const reached = rootFromInclusion(hashLeaf(leafOf(opening)), { index, size, proof });
  if (!reached?.equals(root))
    throw damaged(new IntegrityError(`record ${index} is not in the log`));
  return renderReceipt({ ...opening, index, proof, checkpoint: note });
}

/** A note that verifies: one that witnesses have cosigned may be of a key that is revoked since. */
export async function chooseNote(
  { log, read }: NativeDeps,
  index: number,
): Promise<{ note: string; checkpoint: Checkpoint }> {
  const rows = (await listLogKeys(read)).filter(({ revokedMs }) => revokedMs === null);
  const keys = rows.map(({ key }) => key);
  const { note, checkpoint } = log;
  const own = note === null || checkpoint === null ? null : { note, checkpoint };
  for (const head of [log.noteFor(index), own]) {
    const parsed = head && parseNote(head.note);
    if (parsed && verifyNote(parsed, keys)?.length) return head;
  }
  throw new Refusal('ServiceUnavailable', { message: 'The log is not signed.' });
}

function damaged(cause: IntegrityError): Refusal {
  const message = 'The record is not what the log has of it, so there is no receipt for it.';
  return new Refusal('BursarIntegrityError', { message, cause });
}

/**
 * The evidence that is handed out with the receipt of a record; null: it has none, it was erased,
 * or it is not shown yet. Nobody is given what they could send again in the client's name, unless
 * they prove the same key, and so could sign it anew.
 */
async function shownEvidence(
  { records }: Pick<NativeDeps, 'records'>,
  { keyThumbprint }: Pick<Identity, 'keyThumbprint'>,
  opened: OpenedRecord,
): Promise<unknown> {
  const { evidenceAt } = JSON.parse(opened.record) as { evidenceAt?: number };
  // The evidence of a request is kept with its first record.
  const has = evidenceAt === undefined ? opened : (await records.readRecord(evidenceAt))?.opened;
  const text = has?.evidence ?? null;
  if (text === null || withheldUntilMs(text, { keyThumbprint, nowMs: nowMs() }) !== null)
    return null;
  return JSON.parse(text) as unknown;
}
