// One inventory, from the listing to its manifest, by S3's own protocol: with the temporary key of
// who configured it, so that rights, limits, charges and records are those of any client.
// Invariants: at most `rowsMax` rows are held; and the manifest's checksum is written last, and
// nothing of an inventory that has one is written again, so that where it is, all is. A run that
// was ended is repeated under the same names.
// Specification: "Locating your inventory list" of the Amazon S3 user guide.
import { createHash } from 'node:crypto';
import {
  HeadObjectCommand,
  ListObjectsV2Command,
  ListObjectVersionsCommand,
  type ListObjectVersionsCommandOutput,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { type InventoryConfig, namesOfInventory } from '../../catalog/inventory.ts';
import { InventoryForm, type Listed } from './inventory-rows.ts';

export interface InventoryJob {
  config: InventoryConfig;
  /** As who configured it names the bucket. */
  bucket: string;
  /** What it is called in the list, and in its folder. */
  name: string;
  /** When it was due: the name of its folder. */
  dueMs: number;
  /** Writes another where it is there, as of a later minute. */
  isWanted: boolean;
}

export interface InventoryDone {
  manifest: string;
  objects: number;
  files: number;
  /** It was there already. */
  wasThere: boolean;
}

const rowsMax = 50_000;
const pageMax = 1000;

export async function writeInventory(client: S3Client, job: InventoryJob): Promise<InventoryDone> {
  const { config, bucket, name, dueMs, isWanted } = job;
  const { destination: Bucket } = config;
  const names = namesOfInventory(config, name, dueMs);
  const { manifest, checksum } = names;
  if (await isThere(client, Bucket, checksum)) {
    // A name of the next minute could be that of the next one that is due.
    if (isWanted) throw new Error('one was written in this minute: ask again in the next');
    return { manifest, objects: 0, files: 0, wasThere: true };
  }
  const createdMs = Date.now();
  const form = new InventoryForm(config, name);
  const files: { key: string; size: number; MD5checksum: string }[] = [];
  let objects = 0;
  const flush = async (rows: readonly Listed[]) => {
    const Body = await form.render(rows);
    const key = names.data(files.length, form.ending);
    await client.send(new PutObjectCommand({ Bucket, Key: key, Body }));
    const MD5checksum = createHash('md5').update(Body).digest('hex');
    files.push({ key, size: Body.length, MD5checksum });
    objects += rows.length;
  };
  let rows: Listed[] = [];
  const pages = config.versions === 'All' ? listVersions : listObjects;
  for await (const page of pages(client, bucket, config.filter)) {
    rows.push(...page);
    if (rows.length < rowsMax) continue;
    await flush(rows);
    rows = [];
  }
  if (rows.length > 0) await flush(rows);
  const text = JSON.stringify({
    ...{ sourceBucket: name, destinationBucket: config.arn, version: '2016-11-30' },
    ...{ creationTimestamp: String(createdMs), fileFormat: config.format },
    ...{ fileSchema: form.schema, files },
  });
  const digest = createHash('md5').update(text).digest('hex');
  const ContentType = 'application/json';
  await client.send(new PutObjectCommand({ Bucket, Key: manifest, Body: text, ContentType }));
  await client.send(new PutObjectCommand({ Bucket, Key: checksum, Body: digest }));
  return { manifest, objects, files: files.length, wasThere: false };
}

async function isThere(client: S3Client, Bucket: string, Key: string): Promise<boolean> {
  try {
    await client.send(new HeadObjectCommand({ Bucket, Key }));
    return true;
  } catch (error) {
    const { $metadata } = error as { $metadata?: { httpStatusCode?: number } };
    // Who may not read there may be able to write, or else a write says why not: this has no body.
    if ([403, 404].includes($metadata?.httpStatusCode ?? 0)) return false;
    throw error;
  }
}

async function* listObjects(client: S3Client, Bucket: string, Prefix: string) {
  let token: string | undefined;
  do {
    const { Contents = [], NextContinuationToken } = await client.send(
      new ListObjectsV2Command({
        ...{ Bucket, Prefix, MaxKeys: pageMax, FetchOwner: true, EncodingType: 'url' },
        ...(token !== undefined && { ContinuationToken: token }),
      }),
    );
    yield Contents.map(
      (one): Listed => ({
        ...{ key: decoded(one.Key), versionId: undefined, isLatest: true, isDeleteMarker: false },
        ...{ size: one.Size, modified: one.LastModified, etag: bare(one.ETag) },
        ...{ storageClass: one.StorageClass, checksumAlgorithm: one.ChecksumAlgorithm?.join(' ') },
        owner: one.Owner?.ID,
      }),
    );
    token = NextContinuationToken;
  } while (token !== undefined);
}

async function* listVersions(client: S3Client, Bucket: string, Prefix: string) {
  let [key, version]: (string | undefined)[] = [];
  do {
    const page: ListObjectVersionsCommandOutput = await client.send(
      new ListObjectVersionsCommand({
        ...{ Bucket, Prefix, MaxKeys: pageMax, EncodingType: 'url' },
        ...(key !== undefined && { KeyMarker: key }),
        ...(version !== undefined && { VersionIdMarker: version }),
      }),
    );
    const { Versions = [], DeleteMarkers = [] } = page;
    yield [
      ...Versions.map(
        (one): Listed => ({
          ...{ key: decoded(one.Key), versionId: one.VersionId, isLatest: one.IsLatest === true },
          ...{ isDeleteMarker: false, size: one.Size, modified: one.LastModified },
          ...{ etag: bare(one.ETag), storageClass: one.StorageClass, owner: one.Owner?.ID },
          checksumAlgorithm: one.ChecksumAlgorithm?.join(' '),
        }),
      ),
      ...DeleteMarkers.map(
        (one): Listed => ({
          ...{ key: decoded(one.Key), versionId: one.VersionId, isLatest: one.IsLatest === true },
          ...{ isDeleteMarker: true, size: undefined, modified: one.LastModified },
          ...{ etag: undefined, storageClass: undefined, checksumAlgorithm: undefined },
          owner: one.Owner?.ID,
        }),
      ),
    ];
    key = page.IsTruncated ? decoded(page.NextKeyMarker) : undefined;
    version = page.NextVersionIdMarker;
  } while (key !== undefined);
}

function decoded(text = ''): string {
  return decodeURIComponent(text.replaceAll('+', ' '));
}

function bare(etag: string | undefined): string | undefined {
  return etag?.replaceAll('"', '');
}
