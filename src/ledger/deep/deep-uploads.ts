// Unfinished uploads and their parts, against the records that began, ended and uploaded them.
// Invariants: an id is given once, so an upload that ended is not there again; and a bucket that is
// deleted takes its uploads with it.
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import { ComparedThings, type Comparison, rowsOf } from './compared-things.ts';
import type { StagedMap, Staging } from './staging.ts';

const endings = new Set(['s3:AbortMultipartUpload', 's3:DeleteUpload']);

export class DeepUploads {
  readonly #uploads: ComparedThings;
  /** By `ID/NUMBER`. */
  readonly #parts: ComparedThings;
  /** By id, the numbers of its parts. */
  readonly #numbers: StagedMap<Record<string, true>>;
  /** Ids of those that were completed or aborted: completing once more is recorded, too. */
  readonly #ended: StagedMap<true>;
  /** By `tenant/name`, the record that deleted a bucket last. */
  readonly #gone: StagedMap<number>;

  constructor(staging: Staging) {
    this.#uploads = new ComparedThings(staging, 'upload');
    this.#parts = new ComparedThings(staging, 'part');
    this.#numbers = staging.map('parts of upload');
    this.#ended = staging.map('ended upload');
    this.#gone = staging.map('bucket gone');
  }

  async visit(index: number, fields: RecordFields): Promise<void> {
    if (!isDone(fields)) return;
    const { action, target = '', key, version, tenant, bucketTenant = tenant, bucket } = fields;
    const isRestoredEnd = action === 'bursar:RestoreEnd' && key === undefined;
    if (action === 's3:DeleteBucket' || isRestoredEnd) {
      await this.#gone.set(`${bucketTenant}/${bucket}`, index);
    }
    if (action === 'bursar:TransferUpload') await this.#transfer(index, fields);
    const [, id, number] = /^uploads\/([^/]+)(?:\/parts\/(\d+))?$/.exec(target) ?? [];
    if (id === undefined || (await this.#ended.get(id))) return;
    if (endings.has(action) || (action === 's3:PutObject' && version !== undefined)) {
      await this.#end(id);
    } else if (action === 's3:PutObject' && number === undefined) {
      await this.#begin(id, index, fields);
    } else if (action === 's3:PutObject') {
      const { size, etag, time } = fields;
      await this.#parts.put(`${id}/${number}`, index, { size, etag, modifiedMs: Date.parse(time) });
      await this.#numbers.set(id, { ...(await this.#numbers.get(id)), [`${number}`]: true });
    }
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    for await (const [id, { index, members }] of this.#uploads.entries()) {
      const goneIndex = (await this.#gone.get(String(members.bucket))) ?? -1;
      if (goneIndex > index) await this.#end(id);
    }
    await this.#uploads.compare(listUploads(read), comparison);
    await this.#parts.compare(listParts(read), comparison);
  }

  async #begin(id: string, index: number, fields: RecordFields): Promise<void> {
    const { tenant, principal, bucketTenant = tenant, bucket, key, class: of, time } = fields;
    await this.#uploads.put(id, index, {
      bucket: `${bucketTenant}/${bucket}`,
      key,
      class: of,
      initiator: `${tenant}/${principal}`,
      createdMs: Date.parse(time),
    });
  }

  async #transfer(index: number, { change }: RecordFields): Promise<void> {
    const { id, to } = change ?? {};
    if (typeof id !== 'string' || !(await this.#uploads.get(id))) return;
    await this.#uploads.change(id, index, { initiator: to });
  }

  async #end(id: string): Promise<void> {
    await this.#uploads.delete(id);
    for (const number of Object.keys((await this.#numbers.get(id)) ?? {})) {
      await this.#parts.delete(`${id}/${number}`);
    }
    await this.#numbers.delete(id);
    await this.#ended.set(id, true);
  }
}

const listUploads = rowsOf(
  {
    columns: `id, key, class, initiator, created_ms AS createdMs,
      (SELECT tenant || '/' || name FROM buckets WHERE buckets.id = bucket_id) AS bucket`,
    from: 'uploads',
    where: 'completed IS NULL',
    keys: ['id'],
  },
  ({ id, ...members }) => ({ id: String(id), members }),
);

const listParts = rowsOf(
  {
    columns: 'upload_id AS uploadId, number, size, etag, modified_ms AS modifiedMs',
    from: 'parts',
    keys: ['upload_id', 'number'],
  },
  ({ uploadId, number, ...members }) => ({ id: `${uploadId}/${number}`, members }),
);
