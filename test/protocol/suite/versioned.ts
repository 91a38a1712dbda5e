// What tests of versions share: buckets that keep them, and what is in these.
import {
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectVersionsCommand,
  type ListObjectVersionsCommandInput,
  PutBucketVersioningCommand,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { newBucket } from '../target.ts';

export async function setVersioning(
  client: S3Client,
  Bucket: string,
  Status: 'Enabled' | 'Suspended',
): Promise<void> {
  const VersioningConfiguration = { Status };
  await client.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
}

/** A new, empty bucket that keeps versions. */
export async function newVersionedBucket(client: S3Client): Promise<string> {
  const Bucket = await newBucket(client);
  await setVersioning(client, Bucket, 'Enabled');
  return Bucket;
}

/** Writes each body over the one before; gives their version ids. */
export async function putVersions(
  client: S3Client,
  Bucket: string,
  Key: string,
  bodies: readonly (string | Buffer)[],
): Promise<string[]> {
  const ids: string[] = [];
  for (const Body of bodies) {
    const { VersionId } = await client.send(new PutObjectCommand({ Bucket, Key, Body }));
    ids.push(VersionId ?? 'none');
  }
  return ids;
}

/** Puts a delete marker; gives its version id. */
export async function putMarker(client: S3Client, Bucket: string, Key: string): Promise<string> {
  const deleted = await client.send(new DeleteObjectCommand({ Bucket, Key }));
  return deleted.VersionId ?? 'none';
}

export async function readVersion(
  client: S3Client,
  Bucket: string,
  Key: string,
  VersionId?: string,
): Promise<string> {
  const { Body } = await client.send(new GetObjectCommand({ Bucket, Key, VersionId }));
  return (await Body?.transformToString()) ?? '';
}

/** A version, as a listing shows it: `key@id`, with `!` of a marker and `*` of the latest. */
export async function shownVersions(
  client: S3Client,
  Bucket: string,
  more: Partial<ListObjectVersionsCommandInput> = {},
): Promise<string[]> {
  const listed = await client.send(new ListObjectVersionsCommand({ Bucket, ...more }));
  const versions = (listed.Versions ?? []).map((one) => ({ ...one, mark: '' }));
  const markers = (listed.DeleteMarkers ?? []).map((one) => ({ ...one, mark: '!' }));
  return [...versions, ...markers]
    .map(({ Key, VersionId, IsLatest, mark }) => `${Key}@${VersionId}${mark}${IsLatest ? '*' : ''}`)
    .sort();
}
