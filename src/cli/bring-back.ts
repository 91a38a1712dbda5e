// What `bursar undelete` and `bursar snapshot restore` do to each object, by requests of S3 of its
// own, so that each is decided, charged and recorded as any copy or deletion is. Invariant: what
// one request comes to is not another's matter, so who runs the command again goes on where it
// ended.
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { inParallel } from '../core/in-parallel.ts';
import { printable } from '../core/printable.ts';
import { emptySha256, signRequest } from '../core/sigv4.ts';
import { type Connection, encode, exchange } from './api-client.ts';
import type { NamedPlace } from './bucket-names.ts';
import { CountProgress } from './progress.ts';

/** Requests at once. */
const parallel = 8;

export type S3Connection = Connection & { s3Endpoint: string };
type Bucket = Pick<NamedPlace, 'tenant' | 'bucket'>;

/** What came to nothing, and why. */
export interface Failed {
  key: string;
  error: string;
}

/** Does something to each of them, some at once; gives those of which it rejected. */
export async function forEachObject<T extends { key: string }>(
  objects: AsyncIterable<T>,
  what: string,
  work: (object: T) => Promise<void>,
): Promise<Failed[]> {
  using progress = new CountProgress(process.stderr, what);
  const failed: Failed[] = [];
  let count = 0;
  await inParallel(objects, parallel, async (object) => {
    try {
      await work(object);
      progress.show(++count);
    } catch (error) {
      failed.push({ key: object.key, error: messageOfFailure(error) });
    }
  });
  return failed;
}

/** Throws `CommandFailure` where something came to nothing. */
export function checkAll(failed: readonly Failed[], asJson: boolean | undefined): void {
  if (failed.length === 0) return;
  if (!asJson) {
    for (const { key, error } of failed) process.stderr.write(`${printable(key)}: ${error}\n`);
  }
  throw new CommandFailure('failed', `${failed.length} could not be restored; run it again`);
}

/** From where an object comes back. */
export interface Source {
  key: string;
  /** Its storage class then; null: the bucket's default. */
  class: string | null;
  /** A version that the bucket has; null: what it was as of a record. */
  versionId: string | null;
  index: number | null;
}

/** Copies onto its key what was there. Rejects with `CommandFailure`. */
export async function copyBack(
  connection: S3Connection,
  bucket: Bucket,
  { key, class: storageClass, versionId, index }: Source,
): Promise<void> {
  const source = pathOf(bucket, key).map(encode).join('/');
  await askS3(connection, 'PUT', pathOf(bucket, key), {
    headers: {
      'x-amz-copy-source': `/${source}${versionId === null ? '' : `?versionId=${versionId}`}`,
      ...(versionId === null && { 'x-bursar-copy-source-as-of': String(index) }),
      ...(storageClass !== null && { 'x-amz-storage-class': storageClass }),
    },
  });
}

/** Deletes an object, or a version of it. Rejects with `CommandFailure`. */
export async function deleteObject(
  connection: S3Connection,
  bucket: Bucket,
  { key, versionId }: { key: string; versionId?: string },
): Promise<void> {
  const query = versionId === undefined ? [] : [['versionId', versionId] as [string, string]];
  await askS3(connection, 'DELETE', pathOf(bucket, key), { query });
}

function pathOf({ tenant, bucket }: Bucket, key: string): string[] {
  return [`${tenant}:${bucket}`, ...key.split('/')];
}

/** Throws `CommandFailure` with the gateway's words. */
async function askS3(
  { s3Endpoint, accessKeyId, secretAccessKey: secret, region }: S3Connection,
  method: 'PUT' | 'DELETE',
  path: readonly string[],
  {
    query = [],
    headers: more = {},
  }: { query?: [string, string][]; headers?: Record<string, string> },
): Promise<void> {
  const headers = { host: new URL(s3Endpoint).host, 'content-length': '0', ...more };
  const signed = signRequest({
    ...{ method, path: `/${path.join('/')}`, query, headers, accessKeyId, secret, region },
    ...{ service: 's3', payloadHash: emptySha256, timeMs: Date.now() },
  });
  const search = query.map(([name, value]) => `${name}=${encode(value)}`).join('&');
  const url = `${s3Endpoint}/${path.map(encode).join('/')}${search && `?${search}`}`;
  const { status, text } = await exchange(url, method, { ...headers, ...signed }, undefined);
  // A copy may end in an error behind its status.
  const code = /<Error>.*?<Code>([^<]*)<\/Code>/s.exec(text)?.[1];
  if (status < 300 && code === undefined) return;
  const message = /<Message>([^<]*)<\/Message>/.exec(text)?.[1];
  throw new CommandFailure('failed', `${message ?? `answered ${status}`} (${code ?? status})`);
}
