// Records by their index, wherever they are: in the database while they are new, in packs of the
// archive when they are old. The one place where a record is read by index. Invariants: what comes
// out of the archive, and every text that is given by itself, is what the record's commitment says;
// whole records out of the database are not compared here, but by who shows them
// (shown-records.ts).
import type { Reader } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import {
  type ArchivedTile,
  decodeLeaves,
  findPart,
  type KeptLeaf,
  type PackedPart,
  readArchivedTile,
  saltOf,
} from './archive/archived-tiles.ts';
import { openPacked, type PackedRecord, parsePart } from './archive/pack.ts';
import { commitTo, isRecorded, recordContent, textOfContent } from './leaf.ts';
import { tileWidth } from './log/merkle.ts';

export interface KeptRecord {
  index: number;
  /** When it was made; of one that was erased in the archive, when the first of its tile was. */
  timeMs: number;
  /** The tenant of the requester. */
  tenant: string;
  /** The tenant of the bucket, where that is another one. */
  bucketTenant: string | null;
  /** The pseudonyms of these tenants in the log. */
  pseudonyms: Pick<KeptLeaf, 'tenant' | 'bucketTenant'>;
  /** SHA-256 of salt and record, as the log shows it. */
  commitment: Buffer;
  /** null: it was erased, or it is in the archive and was not wanted. */
  opened: OpenedRecord | null;
}

/** It is not what was recorded. */
export class AlteredRecord extends IntegrityError {
  readonly index: number;

  constructor(index: number, what = 'is not what was recorded') {
    super(`record ${index} ${what}`, { kind: 'record' });
    this.index = index;
  }
}

/** The text of a record, and what belongs to it. */
export interface KeptText {
  index: number;
  isAltered?: boolean;
  /** null: it was erased, or altered. */
  opened: Pick<OpenedRecord, 'record'> | null;
}

/**
 * Says whether records of these tenants are wanted. The archive's store is not asked for records of
 * others.
 */
export type IsWanted = (whose: Pick<KeptRecord, 'tenant' | 'bucketTenant'>) => boolean;

const anybodys: IsWanted = () => true;

export interface OpenedRecord extends PackedRecord {
  salt: Buffer;
}

/** Reads a part of a pack out of its store. Throws what the store throws. */
export type ReadPart = (part: PackedPart) => Promise<Uint8Array>;

/** They take some 60 KB each. */
const tilesKeptMax = 16;

interface KnownTile {
  leaves: KeptLeaf[];
  /** null: no record of it was wanted yet. */
  opened: Promise<OpenTile> | null;
}

interface OpenTile {
  nonce: Buffer;
  /** The records as they lie in the pack. */
  sealed: Buffer[];
}

export class RecordStore {
  readonly #read: Reader;
  readonly #readPart: ReadPart;
  /** The tiles that were asked for last. */
  readonly #tiles = new Map<number, KnownTile>();

  constructor(read: Reader, readPart: ReadPart) {
    this.#read = read;
    this.#readPart = readPart;
  }

  /**
   * undefined: there is none yet. Throws IntegrityError for one that the archive does not give
   * back, and `Refusal` ServiceUnavailable or SlowDown when its store cannot be read now.
   */
  async readRecord(index: number, isWanted = anybodys): Promise<KeptRecord | undefined> {
    const row = await this.#read.get<RecordRow>(`${select} WHERE records.idx = ?`, index);
    if (row) return recordOf(row);
    const tile = await readArchivedTile(this.#read, Math.floor(index / tileWidth));
    return tile && this.#readArchived(tile, index, isWanted);
  }

  /** Reads up to `max` records from index `from` on, without gaps. Throws as `readRecord` does. */
  async readRun(from: number, max: number, isWanted = anybodys): Promise<KeptRecord[]> {
    const run: KeptRecord[] = [];
    for (let index = from; index < from + max; ) {
      const number = Math.floor(index / tileWidth);
      const end = Math.min((number + 1) * tileWidth, from + max);
      const sql = `${select} WHERE records.idx >= ? AND records.idx < ? ORDER BY records.idx`;
      const rows = await this.#read.all<RecordRow>(sql, index, end);
      for (const row of rows) {
        if (row.index === from + run.length) run.push(recordOf(row));
      }
      // A tile moves as a whole, and never back.
      const tile = rows.length > 0 ? undefined : await readArchivedTile(this.#read, number);
      for (let i = index; tile && i < end; i++) {
        run.push(await this.#readArchived(tile, i, isWanted));
      }
      if (run.length < end - from) break;
      index = end;
    }
    return run;
  }

  /**
   * The text of a record, which is what its leaf commits to; undefined: it was erased, or is not
   * there. Throws as `readRecord`, and IntegrityError for any other text, wherever it is.
   */
  async readText(index: number): Promise<string | undefined> {
    const row = await this.#read.get<Pick<RecordRow, 'commitment' | 'salt' | 'record'>>(
      'SELECT commitment, salt, record FROM records WHERE idx = ?',
      index,
    );
    if (!row) return (await this.readRecord(index))?.opened?.record;
    const { commitment, salt, record } = row;
    if (!salt && (await this.wasErased(index))) return undefined;
    if (salt && isRecorded(index, { commitment, salt, record })) return record;
    throw new AlteredRecord(index);
  }

  /** Returns whether the record of an erasure says that it erased this one. */
  async wasErased(index: number): Promise<boolean> {
    return (await this.#read.get('SELECT 1 FROM erasures WHERE idx = ?', index)) !== undefined;
  }

  /**
   * Reads, of `max` indexes from `from` on, the texts of those records that are there. Throws as
   * `readRecord` does.
   */
  async readTexts(from: number, max: number): Promise<KeptText[]> {
    const rows = await this.#read.all<{ index: number; content: Buffer | null }>(
      `SELECT idx AS "index", ${recordContent} AS content FROM records
        WHERE idx >= ? AND idx < ? ORDER BY idx`,
      from,
      from + max,
    );
    // Looked at afterwards: they may be archived at any time, and never come back.
    const oldest = await this.#read.get<{ idx: number }>('SELECT min(idx) AS idx FROM records');
    if (from < (oldest?.idx ?? 0)) return this.#readArchivedTexts(from, max);
    const texts: KeptText[] = [];
    for (const { index, content } of rows) {
      const record = content ? textOfContent(index, content) : undefined;
      const isAltered =
        record === undefined && (content !== null || !(await this.wasErased(index)));
      texts.push({ index, isAltered, opened: record === undefined ? null : { record } });
    }
    return texts;
  }

  /**
   * The same, of those in the database as they lie there: whoever shows one reads it by `readText`.
   * null: it was erased, or altered.
   */
  async readRawTexts(from: number, max: number): Promise<{ index: number; text: string | null }[]> {
    const rows = await this.#read.all<{ index: number; text: string | null }>(
      `SELECT idx AS "index", iif(salt IS NULL, NULL, record) AS text FROM records
        WHERE idx >= ? AND idx < ? ORDER BY idx`,
      from,
      from + max,
    );
    const oldest = await this.#read.get<{ idx: number }>('SELECT min(idx) AS idx FROM records');
    if (from >= (oldest?.idx ?? 0)) return rows;
    const texts = await this.#readArchivedTexts(from, max);
    return texts.map(({ index, opened }) => ({ index, text: opened?.record ?? null }));
  }

  /** Reads them one by one where one of them is not what was recorded. */
  async #readArchivedTexts(from: number, max: number): Promise<KeptText[]> {
    try {
      return (await this.readRun(from, max)).map(textOf);
    } catch (cause) {
      if (!(cause instanceof AlteredRecord)) throw cause;
    }
    const texts: KeptText[] = [];
    for (let index = from; index < from + max; index++) {
      try {
        const kept = await this.readRecord(index);
        if (!kept) break;
        texts.push(textOf(kept));
      } catch (cause) {
        if (!(cause instanceof AlteredRecord)) throw cause;
        texts.push({ index, isAltered: true, opened: null });
      }
    }
    return texts;
  }

  async #readArchived(tile: ArchivedTile, index: number, isWanted: IsWanted): Promise<KeptRecord> {
    const knownTile = this.#know(tile);
    const place = index % tileWidth;
    const { commitment, ...pseudonyms } = knownTile.leaves[place] as KeptLeaf;
    const { tenant, bucketTenant } = pseudonyms;
    const known = {
      ...{ index, pseudonyms, commitment },
      tenant: await this.#nameOf(tenant),
      bucketTenant: bucketTenant === null ? null : await this.#nameOf(bucketTenant),
    };
    // The salt that the database has now: the record may have been erased since the tile was
    // opened.
    const salt = saltOf(tile, index);
    if (!salt || !isWanted(known)) return { ...known, timeMs: tile.timeMs, opened: null };
    const { sealed, nonce } = await this.#open(tile, knownTile);
    const packed = openPacked(sealed[place] as Buffer, { salt, nonce });
    if (!packed || !commitTo(salt, packed.record).equals(commitment)) {
      throw new AlteredRecord(index, 'in the archive is not what was recorded');
    }
    const { time } = JSON.parse(packed.record) as { time: string };
    return { ...known, timeMs: Date.parse(time), opened: { ...packed, salt } };
  }

  async #nameOf(pseudonym: string): Promise<string> {
    const sql = 'SELECT tenant FROM log_tenants WHERE pseudonym = ?';
    const row = await this.#read.get<{ tenant: string }>(sql, pseudonym);
    if (row) return row.tenant;
    throw new IntegrityError(`no tenant has the pseudonym ${pseudonym}`);
  }

  #know(tile: ArchivedTile): KnownTile {
    const { index, leaves } = tile;
    const known = this.#tiles.get(index) ?? { leaves: decodeLeaves(leaves), opened: null };
    this.#tiles.delete(index);
    this.#tiles.set(index, known);
    const [oldest] = this.#tiles.keys();
    if (this.#tiles.size > tilesKeptMax && oldest !== undefined) this.#tiles.delete(oldest);
    return known;
  }

  /** A pack that cannot be opened now is tried again when it is next wanted. */
  async #open(tile: ArchivedTile, known: KnownTile): Promise<OpenTile> {
    known.opened ??= this.#openTile(tile);
    try {
      return await known.opened;
    } catch (cause) {
      known.opened = null;
      throw cause;
    }
  }

  async #openTile(tile: ArchivedTile): Promise<OpenTile> {
    const part = await findPart(this.#read, tile.index);
    if (!part) throw new IntegrityError(`no pack has tile ${tile.index} of the records`);
    const sealed = parsePart(await this.#readPart(part));
    if (!sealed) throw new IntegrityError(`tile ${tile.index} of the archived records is damaged`);
    return { nonce: part.nonce, sealed };
  }
}

function textOf(kept: KeptRecord): KeptText {
  const isAltered = !fits(kept);
  return { index: kept.index, isAltered, opened: isAltered ? null : kept.opened };
}

/**
 * Returns whether the record is what its leaf commits to, and belongs to the tenants that its row
 * names, since these decide who may see it. A record that was not opened here is not judged.
 */
export function fits({ index, tenant, bucketTenant, commitment, opened }: KeptRecord): boolean {
  if (!opened) return true;
  if (!isRecorded(index, { commitment, ...opened })) return false;
  const said = JSON.parse(opened.record) as { tenant: string; bucketTenant?: string };
  return said.tenant === tenant && (said.bucketTenant ?? null) === bucketTenant;
}
const select = `SELECT records.idx AS "index", time_ms AS timeMs, records.tenant,
    bucket_tenant AS bucketTenant, own.pseudonym, other.pseudonym AS bucketPseudonym, commitment,
    salt, record, evidence
  FROM records
  JOIN log_tenants AS own ON own.tenant = records.tenant
  LEFT JOIN log_tenants AS other ON other.tenant = records.bucket_tenant
  LEFT JOIN evidence ON evidence.idx = records.idx`;

interface RecordRow extends Omit<KeptRecord, 'pseudonyms' | 'opened'> {
  pseudonym: string;
  bucketPseudonym: string | null;
  salt: Buffer | null;
  record: string;
  evidence: string | null;
}

function recordOf(row: RecordRow): KeptRecord {
  const { index, timeMs, tenant, bucketTenant, commitment, salt, record, evidence } = row;
  return {
    ...{ index, timeMs, tenant, bucketTenant, commitment },
    pseudonyms: { tenant: row.pseudonym, bucketTenant: row.bucketPseudonym },
    opened: salt && { salt, record, evidence },
  };
}
