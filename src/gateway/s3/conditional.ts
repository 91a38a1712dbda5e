// Conditional headers: RFC 9110 section 13, in its order of precedence, as S3 applies them to
// reads, to writes, and with the prefix `x-amz-copy-source-` to the source of a copy; and the one
// that a token's scope adds to writes.
import type { WriteConditions } from '../../catalog/conditions.ts';
import { isConditional, matchesTag } from '../../catalog/conditions.ts';
import { invalidArgument, Refusal } from '../../core/errors.ts';
import type { S3Request } from './request.ts';
import type { Asked, Reserved } from './stages.ts';

export const noConditions: WriteConditions = { ifMatch: null, ifNoneMatch: null };

/**
 * Conditions of a PUT, POST or DELETE of the request's key: entity tags only; null: there are none.
 * Rejects with `Refusal` AccessDenied where the answer would tell of an object that who asks may
 * not read, as on S3; and for a condition on the object that is there, where a token lets its
 * bearer only create.
 */
export function decideConditions(context: Reserved<'object'>): Promise<WriteConditions> | null {
  const { headers } = context.request;
  const hasTags = headers['if-match'] !== undefined || headers['if-none-match'] !== undefined;
  const hasScope = (context.asked.who.delegation?.scope ?? null) !== null;
  return hasTags || hasScope ? readConditions(context) : null;
}

async function readConditions(context: Reserved<'object'>): Promise<WriteConditions> {
  const { request } = context;
  const ifMatch = parseTags(request.headers['if-match']);
  const ifNoneMatch = parseTags(request.headers['if-none-match']);
  const isAboutTag = ifMatch !== null || ifNoneMatch?.some((tag) => tag !== '*');
  if (isAboutTag) await context.asked.authorizeKey('s3:GetObject', { wanted: 'stat' });
  if (!context.asked.mustCreate()) return { ifMatch, ifNoneMatch };
  if (ifMatch) throw createsOnly();
  const wasAsked = ifNoneMatch?.includes('*');
  return { ifMatch, ifNoneMatch: ['*'], ...(wasAsked ? {} : { mustCreate: true }) };
}

/**
 * The same of a DELETE, which knows conditions on time and size too. Throws `Refusal`
 * InvalidArgument.
 */
export async function decideDeletion(context: Reserved<'object'>): Promise<WriteConditions> {
  const { request, versionId } = context;
  const conditions: WriteConditions = {
    ifMatch: parseTags(request.headers['if-match']),
    ifNoneMatch: parseTags(request.headers['if-none-match']),
    ...readSize(request.headers[sizeName], sizeName),
    ...readModified(request.headers[modifiedName], modifiedName),
  };
  await admitDeletion(context.asked, conditions, { key: context.key, versionId });
  return conditions;
}

/**
 * Throws `Refusal` AccessDenied where the answer would tell of an object that who asks may not
 * read, as on S3.
 */
export async function admitDeletion(
  asked: Asked<'bucket'>,
  conditions: WriteConditions,
  of: { key: string; versionId: string | undefined; isOneOfMany?: true },
): Promise<void> {
  const { ifMatch, ifNoneMatch, ...others } = conditions;
  // Whether it is there is told by what a deletion does, too.
  const tags = [...(ifMatch ?? []), ...(ifNoneMatch ?? [])].filter((tag) => tag !== '*');
  const wanted = { ifMatch: tags.length > 0 ? tags : null, ifNoneMatch: null, ...others };
  if (!isConditional(wanted)) return;
  const action = of.versionId === undefined ? 's3:GetObject' : 's3:GetObjectVersion';
  await asked.authorizeKey(action, { ...of, wanted: 'stat' });
}

const modifiedName = 'x-amz-if-match-last-modified-time';
const sizeName = 'x-amz-if-match-size';

/**
 * Throws `Refusal` InvalidArgument: a deletion must not go on whose condition is not understood.
 */
export function readSize(text: string | undefined, name: string): { sizeBytes?: number } {
  if (text === undefined) return {};
  if (!/^\d{1,15}$/.test(text)) throw invalidArgument(name, text);
  return { sizeBytes: Number(text) };
}

/** The same for a time. */
export function readModified(text: string | undefined, name: string): { modifiedSeconds?: number } {
  if (text === undefined) return {};
  const timeMs = parseDate(text);
  if (timeMs === null) throw invalidArgument(name, text);
  return { modifiedSeconds: Math.floor(timeMs / 1000) };
}

/**
 * What a write is refused with that would replace an object, where a token lets its bearer create.
 */
export function createsOnly(): Refusal {
  const message = 'The scope of the token lets it create objects, not replace them.';
  return new Refusal('AccessDenied', { message });
}

export type ReadVerdict = 'proceed' | 'notModified';

/** Decides a read. Throws `Refusal` PreconditionFailed. */
export function checkReadConditions(
  request: S3Request,
  current: { etag: string; createdMs: number },
): ReadVerdict {
  const { headers } = request;
  const hasTags = headers['if-match'] !== undefined || headers['if-none-match'] !== undefined;
  const hasDates =
    headers['if-modified-since'] !== undefined || headers['if-unmodified-since'] !== undefined;
  if (!hasTags && !hasDates) return 'proceed';
  const { failed, notModified } = evaluate(request, '', current);
  if (failed) throw new Refusal('PreconditionFailed', { fields: { Condition: failed } });
  return notModified ? 'notModified' : 'proceed';
}

/**
 * Whether `Range` counts: `If-Range` names the version that the client has part of (RFC 9110
 * section 13.1.5), by a strong tag or by its exact date.
 */
export function rangeApplies(
  request: S3Request,
  current: { etag: string; createdMs: number },
): boolean {
  const text = request.headers['if-range']?.trim();
  if (text === undefined) return true;
  const timeMs = text.startsWith('"') || text.startsWith('W/') ? null : parseDate(text);
  if (timeMs !== null) return timeMs === Math.floor(current.createdMs / 1000) * 1000;
  return text.replace(/^"(.*)"$/, '$1') === current.etag;
}

/**
 * `checkReadConditions` for the source of a copy or a rename, where "not modified" fails as well.
 */
export function checkSourceConditions(
  request: S3Request,
  source: { etag: string; createdMs: number },
  header: 'x-amz-copy-source' | 'x-amz-rename-source',
): void {
  const { failed, notModified } = evaluate(request, `${header}-`, source);
  const condition = failed ?? notModified;
  if (!condition) return;
  throw new Refusal('PreconditionFailed', { fields: { Condition: `${header}-${condition}` } });
}

/** Does a request demand something of when the object was made that it replaces? */
export function isDated({ headers }: S3Request): boolean {
  return headers['if-modified-since'] !== undefined || headers['if-unmodified-since'] !== undefined;
}

/**
 * The same for what a request demands of when the object was made that is to be replaced; null:
 * there is none. Entity tags are decided in the commit.
 */
export function checkReplaced(
  request: S3Request,
  current: { etag: string; createdMs: number } | null,
): void {
  // What was never made was not modified since.
  const { failed, notModified } = evaluate(request, '', current ?? { etag: '', createdMs: 0 });
  const condition = failed ?? notModified;
  if (condition?.endsWith('-Since')) {
    throw new Refusal('PreconditionFailed', { fields: { Condition: condition } });
  }
}

function evaluate(
  request: S3Request,
  prefix: string,
  current: { etag: string; createdMs: number },
): { failed: string | null; notModified: string | null } {
  const read = (name: string): string | undefined => request.headers[`${prefix}${name}`];
  // Dates have whole seconds, so fractions of ours must not count as later.
  const modifiedMs = Math.floor(current.createdMs / 1000) * 1000;
  const ifMatch = parseTags(read('if-match'));
  const unmodifiedSince = parseDate(read('if-unmodified-since'));
  const ifNoneMatch = parseTags(read('if-none-match'));
  const modifiedSince = parseDate(read('if-modified-since'));
  let failed: string | null = null;
  if (ifMatch) {
    if (!matchesTag(ifMatch, current.etag)) failed = 'If-Match';
  } else if (unmodifiedSince !== null && modifiedMs > unmodifiedSince) {
    failed = 'If-Unmodified-Since';
  }
  let notModified: string | null = null;
  if (ifNoneMatch) {
    if (matchesTag(ifNoneMatch, current.etag)) notModified = 'If-None-Match';
  } else if (modifiedSince !== null && modifiedMs <= modifiedSince && modifiedSince <= Date.now()) {
    notModified = 'If-Modified-Since';
  }
  return { failed, notModified };
}

/** `"a", W/"b", c` → `a`, `b`, `c`; S3 takes tags without quotes too. */
export function parseTags(text: string | undefined): string[] | null {
  if (text === undefined) return null;
  return text
    .split(',')
    .map((tag) =>
      tag
        .trim()
        .replace(/^W\//, '')
        .replace(/^"(.*)"$/, '$1'),
    )
    .filter((tag) => tag !== '');
}

/** A date that cannot be read is ignored, as RFC 9110 demands. */
function parseDate(text: string | undefined): number | null {
  if (text === undefined) return null;
  const timeMs = Date.parse(text);
  return Number.isNaN(timeMs) ? null : timeMs;
}
