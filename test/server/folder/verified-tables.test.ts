// docs/formats/verified-tables.md says of each table what notices that it was altered. Here each
// column is altered and rows are removed, by SQL: what is not called unnoticed there is found by
// `verify deep` or by the seals, and nothing ends in an error of its own. BURSAR_FULL=1 tries all
// columns, else one of each table. Nor are two rows exchanged with each other unnoticed, with their
// MACs and seals.
import { cpSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type OpenDatabase, openDatabase, type SqlValue } from '#bursar/core/database.js';
import { sealedTables, sqlOf } from '#bursar/core/seals/sealed-tables.js';
import { schema } from '#bursar/ledger/schema.js';
import { verifySealedState } from '#bursar/ledger/sealed-state.js';
import { openDataFolder } from '#bursar/server/folder/data-folder.js';
import { verifyDeep } from '#bursar/server/folder/deep-verification.js';
import { loadConfig } from '#bursar/server/settings/config.js';
import { Workplace } from '../../cli/command.ts';
import { S3Client } from '../../fault/s3-client.ts';
import { fill, operator, operatorSettings } from '../../tooling/filled-folder.ts';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 120_000 });

const isFull = process.env.BURSAR_FULL === '1';

/** By table, what of it is called unnoticed: columns, and `rows` that are removed. */
const unnoticed = readPage();
const tables = [...schema.matchAll(/^CREATE TABLE (\w+)/gm)].map(([, name = '']) => name);

let place: Workplace;
/** A copy that the test may alter. */
let copy: string;

beforeAll(async () => {
  place = new Workplace();
  copy = join(place.folder, 'copy');
  const served = await place.serve(['--sweep-interval', '1h'], operatorSettings);
  const client = new S3Client({ endpoint: served.endpoint, ...operator });
  await fill(client, served.endpoint);
  client.close();
  expect(await served.stop()).toBe(0);
  // The sums by day are made a moment after each start.
  const again = await place.serve(['--sweep-interval', '1h']);
  await vi.waitFor(
    async () => {
      const db = openDatabase(join(place.data, 'bursar.db'), { readonly: true, cacheKib: 1024 });
      const row = await db.tx.get<{ next: number }>('SELECT next_idx AS next FROM usage_progress');
      db.close();
      expect(row?.next).toBeGreaterThan(0);
    },
    { timeout: 100_000, interval: 100 },
  );
  expect(await again.stop()).toBe(0);
});

afterAll(() => place.remove());

function readPage(): Map<string, string[]> {
  const page = readFileSync('docs/formats/verified-tables.md', 'utf8');
  const rows = page.matchAll(/^\| `(\w+)` \| [^|]* \| ([^|]*)\|/gm);
  return new Map(
    [...rows].map(([, table = '', said = '']) => {
      const columns = [...said.matchAll(/`(\w+)`/g)].map(([, column = '']) => column);
      return [table, [...columns, ...(/\brows\b/.test(said) ? ['rows'] : [])]];
    }),
  );
}

function open(folder: string): OpenDatabase {
  return openDatabase(join(folder, 'bursar.db'), { readonly: false, cacheKib: 1024 });
}

/** What is found in a folder, by `verify deep` and by the seals. */
async function findIn(folder: string): Promise<string[]> {
  const config = loadConfig({ data: folder }, {});
  const found: string[] = [];
  try {
    await verifyDeep(config, {
      ...{ checkpointFiles: [], keys: [], withData: true },
      onDifference: ({ where, what }) => found.push(`${where}: ${what}`),
      onProgress: () => {},
    });
  } catch (error) {
    found.push(String(error));
  }
  const { keyring, release } = await openDataFolder(config, { isShared: true });
  const db = open(folder);
  try {
    found.push(...(await verifySealedState(db, keyring)).unsealed.map(({ what }) => what));
  } finally {
    db.close();
    release();
  }
  return found;
}

function another(value: SqlValue): SqlValue {
  if (value instanceof Uint8Array) {
    return Buffer.from(value).map((byte, i) => (i === 0 ? byte ^ 1 : byte));
  }
  if (typeof value === 'number') return value + 1_000_003;
  return value === null ? 'x' : `${value}x`;
}

/** Which rows of a table count: bytes of others are to be removed. */
const counting = new Map([['extents', 'state = 1']]);

/** Alters the first row that has a value there; false: none has. */
async function alterColumn(db: OpenDatabase, table: string, column: string): Promise<boolean> {
  const key = await db.tx.all<{ name: string }>(
    `SELECT name FROM pragma_table_info('${table}') WHERE pk > 0`,
  );
  const named = key.length > 0 ? key.map(({ name }) => name).join(', ') : 'rowid';
  const row = await db.tx.get<Record<string, SqlValue>>(
    `SELECT ${named}, ${column} AS altered FROM ${table}
      WHERE ${counting.get(table) ?? '1'} ORDER BY ${column} IS NULL, ${named} LIMIT 1`,
  );
  if (!row) return false;
  const { altered = null, ...at } = row;
  const keys = named.split(', ').map((name) => at[name] ?? null);
  const places = keys.map(() => '?').join(', ');
  const sql = `UPDATE ${table} SET ${column} = ? WHERE (${named}) = (${places})`;
  return (await db.tx.run(sql, another(altered), ...keys)).changes > 0;
}

/** Tables whose rows have MACs of their own. */
const withMacs = ['quota_accounts', 'quota_windows', 'quota_storage', 'versions'];
const exchangeable = [...new Set([...sealedTables.map(({ name }) => name), ...withMacs])];

/**
 * What each of two rows is but for its key becomes the other's, seals included; false: none differ.
 */
async function exchange(db: OpenDatabase, table: string): Promise<boolean> {
  const columns = await db.tx.all<{ name: string; pk: number }>(
    `SELECT name, pk FROM pragma_table_info('${table}')`,
  );
  const namesOf = (isKey: boolean) =>
    columns.filter(({ pk }) => pk > 0 === isKey).map(({ name }) => name);
  const [keys, others] = [namesOf(true), namesOf(false)];
  const all = await db.tx.all<Record<string, SqlValue>>(`SELECT * FROM ${table} LIMIT 100`);
  const [one] = all;
  const other = all.find((row) =>
    others.some((name) => !isDeepStrictEqual(row[name], one?.[name])),
  );
  if (!one || !other) return false;
  const at = keys.map((name) => `${name} = ?`).join(' AND ');
  const sealed = sealedTables.find(({ name }) => name === table);
  const sealOf = (row: Record<string, SqlValue>) =>
    db.tx.get<Record<string, SqlValue>>(
      `SELECT s.* FROM seals AS s, ${table} AS t WHERE s.tbl = '${table}'
         AND s.tenant = ${sqlOf(sealed?.tenant ?? '$', 't')}
         AND s.row = ${sqlOf(sealed?.row ?? '$', 't')}
         AND ${keys.map((name) => `t.${name} = ?`).join(' AND ')}`,
      ...keys.map((name) => row[name] ?? null),
    );
  const seals = sealed ? [await sealOf(one), await sealOf(other)] : [];
  const set = others.map((name) => `${name} = ?`).join(', ');
  for (const [to, from] of [
    [one, other],
    [other, one],
  ] as const) {
    const values = [...others.map((name) => from[name]), ...keys.map((name) => to[name])];
    const sql = `UPDATE OR IGNORE ${table} SET ${set} WHERE ${at}`;
    await db.tx.run(sql, ...values.map((value) => value ?? null));
  }
  for (const [to, from] of [seals, [...seals].reverse()]) {
    if (!to || !from) continue;
    const { tbl, tenant, row } = to as Record<string, string>;
    const sql = 'UPDATE seals SET epoch = ?, mac = ? WHERE tbl = ? AND tenant = ? AND row = ?';
    await db.tx.run(sql, from.epoch ?? null, from.mac ?? null, tbl ?? '', tenant ?? '', row ?? '');
  }
  return !isDeepStrictEqual(all, await db.tx.all(`SELECT * FROM ${table} LIMIT 100`));
}

async function altering(alter: (db: OpenDatabase) => Promise<boolean>): Promise<string[] | null> {
  rmSync(copy, { recursive: true, force: true });
  cpSync(place.data, copy, { recursive: true });
  const db = open(copy);
  db.exec('PRAGMA foreign_keys = OFF');
  let isAltered: boolean;
  try {
    isAltered = await alter(db);
  } finally {
    db.close();
  }
  return isAltered ? await findIn(copy) : null;
}

it('tells of each table, and of no other', () => {
  expect([...unnoticed.keys()].sort()).toEqual([...tables].sort());
});

it('finds nothing where nothing was altered', async () => {
  expect(await findIn(place.data)).toEqual([]);
});

describe.each(tables)('%s', (table) => {
  const said = unnoticed.get(table) ?? [];
  it('is noticed when it is altered, as its row of the page says', async () => {
    const db = open(place.data);
    const columns = await db.tx.all<{ name: string }>(
      `SELECT name FROM pragma_table_info('${table}') ORDER BY cid`,
    );
    db.close();
    const names = columns.map(({ name }) => name);
    for (const name of said) expect([...names, 'rows']).toContain(name);
    const noticed = [...names, 'rows'].filter((name) => !said.includes(name));
    const tried = isFull ? noticed : noticed.filter((_, i) => i === table.length % noticed.length);
    for (const name of tried) {
      const found = await altering((altered) =>
        name === 'rows'
          ? altered.tx.run(`DELETE FROM ${table}`).then(({ changes }) => changes > 0)
          : alterColumn(altered, table, name),
      );
      if (found === null) continue;
      expect(found, `${table}.${name}`).not.toEqual([]);
      for (const line of found) expect(line).not.toMatch(/\n/);
    }
  });
});

it.each(exchangeable)('two rows of %s cannot be exchanged unnoticed', async (table) => {
  const found = await altering((db) => exchange(db, table));
  if (found !== null) expect(found, table).not.toEqual([]);
});
