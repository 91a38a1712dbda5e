// What answers tell of lifecycle rules: when an object expires, and when an upload is aborted, by which
// rule. Dates are by the calendar, whatever a day lasts for the gateway's own work.
// Specification: `x-amz-expiration`, `x-amz-abort-date` and `x-amz-abort-rule-id` of the S3 API
// reference.
import { calendarDayMs, type Due, type LifecycleVersion, versionOf } from '../catalog/lifecycle.ts';
import type { Version } from '../catalog/versions.ts';
import { httpTime } from '../core/clock.ts';
import type { Context } from './context.ts';
import { noTags } from './object-tags.ts';

/** Beyond it no date can be written with four digits of a year. */
const dateMsMax = Date.UTC(9999, 11, 31);

type Headers = Record<string, string>;
const none: Readonly<Headers> = {};

/** Of an object that was just written with these attributes. */
export function writtenExpiration(
  context: Context,
  written: Pick<LifecycleVersion, 'sizeBytes' | 'createdMs'> & {
    attributes: { tags?: ReturnType<LifecycleVersion['tags']> };
  },
): Promise<Readonly<Headers>> {
  const { sizeBytes, createdMs, attributes } = written;
  const tags = () => attributes.tags ?? noTags;
  return expirationOf(context, { key: context.key, sizeBytes, createdMs, isMarker: false, tags });
}

/** Of a version that is read; one that is not current does not expire. */
export function readExpiration(
  context: Context,
  version: Version,
): Readonly<Headers> | Promise<Readonly<Headers>> {
  return version.supersededMs === null ? expirationOf(context, versionOf(version)) : none;
}

async function expirationOf(
  { rooms, bucket }: Context,
  version: LifecycleVersion,
): Promise<Readonly<Headers>> {
  const rules = await rooms.lifecycle.rules.find(bucket.id);
  const due = rules?.expirationOf(version, calendarDayMs);
  if (!due || due.dueMs > dateMsMax) return none;
  const ruleId = encodeURIComponent(due.ruleId);
  return { 'x-amz-expiration': `expiry-date="${httpTime(due.dueMs)}", rule-id="${ruleId}"` };
}

/** Of an upload that is not completed. */
export async function abortHeaders(
  { rooms, bucket }: Context,
  upload: { key: string; createdMs: number },
): Promise<Readonly<Headers>> {
  const rules = await rooms.lifecycle.rules.find(bucket.id);
  const due: Due | null | undefined = rules?.abortOf(upload, calendarDayMs);
  if (!due || due.dueMs > dateMsMax) return none;
  return {
    'x-amz-abort-date': httpTime(due.dueMs),
    'x-amz-abort-rule-id': encodeURIComponent(due.ruleId),
  };
}
