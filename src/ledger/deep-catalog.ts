// The catalog against the records. A record says which version it made, which one it ended, and
// what it made of one's attributes, or of what is set of a bucket; so each version is the one that
// its record made, has what the last record gave it, and each end of one is its record's.
// Invariants: every version in each of the three tables and every end is met, those that no record
// tells of among them; a record that was erased says nothing, so what it made cannot be compared.
import { hash } from 'node:crypto';

import type { KeptRecord, RecordStore } from '../audit/record-store.ts';
import { guarded } from '../audit/verify/guard.ts';
import {
  type Difference,
  movedIn,
  type RecordFields,
  readFields,
} from '../audit/verify/record-fields.ts';
import { hashSettings } from '../catalog/buckets.ts';
import type { Reader } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import { Bits } from './deep/bits.ts';
import { type LastErasedOf, walkTable } from './deep/compared-things.ts';
import type { StagedMap, Staging } from './deep/staging.ts';

export interface DeepCatalogOptions {
  /** One state of the database throughout. */
  read: Reader;
  store: Pick<RecordStore, 'readRecord'>;
  staging: Staging;
  tell: (difference: Difference) => void;
}

/** Of a version's row. */
interface Place {
  bucketId: number;
  key: string;
  seq: number;
}

interface VersionRow {
  /** It is in the table of those that ended. */
  isEnded: number;
  versionId: string | null;
  isMarker: number;
  size: number;
  etag: string;
  sha256: Uint8Array | null;
  class: string;
  attributes: string;
}

const tables = ['versions', 'noncurrent_versions', 'ended_versions'] as const;
const columns =
  'version_id AS versionId, is_marker AS isMarker, size, etag, sha256, class, attributes';
const at = 'WHERE bucket_id = ? AND key = ? AND seq = ?';

const rowsPerPage = 1000;

export class DeepCatalog {
  readonly #options: DeepCatalogOptions;
  /** By `tenant/name`, as long as `read` sees the same state. */
  readonly #buckets = new Map<string, number | undefined>();
  /** A bit for each record whose version was found, and for each version whose end was. */
  readonly #made: Bits;
  readonly #ended: Bits;
  /** And for each version whose row was met. */
  #seen = new Uint8Array();
  /** Of buckets, by id, the last record that set something of it, and what it came to. */
  readonly #configured: StagedMap<{ index: number; settings: string }>;
  /** Of versions whose attributes are not those of the last record that changed them, that one. */
  readonly #amended: StagedMap<{ index: number; where: string; tenant: string }>;
  /** Of versions whose class is not that of the last record that says one, that record. */
  readonly #moved: StagedMap<{ index: number; where: string; tenant?: string | undefined }>;
  /** Versions that are there. */
  versions = 0;
  /** Of these and of ends, those whose records were erased or are damaged: nothing to compare. */
  unknown = 0;

  private constructor(options: DeepCatalogOptions, made: Bits, ended: Bits) {
    this.#options = options;
    this.#made = made;
    this.#ended = ended;
    this.#configured = options.staging.map('settings');
    this.#amended = options.staging.map('amended');
    this.#moved = options.staging.map('moved');
  }

  static async open(options: DeepCatalogOptions): Promise<DeepCatalog> {
    const made = await Bits.open(options.staging, 'made');
    return new DeepCatalog(options, made, await Bits.open(options.staging, 'ended'));
  }

  /** To be called when `read` sees another state from now on. */
  forgetRows(): void {
    this.#buckets.clear();
  }

  /** To be called before a slice is committed. */
  async save(): Promise<void> {
    await this.#made.save();
    await this.#ended.save();
  }

  /** Compares what one record says. */
  async visit(index: number, fields: RecordFields): Promise<void> {
    if (fields.configures) {
      const { bucket, settings } = fields.configures;
      await this.#configured.set(`${bucket}`, { index, settings });
    }
    if (fields.version !== undefined) await this.#visitVersion(index, fields);
    if (fields.amends !== undefined) await this.#visitAmendment(index, fields, fields.amends);
    const moved = movedIn(fields);
    if (moved !== null) await this.#visitMove(index, fields, moved);
    if (fields.supersedes !== undefined) await this.#visitEnd(index, fields.supersedes);
  }

  /**
   * Once all records were visited, of which there are `size`: what is left is what none of them
   * tells of. `lastErasedOf`: gives the last one that says nothing and may have changed what is a
   * tenant's.
   */
  async finish(size: number, lastErasedOf: LastErasedOf): Promise<void> {
    this.#seen = new Uint8Array(Math.ceil(size / 8));
    this.versions = 0;
    this.unknown = 0;
    // A guest's change is recorded as his tenant's, and a move as that of the tenant of the bucket,
    // which may keep its records for less long.
    for await (const [, { index, where, tenant }] of this.#amended.entries()) {
      if ((await lastErasedOf(tenant)) > index) this.unknown++;
      else this.#tell(where, `its attributes are not those that record ${index} gave it`);
    }
    for await (const [, { index, where, tenant }] of this.#moved.entries()) {
      if ((await lastErasedOf(tenant)) > index) this.unknown++;
      else this.#tell(where, `its class is not that of record ${index}`);
    }
    const { tell } = this.#options;
    for (const table of tables) {
      await guarded(tell, `the table ${table}`, () => this.#findUntoldVersions(table));
    }
    await guarded(tell, 'noncurrent versions', () => this.#findMisplaced());
    await guarded(tell, 'what is set of buckets', () => this.#compareBuckets(lastErasedOf));
    await guarded(tell, 'ends of versions', () => this.#findUntoldEnds());
  }

  async #visitVersion(index: number, fields: RecordFields): Promise<void> {
    if (fields.version !== index) {
      return this.#tell(
        `record ${index}`,
        `it made version ${fields.version}, which is not its own`,
      );
    }
    const bySeq = await this.#endOf(index);
    const row = await this.#findVersion(fields, index);
    if (!row) {
      if (bySeq !== null && bySeq > index) return;
      const what = 'it is not in the catalog, and no record ended it';
      return this.#tell(nameOf(fields, index), what);
    }
    this.#made.set(index);
    const wrong = compare(row, fields);
    if (wrong) this.#tell(nameOf(fields, index), `its ${wrong} is not that of its record`);
    if (!row.isMarker) await this.#compareClass(row, { index, seq: index, fields });
    if ((row.isEnded === 1) === (bySeq !== null)) return;
    const what = row.isEnded ? 'ended, which no record did' : `kept, and record ${bySeq} ended it`;
    this.#tell(nameOf(fields, index), `its row is among those that are ${what}`);
  }

  /** The rows of now are those of the last record: what earlier ones made of them is past. */
  async #visitAmendment(
    index: number,
    fields: RecordFields,
    { version, attributes }: NonNullable<RecordFields['amends']>,
  ): Promise<void> {
    const row = await this.#findVersion(fields, version);
    const isSame = !row || hash('sha256', row.attributes, 'hex') === attributes;
    const { tenant, bucketTenant = tenant } = fields;
    const told = { index, where: nameOf(fields, version), tenant: bucketTenant };
    if (!isSame) await this.#amended.set(`${version}`, told);
    else if (await this.#amended.get(`${version}`)) await this.#amended.delete(`${version}`);
  }

  async #visitMove(index: number, fields: RecordFields, seq: number): Promise<void> {
    const row = await this.#findVersion(fields, seq);
    if (row) await this.#compareClass(row, { index, seq, fields });
  }

  /** The class of now is that of the last record: what earlier ones said is past. */
  async #compareClass(
    row: VersionRow,
    { index, seq, fields }: { index: number; seq: number; fields: RecordFields },
  ): Promise<void> {
    const name = `${seq}`;
    if (row.class !== fields.class) {
      const { tenant, bucketTenant = tenant } = fields;
      await this.#moved.set(name, { index, where: nameOf(fields, seq), tenant: bucketTenant });
    } else if (await this.#moved.get(name)) await this.#moved.delete(name);
  }

  async #visitEnd(index: number, seq: number): Promise<void> {
    const bySeq = await this.#endOf(seq);
    if (bySeq === index && seq >= 0 && seq < index) return this.#ended.set(seq);
    const what = bySeq === null ? 'the catalog has it as never ended' : `it was ended by ${bySeq}`;
    this.#tell(`version ${seq}`, `record ${index} ended it, and ${what}`);
  }

  async #findUntoldVersions(table: (typeof tables)[number]): Promise<void> {
    const { read, tell } = this.#options;
    const columns = 'bucket_id AS bucketId, key, seq';
    const keys = table === 'versions' ? ['bucket_id', 'key'] : ['seq'];
    const rows =
      table === 'noncurrent_versions'
        ? walkNoncurrent(read)
        : walkTable<Place>(read, { columns, from: table, keys });
    for await (const row of rows) {
      await guarded(tell, `version ${row.seq} of ${row.key}`, () => this.#visitRow(row));
    }
  }

  /** The current version of a key is newer than all that are kept of it. */
  async #findMisplaced(): Promise<void> {
    const rows = await this.#options.read.all<Place>(
      `SELECT key, seq FROM noncurrent_versions AS n WHERE NOT EXISTS (SELECT 1 FROM versions AS c
         WHERE c.bucket_id = n.bucket_id AND c.key = n.key AND c.seq > n.seq) LIMIT ?`,
      rowsPerPage,
    );
    for (const { key, seq } of rows) {
      this.#tell(
        `version ${seq} of ${key}`,
        'it is kept as noncurrent, and no newer one is current',
      );
    }
  }

  async #visitRow(row: Place): Promise<void> {
    const { key, seq } = row;
    this.versions++;
    const where = `version ${seq} of ${key}`;
    if (hasBit(this.#seen, seq)) return this.#tell(where, 'another row has its number');
    setBit(this.#seen, seq);
    if (this.#made.has(seq)) return;
    const record = await this.#readRecord(seq);
    if (record === 'damaged' || record?.opened === null) this.unknown++;
    else if (!(await this.#isLeftOver(row, record))) this.#tell(where, 'no record made it');
  }

  /** Of a bucket that is gone, and maybe another has its name: there until it is swept. */
  async #isLeftOver({ bucketId, key, seq }: Place, record?: KeptRecord): Promise<boolean> {
    const bucket = await this.#options.read.get('SELECT 1 FROM buckets WHERE id = ?', bucketId);
    const fields = readFields(JSON.parse(record?.opened?.record ?? '{}'));
    return !bucket && fields?.version === seq && fields.key === key;
  }

  async #findUntoldEnds(): Promise<void> {
    const walked = { columns: 'seq, by_seq AS bySeq', from: 'superseded', keys: ['seq'] };
    const rows = walkTable<{ seq: number; bySeq: number }>(this.#options.read, walked);
    for await (const { seq, bySeq } of rows) {
      if (this.#ended.has(seq)) continue;
      if (await this.#isErased(bySeq)) this.unknown++;
      else this.#tell(`version ${seq}`, `it was ended by record ${bySeq}, which does not say so`);
    }
  }

  /**
   * Each has what the last record set, unless a later one was erased that may have set something.
   */
  async #compareBuckets(lastErasedOf: LastErasedOf): Promise<void> {
    const { read } = this.#options;
    const sql = "SELECT id, tenant || '/' || name AS name FROM buckets ORDER BY id";
    for (const { id, name } of await read.all<{ id: number; name: string }>(sql)) {
      const last = await this.#configured.get(`${id}`);
      if ((await hashSettings(read, id)) === last?.settings) continue;
      const lastErased = await lastErasedOf(name.split('/')[0]);
      if (lastErased > (last?.index ?? -1)) this.unknown++;
      else if (!last) this.#tell(`bucket ${name}`, 'no record made it');
      else this.#tell(`bucket ${name}`, `what is set of it is not what record ${last.index} set`);
    }
  }

  /** Or it cannot be read, so that it says nothing either. */
  async #isErased(index: number): Promise<boolean> {
    const record = await this.#readRecord(index);
    return record === 'damaged' || record?.opened === null;
  }

  /** What is damaged in the archive was told where the records were walked, and stops nothing. */
  async #readRecord(index: number): Promise<KeptRecord | undefined | 'damaged'> {
    try {
      return await this.#options.store.readRecord(index);
    } catch (error) {
      if (error instanceof IntegrityError) return 'damaged';
      throw error;
    }
  }

  /** The record that ended a version; null: none, as far as the catalog knows. */
  async #endOf(seq: number): Promise<number | null> {
    const sql = 'SELECT by_seq AS bySeq FROM superseded WHERE seq = ?';
    return (await this.#options.read.get<{ bySeq: number }>(sql, seq))?.bySeq ?? null;
  }

  async #findVersion(fields: RecordFields, seq: number): Promise<VersionRow | undefined> {
    const bucketId = await this.#bucketOf(fields);
    if (bucketId === undefined || fields.key === undefined) return undefined;
    const place = [bucketId, fields.key, seq];
    return this.#options.read.get<VersionRow>(
      `SELECT 0 AS isEnded, ${columns} FROM versions ${at}
         UNION ALL SELECT 0, ${columns} FROM noncurrent_versions ${at}
         UNION ALL SELECT 1, ${columns} FROM ended_versions ${at}
         UNION ALL SELECT 1, ${columns} FROM held_versions ${at} AND NOT is_image`,
      ...[...place, ...place, ...place, ...place],
    );
  }

  /** undefined: no bucket has this name any more. */
  async #bucketOf({
    tenant,
    bucketTenant,
    bucket = '',
  }: RecordFields): Promise<number | undefined> {
    const owner = bucketTenant ?? tenant;
    const name = `${owner}/${bucket}`;
    if (!this.#buckets.has(name)) {
      const sql = 'SELECT id FROM buckets WHERE tenant = ? AND name = ?';
      const row = await this.#options.read.get<{ id: number }>(sql, owner, bucket);
      this.#buckets.set(name, row?.id);
    }
    return this.#buckets.get(name);
  }

  #tell(where: string, what: string): void {
    this.#options.tell({ where, what });
  }
}

/** In the order of their primary key, in which numbers go down. It ends as `walkTable` does. */
async function* walkNoncurrent(read: Reader): AsyncGenerator<Place> {
  const select = 'SELECT bucket_id AS bucketId, key, seq FROM noncurrent_versions';
  for (let after: Place = { bucketId: -1, key: '', seq: -1 }; ; ) {
    const { bucketId, key, seq } = after;
    const older = await read.all<Place>(
      `${select} WHERE bucket_id = ? AND key = ? AND seq < ? ORDER BY seq DESC LIMIT ?`,
      ...[bucketId, key, seq, rowsPerPage],
    );
    const others = await read.all<Place>(
      `${select} WHERE (bucket_id, key) > (?, ?) ORDER BY bucket_id, key, seq DESC LIMIT ?`,
      ...[bucketId, key],
      older.length > 0 ? 0 : rowsPerPage,
    );
    const rows = [...older, ...others];
    const last = rows.at(-1);
    if (!last) return;
    yield* rows;
    if (last.bucketId === bucketId && last.key === key && last.seq === seq) {
      throw new Error('rows of noncurrent_versions have keys that no gateway gives');
    }
    after = last;
  }
}

/** What of a version is not what its record says; undefined: nothing. */
function compare(row: VersionRow, fields: RecordFields): string | undefined {
  const { sha256 } = row;
  if ((row.versionId ?? 'null') !== (fields.versionId ?? 'null')) return 'version id';
  if ((row.isMarker === 1) !== (fields.marker === true)) return 'being a delete marker';
  if (row.isMarker) return undefined;
  if (row.size !== fields.size) return 'size';
  if (row.etag !== fields.etag) return 'ETag';
  const isSame = (sha256 && Buffer.from(sha256).toString('hex')) === (fields.sha256 ?? null);
  return isSame ? undefined : 'SHA-256';
}

function nameOf({ key }: RecordFields, seq: number): string {
  return `version ${seq} of ${key}`;
}

function hasBit(bits: Uint8Array, place: number): boolean {
  return ((bits[Math.floor(place / 8)] ?? 0) & (1 << (place % 8))) !== 0;
}

/** What is no place in them is left out. */
function setBit(bits: Uint8Array, place: number): void {
  const at = Math.floor(place / 8);
  if (at in bits) bits[at] = (bits[at] ?? 0) | (1 << (place % 8));
}
