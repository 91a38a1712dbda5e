// Listings where batches of rows end in awkward places, on a real database.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type ListedObject,
  type ListedUpload,
  type ListedVersion,
  type Listing,
  listObjects,
  listUploads,
  listVersions,
  type Position,
  type VersionListing,
  type VersionPosition,
} from '#bursar/catalog/listing.js';
import { type OpenDatabase, openDatabase, type SqlValue } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';

const bucketId = 1;
let db: OpenDatabase;
/** Of the rows that were added. */
let lastSeq = 0;

beforeEach(() => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  lastSeq = 0;
});
afterEach(() => db.close());

async function addObject(key: string, isMarker = 0): Promise<void> {
  const sql = `INSERT INTO versions VALUES (1, ?, ?, NULL, ?, 0, '', NULL, '', '', 0, '', '{}',
    1, zeroblob(32), zeroblob(32), 0)`;
  await db.tx.run(sql, key, ++lastSeq, isMarker);
}

/** Its number is its id, too. */
async function addOlder(key: string): Promise<void> {
  const sql = `INSERT INTO noncurrent_versions VALUES (1, ?, ?, ?, 0, 0, '', NULL, '', '', 0, '',
    '{}', 1, x'', x'', 0, 0, 0)`;
  await db.tx.run(sql, key, ++lastSeq, String(lastSeq));
}

async function addUpload(key: string, id: string, completed: string | null = null): Promise<void> {
  const sql = "INSERT INTO uploads VALUES (?, 1, ?, 'one/alice', 0, 'STANDARD', '{}', ?, 1, x'')";
  await db.tx.run(sql, id, key, completed);
}

const query = { bucketId, prefix: '', delimiter: '', max: 1000, after: null };

describe('a listing of objects', () => {
  it('holds a batch of rows at a time, however long a page is', async () => {
    for (let i = 0; i < 500; i++) await addObject(`k${i}`);
    const batches: number[] = [];
    const all = async <R>(sql: string, ...values: SqlValue[]) => {
      const rows = await db.tx.all<R>(sql, ...values);
      batches.push(rows.length);
      return rows;
    };
    const { entries } = await listObjects({ ...db.tx, all }, query, ({ key }) => key);
    expect([new Set(entries).size, Math.max(...batches)]).toEqual([500, 128]);
  });

  it('passes a folded prefix of many keys and goes on with what is behind it', async () => {
    for (let i = 0; i < 300; i++) await addObject(`a/${i}`);
    for (let i = 0; i < 40; i++) await addObject(`b${String(i).padStart(2, '0')}`);
    await addObject('c/1');
    await addObject('d');
    const keys = [...Array.from({ length: 40 }, (_, i) => `b${String(i).padStart(2, '0')}`), 'd'];
    for (const max of [1, 2, 3, 17, 42, 43, 1000]) {
      const found: string[] = [];
      let after: Position | null = null;
      do {
        const page: Listing<ListedObject> = await listObjects(
          db.tx,
          { ...query, delimiter: '/', max, after },
          (row) => row,
        );
        found.push(...page.entries.map(({ key }) => key), ...page.prefixes);
        after = page.next;
      } while (after !== null);
      expect(found.sort()).toEqual(['a/', 'c/', ...keys].sort());
    }
  });

  it('has only current objects, and no more than one of a key', async () => {
    for (let i = 0; i < 50; i++) await addOlder('often');
    await addObject('often');
    await addOlder('gone');
    await addObject('gone', 1);
    const { entries, next } = await listObjects(db.tx, query, (row) => row);
    expect([entries.map(({ key }) => key), next]).toEqual([['often'], null]);
  });

  it('passes keys under markers, however many, and folds none of them', async () => {
    for (let i = 0; i < 2500; i++) await addObject(`m/${i}`, 1);
    for (const key of ['a', 'm/a', 'n/1', 'z']) await addObject(key);
    for (const max of [1, 2, 5]) {
      const found: string[] = [];
      let after: Position | null = null;
      do {
        const page: Listing<ListedObject> = await listObjects(
          db.tx,
          { ...query, delimiter: '/', max, after },
          (row) => row,
        );
        found.push(...page.entries.map(({ key }) => key), ...page.prefixes);
        after = page.next;
      } while (after !== null);
      expect(found.sort()).toEqual(['a', 'm/', 'n/', 'z']);
    }
    await db.tx.run("DELETE FROM versions WHERE key IN ('m/a', 'z')");
    const { entries, prefixes } = await listObjects(
      db.tx,
      { ...query, delimiter: '/' },
      (row) => row,
    );
    expect([entries.map(({ key }) => key), prefixes]).toEqual([['a'], ['n/']]);
  });

  it('of a position before the prefix begins with the prefix; behind it is empty', async () => {
    for (const key of ['a/1', 'b/1', 'b/2', 'c/1']) await addObject(key);
    const keysAfter = async (after: Position) => {
      const { entries } = await listObjects(db.tx, { ...query, prefix: 'b/', after }, (row) => row);
      return entries.map(({ key }) => key);
    };
    expect(await keysAfter({ kind: 'key', text: 'a' })).toEqual(['b/1', 'b/2']);
    expect(await keysAfter({ kind: 'prefix', text: 'a' })).toEqual(['b/1', 'b/2']);
    expect(await keysAfter({ kind: 'key', text: 'b/1' })).toEqual(['b/2']);
    expect(await keysAfter({ kind: 'key', text: 'c' })).toEqual([]);
    expect(await keysAfter({ kind: 'prefix', text: 'b/' })).toEqual([]);
    expect(await keysAfter({ kind: 'prefix', text: '\u{10ffff}' })).toEqual([]);
  });

  it('of no entries is empty and says that there is no more', async () => {
    await addObject('a');
    const page: Listing<ListedObject> = await listObjects(
      db.tx,
      { ...query, max: 0 },
      (row) => row,
    );
    expect(page).toEqual({ entries: [], prefixes: [], next: null });
  });
});

describe('a listing of uploads', () => {
  it('goes on inside a key where a batch of rows ended', async () => {
    const ids = Array.from({ length: 60 }, (_, i) => `id-${String(i).padStart(3, '0')}`);
    for (const id of ids) await addUpload('many', id);
    for (let i = 0; i < 30; i++) await addUpload('a/folded', `folded-${i}`);
    await addUpload('many', 'id-999-done', '{}');
    for (const max of [61, 30, 7, 1]) {
      const found: string[] = [];
      let after: Position | null = null;
      let afterId: string | null = null;
      do {
        const asked = { ...query, delimiter: '/', max, after, afterId };
        const page: Listing<ListedUpload> = await listUploads(db.tx, asked, (row) => row);
        found.push(...page.prefixes, ...page.entries.map(({ id }) => id));
        after = page.next;
        afterId = page.next?.kind === 'key' ? (page.entries.at(-1)?.id ?? null) : null;
      } while (after !== null);
      expect(found).toEqual(['a/', ...ids]);
    }
  });

  it('after a key without an id begins behind all of the key', async () => {
    await addUpload('a', 'id-1');
    await addUpload('a', 'zzz');
    await addUpload('b', 'id-2');
    const after = { kind: 'key', text: 'a' } as const;
    const asked = { ...query, after, afterId: null };
    const { entries } = await listUploads(db.tx, asked, (row) => row);
    expect(entries.map(({ id }) => id)).toEqual(['id-2']);
  });
});

describe('a listing of versions', () => {
  async function listAll(given: Partial<Parameters<typeof listVersions>[1]>, max: number) {
    const found: string[] = [];
    let pages = 0;
    let after: VersionPosition | null = null;
    do {
      const page: VersionListing<ListedVersion> = await listVersions(
        db.tx,
        { ...query, ...given, max, after },
        (row) => row,
      );
      found.push(...page.entries.map(({ key, seq, isLatest }) => `${key} ${seq} ${isLatest}`));
      found.push(...page.prefixes);
      after = page.next;
      pages++;
    } while (after !== null);
    return { found, pages };
  }

  it('has the versions of each key from the newest down, over any number of pages', async () => {
    const wanted: string[] = [];
    for (const key of ['a', 'b', 'c']) {
      const older: string[] = [];
      const first = lastSeq + 1;
      for (let i = 0; i < 7; i++) await addOlder(key);
      for (let seq = first; seq < first + 7; seq++) older.unshift(`${key} ${seq} 0`);
      await addObject(key, key === 'b' ? 1 : 0);
      wanted.push(`${key} ${lastSeq} 1`, ...older);
    }
    for (const max of [1, 3, 8, 9, 24, 1000]) {
      const { found, pages } = await listAll({}, max);
      expect(found).toEqual(wanted);
      expect(pages).toBe(Math.ceil(24 / max));
    }
  });

  it('goes on behind a version that is gone with all that are left of its key', async () => {
    for (let i = 0; i < 5; i++) await addOlder('a');
    await addObject('a');
    await addObject('b');
    const { next } = await listVersions(db.tx, { ...query, max: 3 }, (row) => row);
    expect(next).toEqual({ key: 'a', versionId: String(lastSeq - 3) });
    await db.tx.run('DELETE FROM noncurrent_versions WHERE seq >= ?', lastSeq - 3);
    const { entries } = await listVersions(db.tx, { ...query, after: next }, (row) => row);
    expect(entries.map(({ key, isLatest }) => [key, isLatest])).toEqual([
      ['a', 1],
      ...Array.from({ length: 3 }, () => ['a', 0]),
      ['b', 1],
    ]);
  });

  it('passes what it folds and what is behind its marker by seeks alone', async () => {
    for (let i = 0; i < 20_000; i++) await addOlder('k1');
    for (let i = 0; i < 3; i++) await addObject(`k${i}`);
    for (let i = 0; i < 2000; i++) await addOlder('m/x');
    await addObject('m/x');
    await addObject('n');
    let rows = 0;
    const steps: string[] = [];
    const read = {
      ...db.tx,
      all: async <R>(sql: string, ...values: SqlValue[]) => {
        const plan = await db.tx.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...values);
        steps.push(...plan.map(({ detail }) => detail));
        const all = await db.tx.all<R>(sql, ...values);
        rows += all.length;
        return all;
      },
    };
    const after = { key: 'k1', versionId: null };
    const page: VersionListing<ListedVersion> = await listVersions(
      read,
      { ...query, delimiter: '/', max: 3, after },
      (row) => row,
    );
    expect([page.entries.map(({ key }) => key), page.prefixes]).toEqual([['k2', 'n'], ['m/']]);
    const inside = { key: 'k1', versionId: '10' };
    const rest = await listVersions(read, { ...query, max: 3, after: inside }, (row) => row);
    expect(rest.entries.map(({ seq }) => seq)).toEqual([9, 8, 7]);
    expect(rows).toBeLessThan(100);
    const reads = steps.filter((step) => /^(SEARCH|SCAN) v\b/.test(step));
    expect(new Set(reads)).toEqual(
      new Set([
        'SEARCH v USING PRIMARY KEY (bucket_id=? AND key>?)',
        'SEARCH v USING PRIMARY KEY (bucket_id=? AND key=?)',
        'SEARCH v USING PRIMARY KEY (bucket_id=? AND key=? AND seq<?)',
      ]),
    );
  });
});
