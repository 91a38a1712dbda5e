// Databases of older schemas come to what a new one is, once, whatever happens meanwhile.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { manifestOf } from '#bursar/catalog/long-manifests.js';
import { checkDatabase, openDatabase } from '#bursar/core/database.js';
import { Keyring, type RootKey } from '#bursar/core/keyring.js';
import { RootKeyFile } from '#bursar/core/root-keys.js';
import { migrate, rehearse } from '#bursar/ledger/migrations/migrate.js';
import {
  createSchema,
  listSchema,
  readSchemaState,
} from '#bursar/ledger/migrations/schema-state.js';
import { oldestSchema, schemaVersion, steps } from '#bursar/ledger/migrations/steps.js';
import { verifySealedState } from '#bursar/ledger/sealed-state.js';
import { packed010 } from '../../fixtures/contents-0.1.0.ts';
import { unpackFolder } from '../../fixtures/packed-folder.ts';

let folder: string;
let path: string;
let rootKeys: readonly RootKey[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-migrations-'));
  unpackFolder(packed010, folder);
  path = join(folder, 'data', 'bursar.db');
  rootKeys = (await RootKeyFile.open(join(folder, 'data/keys/root-keys.json'), null)).keys;
});
afterEach(() => rmSync(folder, { recursive: true }));

const options = () => ({ path, rootKeys, withoutCopy: false, onProgress: () => {} });

async function inside<T>(
  work: (db: ReturnType<typeof openDatabase>) => Promise<T> | T,
  file = path,
): Promise<T> {
  const db = openDatabase(file, { readonly: false, cacheKib: 1024 });
  try {
    return await work(db);
  } finally {
    db.close();
  }
}

const copies = () => readdirSync(join(folder, 'data')).filter((name) => name.includes('.schema-'));

describe('migrations', () => {
  it('are numbered without gaps', () => {
    expect(steps.map(({ to }) => to)).toEqual(steps.map((_, i) => oldestSchema + 1 + i));
  });

  it('lead to the very schema of a new database', async () => {
    await migrate(options());
    const migrated = await inside(async (db) => ({
      lines: await listSchema(db.tx),
      version: db.userVersion(),
    }));
    const fresh = await inside(
      async (db) => {
        await createSchema(db, new Keyring(rootKeys));
        return { lines: await listSchema(db.tx), version: db.userVersion() };
      },
      join(folder, 'fresh.db'),
    );
    expect(migrated).toEqual(fresh);
    expect(migrated.version).toBe(schemaVersion);
    expect(checkDatabase(path)).toEqual([]);
  });

  it('seal who may what as it is found', async () => {
    await migrate(options());
    const { unsealed, rows } = await inside((db) => verifySealedState(db, new Keyring(rootKeys)));
    expect(unsealed).toEqual([]);
    expect(rows).toBeGreaterThan(20);
  });

  it('refuse a key that was given to another principal before there were seals', async () => {
    const key = await inside(async (db) => {
      const [one] = await db.tx.all<{ id: string; to: string }>(
        `SELECT k.id, p.name AS "to" FROM access_keys AS k JOIN principals AS p
           ON p.tenant = k.tenant AND p.name <> k.principal
           WHERE k.sealed_secret IS NOT NULL LIMIT 1`,
      );
      const { id = '', to = '' } = one ?? {};
      await db.tx.run('UPDATE access_keys SET principal = ? WHERE id = ?', to, id);
      return id;
    });
    await expect(migrate(options())).rejects.toThrow(`access key ${key} of `);
    expect(await inside((db) => db.userVersion())).toBe(9);
  });

  it('leave a whole copy of what was, and are recorded once', async () => {
    const before = await inside((db) => db.tx.all('SELECT * FROM records ORDER BY idx'));
    const report = await migrate(options());
    expect(report).toMatchObject({ from: 3, to: schemaVersion });
    expect(copies()).toEqual([`bursar.db.schema-3.records-${before.length}`]);
    const copy = String(report.copy);
    expect(checkDatabase(copy)).toEqual([]);
    expect(await inside((db) => db.tx.all('SELECT * FROM records ORDER BY idx'), copy)).toEqual(
      before,
    );
    const added = await inside((db) =>
      db.tx.all<{ record: string }>('SELECT record FROM records WHERE idx >= ?', before.length),
    );
    expect(added.map(({ record }) => JSON.parse(record))).toEqual(
      steps.map(({ to }) =>
        expect.objectContaining({
          action: 'bursar:MigrateDatabase',
          target: 'database',
          change: expect.objectContaining({ from: to - 1, to }),
        }),
      ),
    );
    expect(await migrate(options())).toMatchObject({ steps: [], copy: null });
    expect(await migrate({ ...options(), withoutCopy: true })).toMatchObject({ steps: [] });
  });

  it('change nothing where they fail, and go on where they were ended', async () => {
    // A table is in the way of a step.
    await inside((db) => db.exec('CREATE TABLE schema_history (x)'));
    await expect(migrate(options())).rejects.toThrow(/^schema 4: .*already exists/);
    expect(await inside((db) => db.userVersion())).toBe(3);
    await inside((db) => db.exec('DROP TABLE schema_history'));
    await migrate(options());
    expect(await inside((db) => db.userVersion())).toBe(schemaVersion);
    // Both copies are of the same state.
    expect(copies()).toHaveLength(1);
  });

  it('move long manifests out of the rows of all tables of versions', async () => {
    await inside((db) => db.exec('CREATE TABLE long_manifests (x)'));
    await expect(migrate(options())).rejects.toThrow(/^schema 17: .*already exists/);
    const lengths = [8193, 8192, 20_000, 9000, 300_000];
    const manifests = lengths.map((length) => randomBytes(length));
    const kept = ['noncurrent_versions', 'ended_versions', 'held_versions'];
    const tables = ['versions', 'versions', ...kept];
    await inside(async (db) => {
      db.exec('DROP TABLE long_manifests');
      for (const [i, table] of tables.entries()) {
        const more = { held_versions: ', 1, 2, 3, 4, 0, NULL, 5', versions: '' };
        const ends = more[table as 'versions'] ?? ', 1, 2';
        await db.tx.run(
          `INSERT INTO ${table} SELECT 999, 'long ' || CAST(? AS INTEGER), 1000000 + ?,
             NULL, 0, 5, 'e', NULL, 'STANDARD', 'o', 0, ?, '{}', 1, x'00', x'00', 5${ends}`,
          ...[i, i, manifests[i] ?? ''],
        );
      }
    });
    await migrate(options());
    await inside(async (db) => {
      for (const [i, table] of tables.entries()) {
        const row = await db.tx.get<{ type: string; manifest: Uint8Array }>(
          `SELECT typeof(v.manifest) AS type, ${manifestOf('v')} FROM ${table} AS v
             WHERE key = 'long ' || CAST(? AS INTEGER)`,
          i,
        );
        expect(row?.type).toBe(i === 1 ? 'blob' : 'integer');
        expect(Buffer.compare(row?.manifest ?? Buffer.alloc(0), manifests[i] as Buffer)).toBe(0);
      }
      const uses = await db.tx.all('SELECT uses, dropped FROM long_manifest_uses');
      expect(uses).toEqual(Array.from({ length: 4 }, () => ({ uses: 1, dropped: 0 })));
    });
  });

  it('go on from a schema with seals only where nothing was changed meanwhile', async () => {
    await inside((db) => db.exec('CREATE TABLE snapshots (x)'));
    await expect(migrate(options())).rejects.toThrow(/^schema 12: .*already exists/);
    await inside((db) => db.exec('DROP TABLE snapshots'));
    const setRole = (role: string) =>
      inside((db) => db.tx.run("UPDATE principals SET role = ? WHERE name = 'alice'", role));
    const { role } = (await inside((db) =>
      db.tx.get<{ role: string }>("SELECT role FROM principals WHERE name = 'alice'"),
    )) as { role: string };
    await setRole('admin');
    await expect(migrate(options())).rejects.toThrow('changed by somebody else');
    expect(await inside((db) => db.userVersion())).toBe(11);
    await setRole(role);
    await migrate(options());
    const { unsealed } = await inside((db) => verifySealedState(db, new Keyring(rootKeys)));
    expect(unsealed).toEqual([]);
  });

  it('are rehearsed on a copy that is gone afterwards', async () => {
    const names = readdirSync(join(folder, 'data')).sort();
    const report = await rehearse(options());
    expect(report.steps).toHaveLength(steps.length);
    expect(await inside((db) => db.userVersion())).toBe(3);
    expect(readdirSync(join(folder, 'data')).sort()).toEqual(names);
  });

  it('refuse a database that is damaged, and leave it alone', async () => {
    // A group of a tenant that is not there.
    await inside((db) =>
      db.exec("PRAGMA foreign_keys = OFF; INSERT INTO groups VALUES ('nobody', 'x', 0)"),
    );
    await expect(migrate(options())).rejects.toThrow(/the database is damaged/);
    expect(copies()).toEqual([]);
    expect(await inside((db) => db.userVersion())).toBe(3);
  });

  it('want the root keys of the database', async () => {
    const other = { epoch: 1, key: Buffer.alloc(32, 1) };
    await expect(migrate({ ...options(), rootKeys: [other] })).rejects.toThrow(/root key/);
    expect(copies()).toEqual([]);
  });

  it('refuse the database of a newer release, which says the version that it needs', async () => {
    await migrate(options());
    await inside(async (db) => {
      db.exec(`PRAGMA user_version = ${schemaVersion + 1}`);
      const row = [schemaVersion + 1, schemaVersion, '7.8.9', 0, 'x'];
      const columns = 'schema, from_schema, version, time_ms, digest_after';
      await db.tx.run(`INSERT INTO schema_history (${columns}) VALUES (?, ?, ?, ?, ?)`, ...row);
    });
    await expect(migrate(options())).rejects.toThrow(/needs Bursar 7\.8\.9 or newer/);
    await expect(inside((db) => createSchema(db, new Keyring(rootKeys)))).rejects.toThrow(
      /needs Bursar 7\.8\.9 or newer/,
    );
    expect(await inside(readSchemaState)).toMatchObject({ relation: 'newer', madeBy: '7.8.9' });
  });
});
