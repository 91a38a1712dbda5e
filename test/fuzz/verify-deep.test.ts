// `bursar verify deep` on folders that were altered at random: it comes to its end, with
// differences or with a failure that is one line, and never with an error of its own.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { commitTo } from '#bursar/audit/leaf.js';
import type { Difference } from '#bursar/audit/verify/record-fields.js';
import { canonicalize } from '#bursar/core/canonical-json.js';
import { CommandFailure } from '#bursar/core/command-failure.js';
import { type OpenDatabase, openDatabase, type SqlValue } from '#bursar/core/database.js';
import { verifyDeep } from '#bursar/server/folder/deep-verification.js';
import { loadConfig } from '#bursar/server/settings/config.js';
import { Workplace } from '../cli/command.ts';
import { S3Client } from '../fault/s3-client.ts';
import { fill, operator, operatorSettings } from '../tooling/filled-folder.ts';
import { fuzz, fuzzTimeoutMs, randomBelow, randomBytesOf, randomOf } from './seeded-random.ts';

const rounds = process.env.BURSAR_FULL === '1' ? 1500 : 20;

type Random = () => number;
type Alter = (random: Random, db: OpenDatabase) => Promise<void>;

let place: Workplace;
let copy: string;
let tables: string[];

beforeAll(async () => {
  place = new Workplace();
  copy = join(place.folder, 'copy');
  const served = await place.serve(['--sweep-interval', '1h'], operatorSettings);
  const client = new S3Client({ endpoint: served.endpoint, ...operator });
  await fill(client, served.endpoint);
  client.close();
  expect(await served.stop()).toBe(0);
  const db = openDatabase(join(place.data, 'bursar.db'), { readonly: false, cacheKib: 1024 });
  const named = await db.tx.all<{ name: string }>(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
  );
  db.close();
  tables = named.map(({ name }) => name);
}, 120_000);

afterAll(() => place.remove());

const values: readonly SqlValue[] = [
  ...[null, '', '\0', 'x', '{}', '[]', 'null', '{"a":', '{"index":-1}', '9'.repeat(400)],
  ...[0, -1, 1.5, 255, 256, 2 ** 31, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n), Number.NaN],
  ...[Buffer.alloc(0), Buffer.alloc(16), Buffer.alloc(32, 7), Buffer.alloc(8192, 1)],
];

async function columnsOf(db: OpenDatabase, table: string): Promise<{ name: string; pk: number }[]> {
  return db.tx.all(`SELECT name, pk FROM pragma_table_info('${table}') -- ${Math.random()}`);
}

const setCell: Alter = async (random, db) => {
  const table = randomOf(random, tables);
  const columns = await columnsOf(db, table);
  const key = columns.filter(({ pk }) => pk > 0).map(({ name }) => name);
  const named = key.length > 0 ? key.join(', ') : 'rowid';
  const { name } = randomOf(random, columns);
  const counted = await db.tx.get<{ count: number }>(`SELECT count(*) AS count FROM ${table}`);
  const at = randomBelow(random, counted?.count ?? 0);
  const sql = `UPDATE ${table} SET ${name} = ? WHERE (${named}) IN
    (SELECT ${named} FROM ${table} LIMIT ? OFFSET ${at})`;
  await db.tx.run(sql, randomOf(random, values), randomOf(random, [1, 1, 1, 100]));
};

const deleteRows: Alter = async (random, db) => {
  const table = randomOf(random, tables);
  await db.tx.run(`DELETE FROM ${table} WHERE abs(random()) % 3 < ${randomBelow(random, 4)}`);
};

const alterTable: Alter = async (random, db) => {
  const table = randomOf(random, tables);
  const columns = await columnsOf(db, table);
  const { name } = randomOf(random, columns);
  const change = randomOf(random, [
    `DROP TABLE ${table}`,
    `ALTER TABLE ${table} RENAME COLUMN ${name} TO other`,
    `ALTER TABLE ${table} RENAME TO other`,
  ]);
  db.exec(change);
};

/** With the commitment that is right for it, so that only what it says is wrong. */
const alterRecord: Alter = async (random, db) => {
  type Row = { idx: number; record: string; salt: Buffer };
  const rows = await db.tx.all<Row>('SELECT idx, record, salt FROM records');
  const { idx, record, salt } = randomOf(random, rows);
  const said = JSON.parse(record) as Record<string, unknown>;
  const names = [...Object.keys(said), 'amends', 'supersedes', 'version', 'change', 'limits'];
  const others = [undefined, null, 0, -1, 2 ** 52, '', 'x', [], {}, [[]], { version: idx }];
  for (let i = 0; i <= randomBelow(random, 3); i++) {
    said[randomOf(random, names)] = randomOf(random, others);
  }
  const text =
    randomBelow(random, 5) === 0 ? randomOf(random, ['null', '[]', '7']) : canonicalize(said);
  const sql = 'UPDATE records SET record = ?, commitment = ? WHERE idx = ?';
  await db.tx.run(sql, text, commitTo(salt, text), idx);
};

const alterations = [setCell, setCell, setCell, deleteRows, alterTable, alterRecord, alterRecord];

/** What is beside the tables: the file's bytes, and other files. */
function alterFiles(random: Random): void {
  const file = join(
    copy,
    randomOf(random, ['bursar.db', 'bursar.db', 'log-checkpoint', 'log-keys.json']),
  );
  const bytes = readFileSync(file);
  if (randomBelow(random, 3) === 0) {
    writeFileSync(file, bytes.subarray(0, randomBelow(random, bytes.length)));
    return;
  }
  for (let i = 0; i <= randomBelow(random, 5); i++) {
    randomBytesOf(random, 1 + randomBelow(random, 64)).copy(
      bytes,
      randomBelow(random, bytes.length),
    );
  }
  writeFileSync(file, bytes);
}

async function alter(random: Random): Promise<void> {
  rmSync(copy, { recursive: true, force: true });
  cpSync(place.data, copy, { recursive: true });
  if (randomBelow(random, 5) === 0) return alterFiles(random);
  const db = openDatabase(join(copy, 'bursar.db'), { readonly: false, cacheKib: 1024 });
  db.exec('PRAGMA foreign_keys = OFF');
  for (let i = 0; i <= randomBelow(random, 3); i++) {
    try {
      await randomOf(random, alterations)(random, db);
    } catch {
      // What the schema does not let in.
    }
  }
  db.close();
}

/** Of one run: what it found, or why it could not go on. */
async function verify(folder: string): Promise<Difference[] | string> {
  const found: Difference[] = [];
  try {
    await verifyDeep(loadConfig({ data: folder }, {}), {
      ...{ checkpointFiles: [], keys: [], withData: true },
      onDifference: (difference) => found.push(difference),
      onProgress: () => {},
    });
    return found;
  } catch (error) {
    if (error instanceof CommandFailure) return error.message;
    throw error;
  }
}

it('finds nothing in what was not altered', async () => {
  expect(await verify(place.data)).toEqual([]);
});

it(
  'comes to its end whatever is in the folder',
  async () => {
    await fuzz(0xdee9, rounds, async (random) => {
      await alter(random);
      const outcome = await verify(copy);
      const lines = typeof outcome === 'string' ? [outcome] : outcome.flatMap(Object.values);
      for (const line of lines) expect(line).toMatch(/^[^\n]+$/);
    });
  },
  fuzzTimeoutMs + rounds * 20_000,
);
