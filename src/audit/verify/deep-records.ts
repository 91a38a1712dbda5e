// The records of a database against the log above them, and both against checkpoints that were
// signed. Invariants: each record is met once, in order, and every difference is told; the tree is
// built once more from the records, and is believed only as far as a signed checkpoint has the same
// root: what was altered together with all tiles is found by a checkpoint, and by nothing else.
import { canonicalize } from '../../core/canonical-json.ts';
import type { Reader, Tx } from '../../core/database.ts';
import { IntegrityError, Refusal } from '../../core/errors.ts';
import { countArchivedTiles } from '../archive/archived-tiles.ts';
import { PackFailure, PackSkipped } from '../archive/pack-failure.ts';
import { hashEvidence } from '../evidence.ts';
import { commitTo, renderLeaf } from '../leaf.ts';
import type { Checkpoint } from '../log/checkpoint.ts';
import { LogAppender, type SavedEdge } from '../log/log-appender.ts';
import { hashBytes, hashLeaf, rootOf, tileWidth } from '../log/merkle.ts';
import { readLogSize, storedTiles } from '../log/stored-tiles.ts';
import type { IsWanted, KeptRecord, RecordStore } from '../record-store.ts';
import { guarded, messageOfError } from './guard.ts';
import { type Difference, type RecordFields, readFields } from './record-fields.ts';

export interface DeepRecordsOptions {
  /** A reader that sees one state of the database while a slice is visited. */
  read: Reader;
  store: RecordStore;
  /** Signed, of this log. */
  checkpoints: readonly (Checkpoint & { from: string })[];
  tell: (difference: Difference) => void;
  /** Each record that can be read. */
  onRecord: (index: number, fields: RecordFields) => Promise<void>;
  /**
   * Called for one that was erased or cannot be read. Null means that nobody knows whose it was.
   */
  onUnread: (index: number, whose: Whose) => Promise<void>;
  /**
   * Called for the tenants of a record that is silent or is not what it was. Null means that nobody
   * knows whose it was.
   */
  onSilent: (whose: Whose) => Promise<void>;
}

type Whose = Pick<KeptRecord, 'tenant' | 'bucketTenant'> | null;

/** How far a walk has come, as plain data. */
export interface RecordsProgress {
  /** The first record that was not visited. */
  next: number;
  /** The number of visited records that were erased. */
  erased: number;
  /** And of these, in packs that were not read: their leaves alone were compared. */
  unread: number;
  timeMs: number;
  lost: Lost | null;
  tree: { edge: SavedEdge[]; tiles: number };
}

/** Records in a row that cannot be read for the same reason. */
interface Lost {
  from: number;
  to: number;
  what: string;
}

/**
 * Records that the log has. One that is far behind all that is there is none of them, and is told:
 * who goes through all indexes before it would not come to an end.
 */
export async function readPlausibleSize(
  read: Reader,
  tell: DeepRecordsOptions['tell'],
): Promise<number> {
  const size = await readLogSize(read);
  const counted = await read.get<{ count: number }>(
    'SELECT count(*) AS count FROM log_tiles WHERE level = 0',
  );
  const most = tileWidth * ((counted?.count ?? 0) + 1);
  if (size <= most) return size;
  // Of a log that lacks tiles.
  const stored = await read.get<{ records: number; tiles: number }>(
    `SELECT (SELECT count(*) FROM records) AS records,
       (SELECT count(*) FROM archived_tiles) AS tiles`,
  );
  const room = most + (stored?.records ?? 0) + tileWidth * (stored?.tiles ?? 0);
  if (size <= room) return size;
  tell({ where: `record ${size - 1}`, what: `it is far behind the ${room} that there can be` });
  const last = await read.get<{ idx: number | null }>(
    'SELECT max(idx) AS idx FROM records WHERE idx < ?',
    room,
  );
  return (last?.idx ?? -1) + 1;
}

/** Names what is stored at places where no record can be. */
async function findStrays(
  { read, tell }: Pick<DeepRecordsOptions, 'read' | 'tell'>,
  size: number,
): Promise<void> {
  const archived = (await countArchivedTiles(read)) * tileWidth;
  const sql = 'SELECT idx FROM records WHERE idx < ? ORDER BY idx LIMIT 1';
  const stray = await read.get<{ idx: number }>(sql, archived);
  if (stray) {
    const what = 'it is in the database, though its tile is in the archive';
    tell({ where: `record ${stray.idx}`, what });
  }
  const behind = await read.get<{ idx: number }>(
    'SELECT idx FROM evidence WHERE idx < 0 OR idx >= ? LIMIT 1',
    size,
  );
  if (behind) tell({ where: `evidence ${behind.idx}`, what: 'there is no such record' });
}

const nobodys: IsWanted = () => false;

/** Goes through all records, a tile at a time. */
export class DeepRecords {
  erased = 0;
  unread = 0;
  readonly #tree: SecondTree;
  readonly #options: DeepRecordsOptions;
  #timeMs = 0;
  /** What is lost, as far as the walk has come. */
  #lost: Lost | null = null;

  /** `progress`: of a walk that this one goes on with. */
  constructor(options: DeepRecordsOptions, progress?: RecordsProgress) {
    this.#options = options;
    this.#tree = new SecondTree(options.read, options.tell, progress);
    if (!progress) return;
    this.erased = progress.erased;
    this.unread = progress.unread;
    this.#timeMs = progress.timeMs;
    this.#lost = progress.lost;
  }

  /** The first record that was not visited. */
  get next(): number {
    return this.#tree.size;
  }

  save(): RecordsProgress {
    const { erased, unread, next } = this;
    const tree = this.#tree.save();
    return { next, erased, unread, timeMs: this.#timeMs, lost: this.#lost, tree };
  }

  /** Must be called when `read` sees another state from now on. */
  forgetRows(): void {
    this.#tree.forgetRows();
  }

  /**
   * Compares what was signed of records that an earlier run has visited, by the tiles that it did.
   */
  async comparePassed(): Promise<void> {
    const { read, checkpoints, tell } = this.#options;
    for (const { size, root, from } of checkpoints) {
      if (size === 0 || size > this.next) continue;
      await guarded(tell, from, async () => {
        if (!(await rootOf(storedTiles(read), size)).equals(root)) this.#tellSigned(from, size);
      });
    }
  }

  /** The rest of the next tile, of a log with `size` records. */
  async advance(size: number): Promise<void> {
    const from = this.next;
    const to = Math.min(from - (from % tileWidth) + tileWidth, size);
    await guarded(this.#options.tell, `records ${from} to ${to - 1}`, () => this.#visit(from, to));
    if (this.next < to) await this.#tree.skip(to - this.next);
  }

  /** Once all were visited. */
  async finish(size: number): Promise<void> {
    const { tell, checkpoints } = this.#options;
    this.#tellLost();
    for (const { size: signed, from } of checkpoints) {
      if (signed <= size) continue;
      tell({ where: from, what: `${signed} records were signed, and ${size} are here` });
    }
    await findStrays(this.#options, size);
    await this.#tree.close();
  }

  async #visit(from: number, to: number): Promise<void> {
    let told: string | undefined;
    for (let index = from; index < to; ) {
      const { run, failure } = await this.#readRun(index, to - index);
      for (const record of run) await this.#meet(record);
      index += run.length;
      if (index === to) return;
      const isUnread = failure instanceof PackFailure || failure instanceof PackSkipped;
      if (isUnread || failure instanceof Refusal) {
        return this.#visitUnread(index, to, failure);
      }
      const damage = failure === undefined ? undefined : messageOfError(failure);
      // The same twice is said of the tile, not of a record.
      if (damage !== undefined && damage === told) return this.#skip(index, to);
      this.#tell(index, damage ?? 'it is missing');
      if (failure) await this.#skip(index, index + 1);
      else {
        await this.#tree.skip(1);
        await this.#options.onSilent(null);
      }
      told = damage;
      index++;
    }
  }

  #tellLost(): void {
    if (!this.#lost) return;
    const { from, to, what } = this.#lost;
    this.#lost = null;
    this.#options.tell({ where: `records ${from} to ${to - 1}`, what });
  }

  /** One that cannot be compared at all is told, too, and has its place in the tree. */
  async #meet(record: KeptRecord): Promise<void> {
    const { index } = record;
    await guarded(this.#options.tell, `record ${index}`, () => this.#visitRecord(record));
    if (this.#tree.size === index) await this.#tree.skip(1);
    this.#compareCheckpoints();
  }

  /** For records in a pack that is not read, the database has the leaves. */
  async #visitUnread(from: number, to: number, failure: Error): Promise<void> {
    this.unread += to - from;
    if (!(failure instanceof PackSkipped)) this.#lose(from, to, failure.message);
    for (const record of await this.#options.store.readRun(from, to - from, nobodys)) {
      await this.#visitLeaf(record);
      await this.#options.onUnread(record.index, record);
      await this.#options.onSilent(record);
      this.#compareCheckpoints();
    }
  }

  #lose(from: number, to: number, what: string): void {
    if (this.#lost?.to === from && this.#lost.what === what) this.#lost.to = to;
    else {
      this.#tellLost();
      this.#lost = { from, to, what };
    }
  }

  async #skip(from: number, to: number): Promise<void> {
    await this.#tree.skip(to - from);
    await this.#options.onSilent(null);
    for (let index = from; index < to; index++) await this.#options.onUnread(index, null);
  }

  async #visitLeaf({ index, commitment, pseudonyms }: KeptRecord): Promise<void> {
    const leaf = { ...pseudonyms, commitment: commitment.toString('base64url') };
    await this.#tree.append(hashLeaf(renderLeaf(leaf)), index);
  }

  /** Reads up to the first that cannot be read, and says why that is. */
  async #readRun(from: number, max: number): Promise<{ run: KeptRecord[]; failure?: unknown }> {
    const { store } = this.#options;
    try {
      return { run: await store.readRun(from, max) };
    } catch {
      // Which of them it is of is found below.
    }
    const run: KeptRecord[] = [];
    try {
      while (run.length < max) {
        const record = await store.readRecord(from + run.length);
        if (!record) break;
        run.push(record);
      }
    } catch (failure) {
      return { run, failure };
    }
    return { run };
  }

  async #visitRecord(kept: KeptRecord): Promise<void> {
    const { index, opened, commitment, timeMs } = kept;
    await this.#visitLeaf(kept);
    if (opened === null) {
      // When it was made is known of its tile alone, where that is in the archive.
      this.erased++;
      await this.#checkErasure(index);
      await this.#options.onUnread(index, kept);
      await this.#options.onSilent(kept);
      return;
    }
    if (timeMs < this.#timeMs) this.#tell(index, 'it is older than the record before it');
    this.#timeMs = Math.max(this.#timeMs, timeMs);
    if (!commitTo(opened.salt, opened.record).equals(commitment)) {
      this.#tell(index, 'it is not what its leaf was made of');
      await this.#options.onSilent(kept);
    }
    const fields = this.#parse(index, opened.record);
    if (!fields) {
      await this.#options.onSilent(kept);
      return this.#options.onUnread(index, kept);
    }
    this.#compareColumns(kept, fields);
    await this.#compareEvidence(fields, opened.evidence);
    await this.#options.onRecord(index, fields);
  }

  #parse(index: number, text: string): RecordFields | undefined {
    let value: unknown;
    try {
      value = JSON.parse(text);
      if (canonicalize(value) !== text) this.#tell(index, 'it is not canonical JSON');
    } catch {
      this.#tell(index, 'it is no JSON');
      return undefined;
    }
    const fields = readFields(value);
    if (!fields) this.#tell(index, 'it lacks what every record has, or has it in another form');
    else if (fields.index !== index) {
      this.#tell(index, `it says that it is record ${fields.index}`);
    }
    return fields;
  }

  #compareColumns(kept: KeptRecord, { tenant, bucketTenant, time }: RecordFields): void {
    const same =
      kept.tenant === tenant &&
      kept.bucketTenant === (bucketTenant ?? null) &&
      kept.timeMs === Date.parse(time);
    if (!same) this.#tell(kept.index, 'its row says another tenant or time than its text');
  }

  async #compareEvidence(fields: RecordFields, evidence: string | null): Promise<void> {
    const { index, evidenceHash, evidenceAt = index } = fields;
    if (evidenceHash === undefined) {
      if (evidence !== null) this.#tell(index, 'it has evidence that it does not name');
      return;
    }
    const of = evidenceAt === index ? { evidence } : await this.#readOther(evidenceAt);
    // Evidence that was erased with another record of the same request is not there.
    if (of === null || of === 'damaged') return;
    if (of?.evidence && hashEvidence(of.evidence) === evidenceHash) return;
    this.#tell(index, of?.evidence ? 'its evidence is another' : 'its evidence is missing');
  }

  async #checkErasure(index: number): Promise<void> {
    const sql = 'SELECT by_idx AS byIndex FROM erasures WHERE idx = ?';
    const act = await this.#options.read.get<{ byIndex: number }>(sql, index);
    if (!act) return this.#tell(index, 'it was erased, and no record says by whom');
    const by = await this.#readOther(act.byIndex);
    if (by === 'damaged') return;
    const { action, status, change } = JSON.parse(by?.record ?? '{}') as {
      action?: string;
      status?: number;
      change?: { erased?: unknown };
    };
    const erased = action === 'bursar:EraseRecords' && status === 200 ? change?.erased : undefined;
    if (Array.isArray(erased) && erased.includes(index)) return;
    this.#tell(index, `it was erased, and record ${act.byIndex} is not of its erasure`);
  }

  /** What a record says that another names; a damaged one is told when it is met itself. */
  async #readOther(index: number): Promise<KeptRecord['opened'] | undefined | 'damaged'> {
    try {
      return (await this.#options.store.readRecord(index))?.opened;
    } catch (error) {
      if (error instanceof IntegrityError) return 'damaged';
      throw error;
    }
  }

  #compareCheckpoints(): void {
    const { size } = this.#tree;
    for (const { size: signed, root, from } of this.#options.checkpoints) {
      if (signed !== size || this.#tree.root().equals(root)) continue;
      this.#tellSigned(from, size);
    }
  }

  #tellSigned(from: string, size: number): void {
    const what = `the first ${size} records are not those that were signed`;
    this.#options.tell({ where: from, what });
  }

  #tell(index: number, what: string): void {
    this.#options.tell({ where: `record ${index}`, what });
  }
}

const nothing: Reader = { get: async () => undefined, all: async () => [] };

/** The tree once more, whose tiles are compared with those that are stored. */
class SecondTree {
  readonly #read: Reader;
  readonly #tell: DeepRecordsOptions['tell'];
  readonly #tree: LogAppender;
  #tiles = 0;

  constructor(read: Reader, tell: DeepRecordsOptions['tell'], progress?: RecordsProgress) {
    this.#read = read;
    this.#tell = tell;
    this.#tree = LogAppender.resume(nothing, progress?.next ?? 0, progress?.tree.edge ?? []);
    this.#tiles = progress?.tree.tiles ?? 0;
  }

  save(): RecordsProgress['tree'] {
    return { edge: this.#tree.saveEdge(), tiles: this.#tiles };
  }

  forgetRows(): void {
    this.#tile = undefined;
  }

  get size(): number {
    return this.#tree.size;
  }

  root(): Buffer {
    return this.#tree.root();
  }

  async append(leafHash: Buffer, index: number): Promise<void> {
    const stored = await this.#storedHash(index);
    if (stored && !stored.equals(leafHash)) {
      this.#tell({ where: `record ${index}`, what: 'its leaf is not the one in the tree' });
    }
    await this.#append(leafHash);
  }

  /** Where records are not there, the tree's own hashes are taken. */
  async skip(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      await this.#append((await this.#storedHash(this.size)) ?? Buffer.alloc(hashBytes));
    }
  }

  /** There must be no other tiles than those that were compared. */
  async close(): Promise<void> {
    const all = await this.#read.get<{ count: number }>('SELECT count(*) AS count FROM log_tiles');
    if (all?.count === this.#tiles) return;
    const what = `${all?.count} are stored, and the records make ${this.#tiles}`;
    this.#tell({ where: 'tiles of the log', what });
  }

  async #append(leafHash: Buffer): Promise<void> {
    this.#tree.append(leafHash);
    await this.#tree.flush(this.#comparing);
  }

  /** Takes what would be written of a full tile. */
  readonly #comparing: Tx = {
    ...nothing,
    run: async (_, level, index, root, hashes) => {
      this.#tiles++;
      const sql = 'SELECT root, hashes FROM log_tiles WHERE level = ? AND idx = ?';
      const place = [level as number, index as number] as const;
      const stored = await this.#read.get<{ root: Buffer; hashes: Buffer }>(sql, ...place);
      const where = `tile ${place.join('/')} of the log`;
      if (!stored) this.#tell({ where, what: 'it is missing' });
      else if (!isSame(stored.root, root) || !isSame(stored.hashes, hashes)) {
        this.#tell({ where, what: 'it is not what the records below it make' });
      }
      return { changes: 1, insertedId: 0 };
    },
  };

  /** What a stored tile has of a leaf; undefined: its tile is not full yet. */
  async #storedHash(index: number): Promise<Buffer | undefined> {
    const number = Math.floor(index / tileWidth);
    if (this.#tile?.number !== number) {
      const sql = 'SELECT hashes FROM log_tiles WHERE level = 0 AND idx = ?';
      const row = await this.#read.get<{ hashes: Buffer }>(sql, number);
      this.#tile = { number, hashes: row?.hashes };
    }
    const at = (index % tileWidth) * hashBytes;
    const { hashes } = this.#tile;
    return hashes instanceof Uint8Array && hashes.length === tileWidth * hashBytes
      ? hashes.subarray(at, at + hashBytes)
      : undefined;
  }

  #tile: { number: number; hashes: Buffer | undefined } | undefined;
}

function isSame(stored: unknown, made: unknown): boolean {
  return stored instanceof Uint8Array && Buffer.compare(stored, made as Buffer) === 0;
}
