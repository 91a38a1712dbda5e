// Listings where batches of rows end in awkward places, on a real database.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listObjects, listUploads, type Position } from '#bursar/catalog/listing.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';

const bucketId = 1;
let db: OpenDatabase;

beforeEach(() => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
});
afterEach(() => db.close());

async function addObject(key: string, supersededSeq: number | null = null): Promise<void> {
  const sql = `INSERT INTO versions SELECT 1, ?, 1 + count(*), ?, 0, '', NULL, '', '', 0, '', '{}',
    1, x'', x'', 0 FROM versions`;
  await db.tx.run(sql, key, supersededSeq);
}

async function addUpload(key: string, id: string, completed: string | null = null): Promise<void> {
  const sql = "INSERT INTO uploads VALUES (?, 1, ?, 'one/alice', 0, 'STANDARD', '{}', ?, 1, x'')";
  await db.tx.run(sql, id, key, completed);
}

const query = { bucketId, prefix: '', delimiter: '', max: 1000, after: null };

describe('a listing of objects', () => {
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
        const page = await listObjects(db.tx, { ...query, delimiter: '/', max, after });
        found.push(...page.entries.map(({ key }) => key), ...page.prefixes);
        after = page.next;
      } while (after !== null);
      expect(found.sort()).toEqual(['a/', 'c/', ...keys].sort());
    }
  });

  it('has only current objects, and no more than one of a key', async () => {
    for (let i = 0; i < 50; i++) await addObject('often', i + 2);
    await addObject('often');
    await addObject('gone', 99);
    const { entries, next } = await listObjects(db.tx, query);
    expect([entries.map(({ key }) => key), next]).toEqual([['often'], null]);
  });

  it('of a position before the prefix begins with the prefix; behind it is empty', async () => {
    for (const key of ['a/1', 'b/1', 'b/2', 'c/1']) await addObject(key);
    const keysAfter = async (after: Position) => {
      const { entries } = await listObjects(db.tx, { ...query, prefix: 'b/', after });
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
    const page = await listObjects(db.tx, { ...query, max: 0 });
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
        const page = await listUploads(db.tx, { ...query, delimiter: '/', max, after, afterId });
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
    const { entries } = await listUploads(db.tx, { ...query, after, afterId: null });
    expect(entries.map(({ id }) => id)).toEqual(['id-2']);
  });
});
