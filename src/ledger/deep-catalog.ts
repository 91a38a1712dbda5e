// The catalog against the records. A record says which version it made and which one it ended; so
// each version is the one that its record made, and each end of one is its record's. Invariants: every
// version and every end is met, those that no record tells of among them; a record that was erased
// says nothing, so what it made cannot be compared.

import type { KeptRecord, RecordStore } from '../audit/record-store.ts';
import type { Difference, RecordFields } from '../audit/verify/deep-records.ts';
import type { Reader } from '../core/database.ts';

export interface DeepCatalogOptions {
  /** One state of the database throughout. */
  read: Reader;
  store: Pick<RecordStore, 'readRecord'>;
  /** Records in the log. */
  size: number;
  tell: (difference: Difference) => void;
}

/** Of a version's row. */
interface Place {
  bucketId: number;
  key: string;
  seq: number;
}

interface VersionRow {
  supersededSeq: number | null;
  size: number;
  etag: string;
  sha256: Uint8Array | null;
  class: string;
}

const rowsPerPage = 1000;

export class DeepCatalog {
  readonly #options: DeepCatalogOptions;
  readonly #buckets = new Map<string, number | undefined>();
  /** A bit for each record whose version was found, and for each version whose end was. */
  readonly #made: Uint8Array;
  readonly #ended: Uint8Array;
  /** And for each version whose row was met. */
  readonly #seen: Uint8Array;
  /** Versions that are there. */
  versions = 0;
  /** Of these and of ends, those that cannot be compared, since their records were erased. */
  unknown = 0;

  constructor(options: DeepCatalogOptions) {
    this.#options = options;
    const bytes = Math.ceil(options.size / 8);
    this.#made = new Uint8Array(bytes);
    this.#ended = new Uint8Array(bytes);
    this.#seen = new Uint8Array(bytes);
  }

  /** Compares what one record says; null: it was erased. */
  async visit(index: number, fields: RecordFields | null): Promise<void> {
    if (fields?.version !== undefined) await this.#visitVersion(index, fields);
    if (fields?.supersedes !== undefined) await this.#visitEnd(index, fields.supersedes);
  }

  /** Once all records were visited: what is left is what none of them tells of. */
  async finish(): Promise<void> {
    await this.#findUntoldVersions();
    await this.#findUntoldEnds();
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
    setBit(this.#made, index);
    const wrong = compare(row, fields);
    if (wrong) this.#tell(nameOf(fields, index), `its ${wrong} is not that of its record`);
    if (row.supersededSeq === bySeq) return;
    const [says, known] = [row.supersededSeq, bySeq].map((seq) => seq ?? 'nothing');
    this.#tell(
      nameOf(fields, index),
      `its row was ended by ${says}, and the catalog knows ${known}`,
    );
  }

  async #visitEnd(index: number, seq: number): Promise<void> {
    const bySeq = await this.#endOf(seq);
    if (bySeq === index) return setBit(this.#ended, seq);
    const what = bySeq === null ? 'the catalog has it as never ended' : `it was ended by ${bySeq}`;
    this.#tell(`version ${seq}`, `record ${index} ended it, and ${what}`);
  }

  async #findUntoldVersions(): Promise<void> {
    const { read } = this.#options;
    for (let after: Place = { bucketId: -1, key: '', seq: -1 }; ; ) {
      const rows = await read.all<Place>(
        `SELECT bucket_id AS bucketId, key, seq FROM versions WHERE (bucket_id, key, seq) > (?, ?, ?)
           ORDER BY bucket_id, key, seq LIMIT ?`,
        ...[after.bucketId, after.key, after.seq],
        rowsPerPage,
      );
      const last = rows.at(-1);
      if (!last) return;
      for (const row of rows) await this.#visitRow(row);
      after = last;
    }
  }

  async #visitRow(row: Place): Promise<void> {
    const { key, seq } = row;
    this.versions++;
    const where = `version ${seq} of ${key}`;
    if (hasBit(this.#seen, seq)) return this.#tell(where, 'another row has its number');
    if (seq >= 0 && seq < this.#options.size) setBit(this.#seen, seq);
    if (hasBit(this.#made, seq)) return;
    const record = await this.#options.store.readRecord(seq);
    if (record?.opened === null) this.unknown++;
    else if (!(await this.#isLeftOver(row, record))) this.#tell(where, 'no record made it');
  }

  /** Of a bucket that is gone, and maybe another has its name: there until it is swept. */
  async #isLeftOver({ bucketId, key, seq }: Place, record?: KeptRecord): Promise<boolean> {
    const bucket = await this.#options.read.get('SELECT 1 FROM buckets WHERE id = ?', bucketId);
    const fields = JSON.parse(record?.opened?.record ?? '{}') as Partial<RecordFields>;
    return !bucket && fields.version === seq && fields.key === key;
  }

  async #findUntoldEnds(): Promise<void> {
    const { read } = this.#options;
    for (let afterSeq = -1; ; ) {
      const sql = 'SELECT seq, by_seq AS bySeq FROM superseded WHERE seq > ? ORDER BY seq LIMIT ?';
      const rows = await read.all<{ seq: number; bySeq: number }>(sql, afterSeq, rowsPerPage);
      const last = rows.at(-1);
      if (!last) return;
      for (const { seq, bySeq } of rows) {
        if (hasBit(this.#ended, seq)) continue;
        if (await this.#isErased(bySeq)) this.unknown++;
        else this.#tell(`version ${seq}`, `it was ended by record ${bySeq}, which does not say so`);
      }
      afterSeq = last.seq;
    }
  }

  async #isErased(index: number): Promise<boolean> {
    const record = await this.#options.store.readRecord(index);
    return record?.opened === null;
  }

  /** The record that ended a version; null: none, as far as the catalog knows. */
  async #endOf(seq: number): Promise<number | null> {
    const sql = 'SELECT by_seq AS bySeq FROM superseded WHERE seq = ?';
    return (await this.#options.read.get<{ bySeq: number }>(sql, seq))?.bySeq ?? null;
  }

  async #findVersion(fields: RecordFields, seq: number): Promise<VersionRow | undefined> {
    const bucketId = await this.#bucketOf(fields);
    if (bucketId === undefined || fields.key === undefined) return undefined;
    return this.#options.read.get<VersionRow>(
      `SELECT superseded_seq AS supersededSeq, size, etag, sha256, class FROM versions
         WHERE bucket_id = ? AND key = ? AND seq = ?`,
      bucketId,
      fields.key,
      seq,
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

/** What of a version is not what its record says; undefined: nothing. */
function compare(row: VersionRow, fields: RecordFields): string | undefined {
  const { sha256 } = row;
  if (row.size !== fields.size) return 'size';
  if (row.etag !== fields.etag) return 'ETag';
  if (row.class !== fields.class) return 'class';
  const isSame = (sha256 && Buffer.from(sha256).toString('hex')) === (fields.sha256 ?? null);
  return isSame ? undefined : 'SHA-256';
}

function nameOf({ key }: RecordFields, seq: number): string {
  return `version ${seq} of ${key}`;
}

function hasBit(bits: Uint8Array, place: number): boolean {
  return ((bits[Math.floor(place / 8)] ?? 0) & (1 << (place % 8))) !== 0;
}

function setBit(bits: Uint8Array, place: number): void {
  const at = Math.floor(place / 8);
  bits[at] = (bits[at] ?? 0) | (1 << (place % 8));
}
