// A write that makes a lost version again (`x-bursar-remakes: NUMBER`). Its bytes are received as
// any, in extents of their own; where they are the lost ones by their SHA-256, the lost extents are
// written anew, and the version is whole: its row, its id and its time stay as they were. Other
// bytes become a version as any write does, and the old one stays lost.
import { timingSafeEqual } from 'node:crypto';
import { recordedChange } from '../../../audit/recorded-change.ts';
import { findHeld } from '../../../catalog/held-rows.ts';
import { isLost } from '../../../catalog/lost-versions.ts';
import { type Attributes, findVersion, type Version } from '../../../catalog/versions.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import type { WrittenObject } from '../../../tiering/object-writer.ts';
import { quoted } from '../../http/reply.ts';
import { versionHeaders } from '../asked-version.ts';
import type { Reserved } from '../stages.ts';
import { checksumHeaders } from './object-attributes.ts';
import { classHeaders } from './written-class.ts';

export const remakesHeader = 'x-bursar-remakes';

/** The number of the version that is made again; null: none. Throws `Refusal` InvalidArgument. */
export function readRemade({ request }: Reserved<'object'>): number | null {
  const text = request.headers[remakesHeader];
  if (text === undefined) return null;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw invalidArgument(remakesHeader, text, 'It is the number of a version that was lost.');
}

/**
 * Throws `Refusal` PreconditionFailed where the key has no such version, or it is not lost; or
 * InvalidRequest where a customer's key encrypts it.
 */
export async function findLost(
  { services, bucket, key }: Reserved<'object'>,
  seq: number,
): Promise<Version> {
  const place = { key, seq };
  const version =
    (await findVersion(services, bucket, place)) ?? (await findHeld(services, bucket, place));
  if (version && (await isLost(services.read, seq))) {
    if (!(JSON.parse(version.attributes) as Attributes).customer) return version;
    const message = "A customer's key encrypts what was lost: write it as another object.";
    throw new Refusal('InvalidRequest', { message });
  }
  const message = `No version ${seq} of this key is lost.`;
  throw new Refusal('PreconditionFailed', { message, fields: { Condition: remakesHeader } });
}

/** Of what was uploaded in parts no SHA-256 is known, so nothing is for sure the same. */
export function isSameObject(
  { sha256, sizeBytes }: Version,
  written: Pick<WrittenObject, 'sha256' | 'sizeBytes'>,
): boolean {
  if (sha256 === null || sizeBytes !== written.sizeBytes) return false;
  return timingSafeEqual(sha256, written.sha256);
}

/** Makes the lost version whole of the same bytes; gives what tells of it in headers. */
export async function healVersion(
  context: Reserved<'object'>,
  version: Version,
  written: WrittenObject,
): Promise<Record<string, string>> {
  const { services, bucket, key, requester } = context;
  const { sizeBytes, etag, class: storageClass, seq, attributes } = version;
  await services.remakes.writeAgain({ bucket, version, written, requester });
  const change = { kind: 'recoverVersion', bucketId: bucket.id, key, seq } as const;
  const { sink } = context;
  const told = { action: 'bursar:RemakeObject', sizeBytes, etag, class: storageClass };
  await context.commit(change, {
    ...told,
    sha256: written.sha256.toString('hex'),
    change: recordedChange({ remade: { version: seq } }),
  });
  // Its own extents are needed no more.
  await sink?.abort();

  return {
    etag: quoted(etag),
    ...checksumHeaders(JSON.parse(attributes) as Attributes),
    ...classHeaders(services, bucket.tenant, storageClass),
    ...versionHeaders(bucket, version),
    'x-bursar-remade': String(seq),
  };
}
