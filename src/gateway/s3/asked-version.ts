// The version of an object that a request asks for: the newest, or the one of its `versionId`.
// Invariant: a delete marker is never answered with as an object; and only who may list a key
// learns that it, or a version of it, is not there.
// Specification: "Working with delete markers" and "Retrieving object versions from a
// versioning-enabled bucket" of the Amazon S3 user guide.
import type { Bucket } from '../../catalog/buckets.ts';
import {
  findNamed,
  findNamedWithBody,
  type Version,
  type VersionWithBody,
} from '../../catalog/versions.ts';
import { httpTime } from '../../core/clock.ts';
import { invalidArgument, Refusal } from '../../core/errors.ts';
import type { SourceName } from './copy-source.ts';
import type { ObjectName, SmallObject } from './objects/object-memory.ts';
import { isShown } from './query-mount.ts';
import type { Committed } from './reserved.ts';
import { findInSnapshot } from './snapshot-mount.ts';
import type { Reserved } from './stages.ts';

/** The id of the version that a bucket without versioning, or with suspended versioning, makes. */
const nullVersion = 'null';
const idForm = /^(?:null|[0-9a-f]{32})$/;

export function isVersionId(text: string): boolean {
  return idForm.test(text);
}

/** Throws `Refusal` InvalidArgument for what no version's id can be. */
export function checkVersionId(text: string, argument: string): void {
  if (text === '') throw invalidArgument(argument, text, 'Version id cannot be the empty string');
  if (!isVersionId(text)) throw invalidArgument(argument, text, 'Invalid version id specified');
}

/** As answers and records name a version. */
export function idOf({ versionId }: Pick<Version, 'versionId'>): string {
  return versionId ?? nullVersion;
}

/** The id of a version where its bucket has ever had versioning; else S3 names none. */
export function shownId(
  { versioning }: Pick<Bucket, 'versioning'>,
  version: Pick<Version, 'versionId'>,
): string | undefined {
  return versioning === 'Unversioned' ? undefined : idOf(version);
}

/** The headers that say which version this is. */
export function versionHeaders(
  bucket: Pick<Bucket, 'versioning'>,
  version: Pick<Version, 'versionId'>,
): Record<string, string> {
  const id = shownId(bucket, version);
  return id === undefined ? {} : { 'x-amz-version-id': id };
}

/**
 * What a write answers of the version that it made. As on S3, nothing where versioning is
 * suspended: it is always `null`. Only a copy says so then.
 */
export function madeHeaders(versionId: string | null | undefined): Record<string, string> {
  return versionId ? { 'x-amz-version-id': versionId } : {};
}

/** What a deletion answers: the marker that it made, or the version that it was asked to delete. */
export function deletionHeaders(
  { version }: Committed,
  asked: string | undefined,
): Record<string, string> {
  if (!version) return {};
  return {
    'x-amz-version-id': asked ?? idOf(version),
    ...(version.isMarker ? { 'x-amz-delete-marker': 'true' } : {}),
  };
}

/** What is said of a key that is under a delete marker, to who may know that it is. */
export type WhenDeleted = 'NoSuchKey' | 'MethodNotAllowed';

/**
 * The version that the request asks for. Throws `Refusal` NoSuchKey, NoSuchVersion, AccessDenied,
 * or MethodNotAllowed for a delete marker: for one that is named, and, where S3 does so, for the
 * newest.
 */
export async function findAsked(
  context: Reserved<'object'>,
  whenDeleted: WhenDeleted = 'NoSuchKey',
): Promise<Version> {
  const { services, bucket, key, versionId } = context;
  const { at } = context.asked;
  const found = at
    ? await findInSnapshot(services, bucket, at, { key, versionId })
    : await findNamed(services, bucket, { key, versionId });
  return admitted(context, found, whenDeleted);
}

/** The same, with the sealed bytes of its first extent where those are inline. */
export async function findAskedWithBody(context: Reserved<'object'>): Promise<VersionWithBody> {
  const { services, bucket, key, versionId } = context;
  const { at } = context.asked;
  const found = at
    ? await findInSnapshot(services, bucket, at, { key, versionId })
    : await findNamedWithBody(services, bucket, { key, versionId });
  return admitted(context, found, 'NoSuchKey');
}

/** What memory has the newest version of a key by; null: another version is asked for. */
export function memorized({
  asked,
  bucket,
  key,
  versionId,
}: Reserved<'object'>): ObjectName | null {
  return versionId === undefined ? { bucketId: bucket.id, key, at: asked.at?.seq } : null;
}

/** The newest version with all of its bytes, where memory has them. Throws as `findAsked` does. */
export async function recallAsked(context: Reserved<'object'>): Promise<SmallObject | undefined> {
  const name = memorized(context);
  if (!name) return undefined;
  const recalled = context.services.objectMemory.find(name);
  if (recalled) await admitted(context, recalled.version, 'NoSuchKey');
  return recalled;
}

async function admitted<V extends Version>(
  context: Reserved<'object'>,
  version: V | undefined,
  whenDeleted: WhenDeleted,
): Promise<V> {
  if (!version) throw await missingVersion(context, context.versionId);
  const versionId = shownId(context.bucket, version);
  if (versionId !== undefined) context.detail = { ...context.detail, versionId };
  if (version.isMarker) throw await refuseMarker(context, version, whenDeleted);
  const deciding = context.asked.admitVersion(version);
  if (deciding) await deciding;
  if (!(await isShown(context.asked, context.asked, version))) {
    throw await missingVersion(context, context.versionId);
  }
  return version;
}

/** The answer for a version that is not there, of the request's own key or of a copy's source. */
export async function missingVersion(
  context: Reserved<'object'>,
  versionId: string | undefined,
  place?: SourceName,
): Promise<Refusal> {
  const refusal = await context.asked.missingKey(place);
  if (versionId === undefined || refusal.code !== 'NoSuchKey') return refusal;
  const fields = { Key: place?.key ?? context.key, VersionId: versionId };
  return new Refusal('NoSuchVersion', { fields });
}

async function refuseMarker(
  context: Reserved<'object'>,
  marker: Version,
  whenDeleted: WhenDeleted,
): Promise<Refusal> {
  const headers = { 'x-amz-delete-marker': 'true', 'x-amz-version-id': idOf(marker) };
  if (context.versionId === undefined) {
    const refusal = await context.asked.missingKey();
    const { code, fields } = refusal;
    if (code !== 'NoSuchKey') return refusal;
    if (whenDeleted === 'NoSuchKey') return new Refusal(code, { fields, headers });
  }
  return new Refusal('MethodNotAllowed', {
    fields: { Method: context.request.method, ResourceType: 'DeleteMarker' },
    headers: { ...headers, allow: 'DELETE', 'last-modified': httpTime(marker.createdMs) },
  });
}
