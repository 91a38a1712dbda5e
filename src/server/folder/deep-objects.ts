// `bursar verify deep`, of the index of objects: does it lead to every object by all that the
// object says? Objects whose changes it has not followed yet are left out, so that a gateway may
// run meanwhile. An index that is being made, or is not there, has nothing to be compared; nor has
// one of another log, which is made anew at the next start.
import { existsSync } from 'node:fs';
import { changeOf } from '../../audit/changes/object-change.ts';
import { readLogSize } from '../../audit/log/stored-tiles.ts';
import type { RecordStore } from '../../audit/record-store.ts';
import type { Difference } from '../../audit/verify/record-fields.ts';
import { openDatabase, type Reader } from '../../core/database.ts';
import {
  type IndexedVersion,
  indexedColumns,
  isOfLog,
  leadsTo,
  readMetadata,
  readState,
} from '../../search/object-index.ts';
import { type IndexedMetadata, postingsOf } from '../../search/postings.ts';

export interface DeepObjects {
  indexPath: string;
  /** The catalog and the log. */
  read: Reader;
  openStore: (read: Reader) => Pick<RecordStore, 'readTexts'>;
  tell: (difference: Difference) => void;
  onProgress: (count: number) => void;
}

const cacheKib = 16 * 1024;
const objectsAtOnce = 500;
const recordsAtOnce = 500;
/** Objects that are told of; beyond that the index is wrong as a whole. */
const toldMax = 1000;

/** What its row says of an object, and whose it is. */
type Row = IndexedVersion & { tenant: string; bucket: string };

/** Gives how many objects were compared. */
export async function compareObjectIndex(options: DeepObjects): Promise<number> {
  const { indexPath, read, tell, onProgress } = options;
  if (!existsSync(indexPath)) return 0;
  try {
    using index = openDatabase(indexPath, { readonly: true, cacheKib });
    const state = await readState(index.tx);
    if (state.scan || !(await isOfLog(read, state))) return 0;
    const metadata = await readMetadata(index.tx);
    const wrong: Row[] = [];
    let count = 0;
    for (let at = { bucketId: 0, key: '' }; wrong.length < toldMax; ) {
      const rows = await readRows(read, at);
      for (const row of rows) if (!(await isLedTo(index.tx, metadata, row))) wrong.push(row);
      count += rows.length;
      onProgress(count);
      const last = rows.at(-1);
      if (!last || rows.length < objectsAtOnce) break;
      at = last;
    }
    // What is followed from here on is left out below, whether before or after it is read again.
    const { through } = await readState(index.tx);
    const stillWrong: Row[] = [];
    for (const place of wrong) {
      const row = await readRow(read, place);
      if (row && !(await isLedTo(index.tx, metadata, row))) stillWrong.push(row);
    }
    const pending = stillWrong.length === 0 ? new Set() : await readPending(options, through);
    for (const row of stillWrong) if (!pending.has(nameOf(row))) tell(missing(row));
    return count;
  } catch (cause) {
    tell({ where: 'objects.db', what: `the index of objects cannot be read: ${String(cause)}` });
    return 0;
  }
}

function missing(row: Row): Difference {
  const what = `does not lead to ${nameOf(row)} by all that it says`;
  return { where: 'objects.db', what: `the index of objects ${what}` };
}

const select = `SELECT ${indexedColumns}, b.tenant AS tenant, b.name AS bucket FROM versions AS v
  JOIN (SELECT id, tenant, name FROM buckets) AS b ON b.id = v.bucket_id`;

function readRows(read: Reader, { bucketId, key }: Pick<Row, 'bucketId' | 'key'>): Promise<Row[]> {
  return read.all<Row>(
    `${select} WHERE (v.bucket_id, v.key) > (?, ?) ORDER BY v.bucket_id, v.key LIMIT ?`,
    ...[bucketId, key, objectsAtOnce],
  );
}

function readRow(read: Reader, { bucketId, key }: Row): Promise<Row | undefined> {
  return read.get<Row>(`${select} WHERE v.bucket_id = ? AND v.key = ?`, bucketId, key);
}

function isLedTo(index: Reader, metadata: IndexedMetadata, row: Row): Promise<boolean> {
  return leadsTo(index, row, row.isMarker ? null : postingsOf(row, metadata));
}

/** Objects that records changed from this index on. */
async function readPending({ read, openStore }: DeepObjects, from: number): Promise<Set<string>> {
  const pending = new Set<string>();
  const records = openStore(read);
  const size = await readLogSize(read);
  for (let at = from; at < size; ) {
    const texts = await records.readTexts(at, Math.min(recordsAtOnce, size - at));
    if (texts.length === 0) break;
    for (const { opened } of texts) {
      const change = opened && changeOf(opened.record);
      if (change) pending.add(nameOf(change));
    }
    at += texts.length;
  }
  return pending;
}

function nameOf({ tenant, bucket, key }: Pick<Row, 'tenant' | 'bucket' | 'key'>): string {
  return `${tenant}:${bucket}/${key}`;
}
