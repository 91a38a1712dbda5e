// Snapshots, undelete windows and what they hold, against the records that made and deleted them,
// and that ended or changed versions. Invariants: what ended, or changed, while a living snapshot
// has it, or in its bucket's window, is held; each that is held ended or changed by the record that
// it says, is of a snapshot that has it or of a window, and is what was written.
import { hash } from 'node:crypto';
import { isDone, movedIn, type RecordFields } from '../../audit/verify/record-fields.ts';
import { beginOf, heldByWindow, readWindow } from '../../catalog/undelete-window.ts';
import type { Reader } from '../../core/database.ts';
import { getOrMake } from '../../core/maps.ts';
import { steadyClock } from '../../core/steady-clock.ts';
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
  timeMs: number;
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
  /** By `tenant/name` of a bucket: how many snapshots of it were made, or windows set. */
  readonly #made: StagedMap<number>;
  /** By version: its attributes' digest, as the last record that changed them says. */
  readonly #attributes: StagedMap<string>;
  /** By version and record: that of before. */
  readonly #before: StagedMap<string>;

  readonly #begins = new Map<string, number>();
  /** By bucket: what was let go of although somebody had it. */
  readonly #purges = new Map<string, { index: number; name: string; isPrefix: boolean }[]>();

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
    if (action === 'bursar:CreateSnapshot' || action === 'bursar:RestoreSnapshot')
      return this.#create(index, fields);
    const [, tenant, bucket] = windowForm.exec(target) ?? [];
    if (action === 'bursar:PutUndelete') return this.#count(`${tenant}/${bucket}`);
    if (action === 'bursar:RestoreEnd' && fields.key === undefined) return this.#drop(fields);
    const [, id] = targetForm.exec(target) ?? [];
    if (action === 'bursar:DeleteSnapshot' && id !== undefined) {
      await this.#things.delete(id.replace('/snapshots/', '/'));
    }
    if (action === 'bursar:PurgeHeld') this.#notePurge(index, fields);
    await this.#note(index, fields);
  }

  #notePurge(index: number, { target = '', change }: RecordFields): void {
    const [, tenant, bucket] = purgesForm.exec(target) ?? [];
    const { key, prefix } = change ?? {};
    const name = typeof key === 'string' ? key : prefix;
    if (bucket === undefined || typeof name !== 'string') return;
    const purges = getOrMake(this.#purges, `${tenant}/${bucket}`, () => []);
    purges.push({ index, name, isPrefix: key === undefined });
  }

  /** Whether what ended by this record was let go of on purpose. */
  #isPurged(bucket: string, key: string, endedSeq: number): boolean {
    const purges = this.#purges.get(bucket) ?? [];
    return purges.some(
      ({ index, name, isPrefix }) =>
        endedSeq < index && (isPrefix ? key.startsWith(name) : key === name),
    );
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    await this.#things.compare(listRows(read), comparison);
    await this.#compareHeld(read, comparison);
    await this.#findLacking(read, comparison);
  }

  async #create(index: number, { target = '', change, time }: RecordFields): Promise<void> {
    const [, id, tenant, bucket] = targetForm.exec(target) ?? [];
    if (id === undefined) return;
    await this.#count(`${tenant}/${bucket}`);
    await this.#things.put(id.replace('/snapshots/', '/'), index, {
      seq: index,
      prefix: change?.prefix,
      expiresAt: change?.expiresAt,
      lock: change?.lock,
      // Of one that a rebuild has put back, when it was first made.
      createdMs: Date.parse(change?.createdAt === undefined ? time : String(change.createdAt)),
    });
  }

  async #count(bucket: string): Promise<void> {
    await this.#made.set(bucket, ((await this.#made.get(bucket)) ?? 0) + 1);
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
    const { tenant, bucketTenant = tenant, bucket, key, supersedes, amends, time } = fields;
    const name = `${bucketTenant}/${bucket}`;
    if (key === undefined || (supersedes === undefined && !amends)) return;
    if (!(await this.#made.get(name))) {
      // What it came to matters for the first change that is made under a snapshot.
      if (amends) await this.#attributes.set(`${amends.version}`, amends.attributes);
      return;
    }
    const timeMs = Date.parse(time);
    if (supersedes !== undefined) {
      const deed = { version: supersedes, bucket: name, key, isChange: false, timeMs };
      await this.#deeds.set(`${index}`, deed);
    }
    if (!amends) return;
    const { version, attributes } = amends;
    const before = await this.#attributes.get(`${version}`);
    await this.#attributes.set(`${version}`, attributes);
    // What is moved stays as it is to a snapshot, which has no image of it.
    if (movedIn(fields) !== null) return;
    await this.#deeds.set(`${index}`, { version, bucket: name, key, isChange: true, timeMs });
    if (before !== undefined) await this.#before.set(`${index}`, before);
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
      if (holder === heldByWindow) continue;
      if (bucket !== null && deed.timeMs > (await this.#beginOf(read, bucket))) {
        tell({
          where,
          what: `snapshot ${show(holder)} is to hold it, and not the undelete window`,
        });
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

  /** What ended in a bucket after this moment is held by its window. */
  async #beginOf(read: Reader, bucket: string): Promise<number> {
    const begin = this.#begins.get(bucket) ?? (await readBegin(read, bucket));
    this.#begins.set(bucket, begin);
    return begin;
  }

  /** What living snapshots and windows have and do not hold. */
  async #findLacking(read: Reader, { tell }: Comparison): Promise<void> {
    const living = new Map<string, Living[]>();
    for await (const [index, deed] of this.#deeds.entries()) {
      const { version, bucket, key, isChange, timeMs } = deed;
      const endedSeq = Number(index);
      const snapshots = living.get(bucket) ?? (await readLiving(read, bucket));
      living.set(bucket, snapshots);
      const newest = snapshots.find(
        ({ seq, prefix }) => seq >= version && seq < endedSeq && key.startsWith(prefix),
      );
      const beginMs = await this.#beginOf(read, bucket);
      if (!newest && timeMs <= beginMs) continue;
      if (this.#isPurged(bucket, key, endedSeq)) continue;
      const sinceSeq = newest ? newest.seq : endedSeq - 1;
      // Of a version that was changed since a snapshot, the image from the first change is it.
      const held = await read.get(
        `SELECT 1 FROM held_versions AS h JOIN buckets AS b ON b.id = h.bucket_id
           WHERE b.tenant || '/' || b.name = ? AND h.key = ? AND h.seq = ?
             AND ${isChange ? 'h.ended_seq > ? AND h.ended_seq <= ?' : 'h.ended_seq = ?'}`,
        ...[bucket, key, version],
        ...(isChange ? [sinceSeq, endedSeq] : [endedSeq]),
      );
      if (held) continue;
      const what = `record ${endedSeq} ${isChange ? 'changed' : 'ended'} it, and it is not held`;
      const holder = newest ? `snapshot ${newest.seq}` : 'the undelete window';
      tell({ where: `version ${version} of ${key}, in ${holder}`, what });
    }
  }
}

const purgesForm = /^tenants\/([^/]+)\/buckets\/([^/]+)\/purges$/;
const windowForm = /^tenants\/([^/]+)\/buckets\/([^/]+)\/undelete$/;
const targetForm = /^tenants\/(([^/]+)\/buckets\/([^/]+)\/snapshots\/[^/]+)$/;

/** From the newest down. */
function readLiving(read: Reader, bucket: string): Promise<Living[]> {
  return read.all<Living>(
    `SELECT s.seq, s.prefix FROM snapshots AS s JOIN buckets AS b ON b.id = s.bucket_id
       WHERE b.tenant || '/' || b.name = ? AND s.state = 'living' ORDER BY s.seq DESC`,
    bucket,
  );
}

async function readBegin(read: Reader, bucket: string): Promise<number> {
  const sql = "SELECT id FROM buckets WHERE tenant || '/' || name = ?";
  const row = await read.get<{ id: number }>(sql, bucket);
  const window = row && (await readWindow(read, row.id));
  return window ? beginOf(window, steadyClock.nowMs()) : Number.POSITIVE_INFINITY;
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
