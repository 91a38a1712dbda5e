// Snapshots and what they hold, against the records that made and deleted them, and that ended or
// changed versions. Invariants: what ended, or changed, while a living snapshot has it, is held;
// each that is held ended or changed by the record that it says, is of a snapshot that has it, and
// is what was written.
import { hash } from 'node:crypto';
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import {
  ComparedThings,
  type Comparison,
  type Row,
  show,
  tenantOfName,
  walkTable,
} from './compared-things.ts';
import type { StagedMap, Staging } from './staging.ts';

/** What a record did to a version. */
interface Deed {
  /** `seq` of the version. */
  version: number;
  /** `tenant/name` of the bucket. */
  bucket: string;
  key: string;
  /** It changed it in place. */
  isChange: boolean;
}

interface HeldRow {
  bucket: string | null;
  key: string;
  seq: number;
  endedSeq: number;
  isImage: number;
  holder: number;
  attributes: string;
}

interface Living {
  seq: number;
  prefix: string;
}

export class DeepSnapshots {
  readonly #things: ComparedThings;
  /** By index of the record: ends and changes of versions that a snapshot may have had. */
  readonly #deeds: StagedMap<Deed>;
  /** By `tenant/name` of a bucket: how many snapshots of it were made. */
  readonly #made: StagedMap<number>;
  /** By version: its attributes' digest, as the last record that changed them says. */
  readonly #attributes: StagedMap<string>;
  /** By version and record: that of before. */
  readonly #before: StagedMap<string>;

  constructor(staging: Staging) {
    this.#things = new ComparedThings(staging, 'snapshot', tenantOfName);
    this.#deeds = staging.map('deeds in snapshots');
    this.#made = staging.map('buckets with snapshots');
    this.#attributes = staging.map('attributes in snapshots');
    this.#before = staging.map('attributes before');
  }

  async visit(index: number, fields: RecordFields): Promise<void> {
    const { action, target = '' } = fields;
    if (!isDone(fields)) return;
    if (action === 'bursar:CreateSnapshot') return this.#create(index, fields);
    if (action === 'bursar:RestoreEnd' && fields.key === undefined) return this.#drop(fields);
    const [, id] = targetForm.exec(target) ?? [];
    if (action === 'bursar:DeleteSnapshot' && id !== undefined) {
      await this.#things.delete(id.replace('/snapshots/', '/'));
    }
    await this.#note(index, fields);
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    await this.#things.compare(listRows(read), comparison);
    await this.#compareHeld(read, comparison);
    await this.#findLacking(read, comparison);
  }

  async #create(index: number, { target = '', change, time }: RecordFields): Promise<void> {
    const [, id, tenant, bucket] = targetForm.exec(target) ?? [];
    if (id === undefined) return;
    const name = `${tenant}/${bucket}`;
    await this.#made.set(name, ((await this.#made.get(name)) ?? 0) + 1);
    await this.#things.put(id.replace('/snapshots/', '/'), index, {
      seq: index,
      prefix: change?.prefix,
      expiresAt: change?.expiresAt,
      lock: change?.lock,
      createdMs: Date.parse(time),
    });
  }

  /** A restore ended the bucket. */
  async #drop({ tenant, bucketTenant = tenant, bucket }: RecordFields): Promise<void> {
    if (!(await this.#made.get(`${bucketTenant}/${bucket}`))) return;
    const gone: string[] = [];
    for await (const [id] of this.#things.entries()) {
      if (id.startsWith(`${bucketTenant}/buckets/${bucket}/`)) gone.push(id);
    }
    for (const id of gone) await this.#things.delete(id);
  }

  /** Only of buckets that had snapshots, so that nothing is kept of all others. */
  async #note(index: number, fields: RecordFields): Promise<void> {
    const { tenant, bucketTenant = tenant, bucket, key, supersedes, amends } = fields;
    const name = `${bucketTenant}/${bucket}`;
    if (key === undefined || (supersedes === undefined && !amends)) return;
    if (!(await this.#made.get(name))) {
      // What it came to matters for the first change that is made under a snapshot.
      if (amends) await this.#attributes.set(`${amends.version}`, amends.attributes);
      return;
    }
    if (supersedes !== undefined) {
      const deed = { version: supersedes, bucket: name, key, isChange: false };
      await this.#deeds.set(`${index}`, deed);
    }
    if (!amends) return;
    const { version, attributes } = amends;
    await this.#deeds.set(`${index}`, { version, bucket: name, key, isChange: true });
    const before = await this.#attributes.get(`${version}`);
    if (before !== undefined) await this.#before.set(`${index}`, before);
    await this.#attributes.set(`${version}`, attributes);
  }

  async #compareHeld(read: Reader, { tell, lastErased, onUnknown }: Comparison): Promise<void> {
    const name = "(SELECT tenant || '/' || name FROM buckets WHERE id = bucket_id) AS bucket";
    const rows = walkTable<HeldRow>(read, {
      columns: `${name}, key, seq, ended_seq AS endedSeq, is_image AS isImage, holder, attributes`,
      from: 'held_versions',
      keys: ['bucket_id', 'key', '-seq', 'ended_seq'],
    });
    for await (const row of rows) {
      const { bucket, key, seq, endedSeq, isImage, holder, attributes } = row;
      const deed = await this.#deeds.get(`${endedSeq}`);
      const where = `version ${seq} of ${key}, held`;
      const isTold =
        deed?.version === seq &&
        deed.bucket === bucket &&
        deed.key === key &&
        deed.isChange === (isImage === 1);
      if (!isTold) {
        if (lastErased >= endedSeq) onUnknown();
        else tell({ where, what: `record ${endedSeq} did not end or change it` });
        continue;
      }
      const before = await this.#before.get(`${endedSeq}`);
      if (isImage && before !== undefined && hash('sha256', attributes, 'hex') !== before) {
        tell({ where, what: `its attributes are not those before record ${endedSeq}` });
      }
      const sql = `SELECT prefix FROM snapshots AS s JOIN buckets AS b ON b.id = s.bucket_id
        WHERE b.tenant || '/' || b.name = ? AND s.seq = ?`;
      const snapshot = await read.get<{ prefix: string }>(sql, bucket, holder);
      const isHolder = snapshot && key.startsWith(snapshot.prefix);
      if (!isHolder || holder < seq || holder >= endedSeq) {
        tell({ where, what: `snapshot ${show(holder)}, which is to hold it, does not have it` });
      }
    }
  }

  /** What living snapshots have and do not hold. */
  async #findLacking(read: Reader, { tell }: Comparison): Promise<void> {
    const living = new Map<string, Living[]>();
    for await (const [index, { version, bucket, key, isChange }] of this.#deeds.entries()) {
      const endedSeq = Number(index);
      const snapshots = living.get(bucket) ?? (await readLiving(read, bucket));
      living.set(bucket, snapshots);
      const newest = snapshots.find(
        ({ seq, prefix }) => seq >= version && seq < endedSeq && key.startsWith(prefix),
      );
      if (!newest) continue;
      // Of a version that was changed since a snapshot, the image from the first change is it.
      const held = await read.get(
        `SELECT 1 FROM held_versions AS h JOIN buckets AS b ON b.id = h.bucket_id
           WHERE b.tenant || '/' || b.name = ? AND h.key = ? AND h.seq = ?
             AND ${isChange ? 'h.ended_seq > ? AND h.ended_seq <= ?' : 'h.ended_seq = ?'}`,
        ...[bucket, key, version],
        ...(isChange ? [newest.seq, endedSeq] : [endedSeq]),
      );
      if (held) continue;
      const what = `record ${endedSeq} ${isChange ? 'changed' : 'ended'} it, and it is not held`;
      tell({ where: `version ${version} of ${key}, in snapshot ${newest.seq}`, what });
    }
  }
}

const targetForm = /^tenants\/(([^/]+)\/buckets\/([^/]+)\/snapshots\/[^/]+)$/;

/** From the newest down. */
function readLiving(read: Reader, bucket: string): Promise<Living[]> {
  return read.all<Living>(
    `SELECT s.seq, s.prefix FROM snapshots AS s JOIN buckets AS b ON b.id = s.bucket_id
       WHERE b.tenant || '/' || b.name = ? AND s.state = 'living' ORDER BY s.seq DESC`,
    bucket,
  );
}

async function* listRows(read: Reader): AsyncGenerator<Row> {
  const rows = walkTable<Record<string, unknown> & { expiresMs: number | null }>(read, {
    columns: `tenant, bucket, name, seq, prefix, created_ms AS createdMs, expires_ms AS expiresMs,
      lock`,
    from: 'snapshots',
    where: "state = 'living'",
    keys: ['bucket_id', 'seq'],
  });
  for await (const { tenant, bucket, name, expiresMs, ...members } of rows) {
    const expiresAt = expiresMs === null ? null : new Date(expiresMs).toISOString();
    yield { id: `${tenant}/buckets/${bucket}/${name}`, members: { ...members, expiresAt } };
  }
}
