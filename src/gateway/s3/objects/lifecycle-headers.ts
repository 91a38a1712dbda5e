// What answers tell of lifecycle rules: when an object expires, and when an upload is aborted, by
// which rule. Dates are by the calendar, whatever a day lasts for the gateway's own work.
// Specification: `x-amz-expiration`, `x-amz-abort-date` and `x-amz-abort-rule-id` of the S3 API
// reference.
import {
  calendarDayMs,
  type Lifecycle,
  type LifecycleVersion,
  versionOf,
} from '../../../catalog/lifecycle.ts';
import type { Attributes, Version } from '../../../catalog/versions.ts';
import { dateMsMax, httpTime } from '../../../core/clock.ts';
import type { Reserved } from '../stages.ts';
import { noTags } from './object-attributes.ts';

type Headers = Readonly<Record<string, string>>;
const none: Headers = {};

/** What a bucket has: null is none. */
type Rules = Lifecycle | Promise<Lifecycle | null>;

/** Of an object that was just written with these attributes. */
export function writtenExpiration(
  rules: Rules,
  written: Pick<LifecycleVersion, 'key' | 'sizeBytes' | 'createdMs'> & {
    attributes: Pick<Attributes, 'tags'>;
  },
): Promise<Headers> {
  const { key, sizeBytes, createdMs, attributes } = written;
  const tags = () => attributes.tags ?? noTags;
  return expirationHeaders(rules, { key, sizeBytes, createdMs, isMarker: false, tags });
}

/** Of a version that is read; one that is not current does not expire. */
export async function readExpiration(rules: Rules, version: Version): Promise<Headers> {
  return version.supersededMs === null ? expirationHeaders(rules, versionOf(version)) : none;
}

async function expirationHeaders(rules: Rules, version: LifecycleVersion): Promise<Headers> {
  const due = (await rules)?.expirationOf(version, calendarDayMs);
  if (!due || due.dueMs > dateMsMax) return none;
  const ruleId = encodeURIComponent(due.ruleId);
  return { 'x-amz-expiration': `expiry-date="${httpTime(due.dueMs)}", rule-id="${ruleId}"` };
}

/** Of an upload that is not completed. */
export async function abortHeaders(
  { services, bucket }: Reserved<'bucket'>,
  upload: { key: string; createdMs: number },
): Promise<Headers> {
  const rules = await services.lifecycle.find(bucket.id);
  const due = rules?.abortOf(upload, calendarDayMs);
  if (!due || due.dueMs > dateMsMax) return none;
  return {
    'x-amz-abort-date': httpTime(due.dueMs),
    'x-amz-abort-rule-id': encodeURIComponent(due.ruleId),
  };
}
