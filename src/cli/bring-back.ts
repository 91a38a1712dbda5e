// What `bursar undelete` and `bursar snapshot restore` do to each object, by requests of S3 of its
// own, so that each is decided, charged and recorded as any copy or deletion is. Invariant: what
// one request comes to is not another's matter, so who runs the command again goes on where it
// ended.
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { inParallel } from '../core/in-parallel.ts';
import { printable } from '../core/printable.ts';
import { Unreachable } from './api-client.ts';
import type { NamedPlace } from './bucket-names.ts';
import { CountProgress } from './progress.ts';
import { checkDone, S3Bucket, type S3Connection } from './s3-bucket.ts';

/** Requests at once. */
const parallel = 8;

type Bucket = Pick<NamedPlace, 'tenant' | 'bucket'>;

/** What came to nothing, and why. */
export interface Failed {
  key: string;
  error: string;
}

/**
 * Does something to each of them, some at once; gives those of which it rejected. Rejects with
 * `Unreachable`, which says how many were done: of all others it would reject, too.
 */
export async function forEachObject<T extends { key: string }>(
  objects: AsyncIterable<T>,
  what: string,
  work: (object: T) => Promise<void>,
): Promise<Failed[]> {
  using progress = new CountProgress(process.stderr, what);
  const failed: Failed[] = [];
  let count = 0;
  const each = async (object: T) => {
    try {
      await work(object);
      progress.show(++count);
    } catch (error) {
      if (error instanceof Unreachable) throw error;
      failed.push({ key: object.key, error: messageOfFailure(error) });
    }
  };
  try {
    await inParallel(objects, parallel, each);
  } catch (error) {
    if (count === 0 || !(error instanceof Unreachable)) throw error;
    const then = `${count} ${what} until then: run it again, and it goes on`;
    throw new Unreachable('failed', `${error.message}; ${then}`);
  }
  return failed;
}

/** Throws `CommandFailure` where something came to nothing. */
export function checkAll(
  failed: readonly Failed[],
  asJson: boolean | undefined,
  done = 'restored',
): void {
  if (failed.length === 0) return;
  if (!asJson) {
    for (const { key, error } of failed) process.stderr.write(`${printable(key)}: ${error}\n`);
  }
  const then = 'run it again once the reason given for each is mended';
  throw new CommandFailure('failed', `${failed.length} could not be ${done}; ${then}`);
}

/** From where an object comes back. */
export interface Source {
  key: string;
  /** Its storage class then; null: the bucket's default. */
  class: string | null;
  /** A version that the bucket has; null: what it was as of a record. */
  versionId: string | null;
  index: number | null;
  /** Only where there is no object of the key. */
  isGone?: boolean;
}

/** Copies onto its key what was there; false: `isGone` is not so. Rejects with `CommandFailure`. */
export async function copyBack(
  connection: S3Connection,
  place: Bucket,
  { key, class: storageClass, versionId, index, isGone }: Source,
): Promise<boolean> {
  const bucket = bucketAt(connection, place);
  const answer = await bucket.ask('PUT', key, {
    headers: {
      'x-amz-copy-source': bucket.sourceOf(key) + (versionId ? `?versionId=${versionId}` : ''),
      ...(versionId === null && { 'x-bursar-copy-source-as-of': String(index) }),
      ...(storageClass !== null && { 'x-amz-storage-class': storageClass }),
      ...(isGone && { 'if-none-match': '*' }),
    },
  });
  if (isGone && answer.status === 412) return false;
  checkDone(answer);
  return true;
}

/** Deletes an object, or a version of it. Rejects with `CommandFailure`. */
export async function deleteObject(
  connection: S3Connection,
  place: Bucket,
  { key, versionId }: { key: string; versionId?: string },
): Promise<void> {
  const query = versionId === undefined ? [] : [['versionId', versionId] as [string, string]];
  checkDone(await bucketAt(connection, place).ask('DELETE', key, { query }));
}

/** A bucket of any tenant. */
export function bucketAt(connection: S3Connection, { tenant, bucket }: Bucket): S3Bucket {
  return new S3Bucket(connection, `${tenant}:${bucket}`);
}
