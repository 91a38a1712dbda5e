// The seals of rows against vectors of another implementation, and what is made of them in a
// database: every field that is altered, and every table that was put back.
import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { findLifecycleBucket } from '#bursar/catalog/lifecycle-due.js';
import { findNextRow } from '#bursar/catalog/scrub.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { isSealed, type SealedValue, sealRow } from '#bursar/core/seals/row-seal.js';
import { computeHeadMac } from '#bursar/core/seals/seal-heads.js';
import { type SealedTable, sealedTables } from '#bursar/core/seals/sealed-tables.js';
import { verifyReads } from '#bursar/core/seals/sealed-views.js';
import { acceptRights } from '#bursar/ledger/accept-rights.js';
import type { IdentityChange } from '#bursar/ledger/commands/identities.js';
import type { Commit } from '#bursar/ledger/commit.js';
import {
  describeAccounts,
  describeGateway,
  describeTransfer,
  parseRoots,
} from '#bursar/ledger/seal-roots.js';
import { verifySealedState } from '#bursar/ledger/sealed-state.js';
import { AccountMacs } from '#bursar/quota/leases/account-macs.js';
import { levelForm } from '#bursar/quota/storage/storage-tables.js';
import { randomBelow, seededRandom } from '../fuzz/seeded-random.ts';
import { commitOf, keyring, type LedgerFixture, openLedger, putOf } from './fixture.ts';

const newestIndex = 'SELECT max(idx) FROM records';
const newestRoots = `SELECT roots FROM records WHERE idx = (${newestIndex})`;
const read = (name: string) =>
  readFileSync(new URL(`../../docs/formats/${name}`, import.meta.url), 'utf8');
const jsonOf = (document: string) => JSON.parse(/```json\n([\s\S]*?)```/.exec(document)?.[1] ?? '');

/** A request that sends something. */
function sentOf(): Commit {
  const commit = commitOf({ kind: 'none' });
  const transfer = { requests: 1, ingressBytes: 0, egressBytes: 1000, retrievalBytes: 0 };
  return { ...commit, charge: commit.charge && { ...commit.charge, transfer } };
}

/** A PUT into another bucket of the same tenant. */
function putIn(name: string, bucketId: number): Commit {
  const { change, charge, record } = putOf('k');
  const bucket = { tenant: 'one', name, owner: 'alice' };
  return {
    change: { ...change, bucketId } as typeof change,
    charge: charge && { ...charge, who: { ...charge.who, bucket } },
    record: { ...record, bucket: name },
  };
}

describe('seals', () => {
  const { rootKey } = jsonOf(read('catalog-macs.md')) as { rootKey: string };
  const vectors = jsonOf(read('row-seals.md'));
  const documented = new Keyring([{ epoch: 7, key: Buffer.from(rootKey, 'hex') }]);
  const tableOf = (name: string) => sealedTables.find((one) => one.name === name) as SealedTable;
  const valuesOf = (fields: (SealedValue | { hex: string })[]): SealedValue[] =>
    fields.map((field) =>
      field !== null && typeof field === 'object' && 'hex' in field
        ? Buffer.from(field.hex, 'hex')
        : field,
    );

  it('of rows are those of the format', () => {
    for (const { table, fields, mac } of vectors.rows) {
      const row = { epoch: 7, values: valuesOf(fields) };
      expect(sealRow(documented, tableOf(table), row).toString('hex')).toBe(mac);
    }
  });

  it('of accounts, heads and roots are those of the format', () => {
    const digestOf = (digest: string) => Buffer.from(digest, 'hex');
    for (const { account, content, mac } of vectors.accounts) {
      const made = new AccountMacs(documented).seal(account, content, undefined);
      expect(Buffer.from(made.mac).toString('hex')).toBe(mac);
    }
    for (const { level, content, mac } of vectors.levels) {
      const made = new AccountMacs(documented).seal(level, content, undefined, levelForm);
      expect(Buffer.from(made.mac).toString('hex')).toBe(mac);
    }
    const { gateway, accounts, transfers } = vectors.roots;
    const [rights, used] = [gateway.rights, gateway.accounts].map(digestOf) as [Buffer, Buffer];
    const { logSize } = gateway;
    const whole = { logSize, charged: logSize, rights, accounts: used };
    expect(describeGateway(documented, 7, whole).mac().toString('hex')).toBe(gateway.mac);
    const ofTenant = { tenant: accounts.tenant, digest: digestOf(accounts.digest) };
    expect(describeAccounts(documented, 7, ofTenant).mac().toString('hex')).toBe(accounts.mac);
    const moved = describeTransfer(documented, 7, transfers).mac();
    expect(moved.toString('hex')).toBe(transfers.mac);
    for (const { tenant, sealed, mac } of vectors.heads) {
      const head = { tenant, sealed: digestOf(sealed) };
      expect(computeHeadMac(documented, 7, head).toString('hex')).toBe(mac);
    }
  });

  it('are of every field, its type, its table and its epoch', () => {
    for (const { table: name, fields, mac } of vectors.rows) {
      const table = tableOf(name);
      const seal = { epoch: 7, mac: Buffer.from(mac, 'hex') };
      const values = valuesOf(fields);
      expect(isSealed(documented, table, seal, values)).toBe(true);
      for (const i of values.keys()) {
        for (const other of ['another', 8, null, Buffer.from('another'), 1.5, -1]) {
          if (values[i] === other) continue;
          const altered = values.with(i, other);
          expect([i, isSealed(documented, table, seal, altered)]).toEqual([i, false]);
        }
      }
      expect(isSealed(documented, table, { ...seal, epoch: 8 }, values)).toBe(false);
      expect(isSealed(documented, table, { ...seal, mac: null }, values)).toBe(false);
    }
    const twins = [tableOf('groups'), tableOf('retired_tenants')] as const;
    const row = { epoch: 7, values: ['cms', 'x', 1] };
    const mac = sealRow(documented, twins[0], row);
    expect(isSealed(documented, twins[1], { epoch: 7, mac }, ['cms'])).toBe(false);
  });
});

describe('a database that somebody else writes to', () => {
  let fixture: LedgerFixture;
  let editor: OpenDatabase;

  beforeEach(async () => {
    fixture = await openLedger();
    await fixture.ledger.commit(putOf('k'));
    // What was charged is written a moment later; nothing but the editor writes from here on.
    await fixture.ledger.writeAccounts();
    editor = openDatabase(fixture.path, { readonly: false, cacheKib: 1024 });
  });
  afterEach(async () => {
    editor.close();
    await fixture.close();
  });

  const found = async () => {
    editor.exec('BEGIN');
    const { unsealed } = await verifySealedState(editor, keyring);
    editor.exec('ROLLBACK');
    return unsealed.map(({ what }) => what);
  };
  const grantOf = (name: string) =>
    commitOf({
      ...{ kind: 'putGrant', tenant: 'one', isByAdmin: true },
      grant: { name, effect: 'allow', subjects: ['tenant:one'], actions: ['s3:GetObject'] },
    });

  it('is as it should be before that, and after whatever the ledger does', async () => {
    expect(await found()).toEqual([]);
    const { ledger } = fixture;
    expect(await ledger.commit(grantOf('a'))).toMatchObject({ ok: true });
    expect(await ledger.commit(grantOf('a'))).toMatchObject({ ok: true });
    const limits = { requests: { month: 3 } };
    await ledger.commit(commitOf({ kind: 'setLimits', account: 'tenant:one', limits }));
    await ledger.commit(
      commitOf({ kind: 'putBucketSetting', bucketId: 1, name: 'cors', document: '[]' }),
    );
    await ledger.commit(
      commitOf({ kind: 'putBucketSetting', bucketId: 1, name: 'cors', document: null }),
    );
    expect(await found()).toEqual([]);
    await fixture.reopen();
    expect(await found()).toEqual([]);
    const name = { kind: 'createTenant', name: 'two', membersCreateBuckets: true } as const;
    await fixture.ledger.commit(commitOf(name));
    const gone = { kind: 'deleteTenant', name: 'two' } as const;
    await fixture.ledger.commit(commitOf(gone));
    expect(await found()).toEqual([]);
  });

  it('is not written by the ledger where a row is not what it stored', async () => {
    await fixture.ledger.commit(grantOf('a'));
    editor.exec(`UPDATE grants SET rule = replace(rule, 'Get', 'Put')`);
    expect(await fixture.ledger.commit(grantOf('a'))).toMatchObject({
      ...{ ok: false, code: 'BursarIntegrityError', index: expect.any(Number) },
    });
    editor.exec("DELETE FROM grants; INSERT INTO grants VALUES ('one', 'b', '{}', 1)");
    expect(await fixture.ledger.commit(grantOf('a'))).toMatchObject({ ok: false });
    expect(await fixture.ledger.commit(grantOf('b'))).toMatchObject({ ok: false });
    expect(await fixture.ledger.commit(grantOf('c'))).toMatchObject({ ok: true });
    expect((await found()).sort()).toEqual([
      'grant one/a was removed, and not by the gateway',
      'grant one/b was not stored by the gateway',
    ]);
  });

  it('has no token outlive its revocation by an end that was brought forward', async () => {
    const { ledger } = fixture;
    const of = { tenant: 'one', principal: 'alice' };
    const key = {
      kind: 'createAccessKey',
      ...of,
      id: 'AK1',
      sealedSecret: Buffer.alloc(60),
    } as const;
    expect(await ledger.commit(commitOf(key))).toMatchObject({
      ok: true,
    });
    const token = {
      ...{ kind: 'addToken', ...of, id: 'j1', accessKeyId: 'AK1', details: {} },
      ...{ issuedMs: Date.now(), expiresMs: Date.now() + 3_600_000 },
    } as unknown as IdentityChange;
    expect(await ledger.commit(commitOf(token))).toMatchObject({
      ok: true,
    });
    const expiry = (by: string) =>
      editor.exec(`UPDATE tokens SET expires_ms = expires_ms ${by} 3000000`);
    expiry('-');
    const gone = { kind: 'deleteAccessKey', ...of, id: 'AK1' } as const;
    const remove = () => ledger.commit(commitOf(gone));
    expect(await remove()).toMatchObject({ ok: false, code: 'BursarIntegrityError' });
    expect(await editor.tx.all('SELECT id FROM revocations')).toEqual([]);
    expiry('+');
    expect(await remove()).toMatchObject({ ok: true });
    expect(await editor.tx.all('SELECT id FROM revocations')).toEqual([{ id: 'j1' }]);
    expect(await found()).toEqual([]);
  });

  it('points no store elsewhere, and takes no number from it', async () => {
    const { ledger } = fixture;
    const register = (name: string, location: string) =>
      ledger.maintain({ kind: 'registerStore', name, location });
    await register('far', 's3://a at https://s3.example.org');
    await register('near', 's3://b at https://s3.example.org');
    expect(await found()).toEqual([]);
    editor.exec("UPDATE stores SET location = 's3://evil' WHERE name = 'far'");
    expect(await found()).toEqual(['store far is not what was stored']);
    await expect(register('far', 's3://a at https://s3.example.org')).rejects.toThrow();
    const reader = openDatabase(fixture.path, { readonly: true, cacheKib: 1024 });
    verifyReads(reader, keyring);
    await expect(reader.tx.all('SELECT * FROM stores')).rejects.toThrow('store far is not');
    reader.close();
    editor.exec(
      "UPDATE stores SET location = 's3://a at https://s3.example.org' WHERE name = 'far'",
    );
    await register('far', 's3://c at https://s3.example.org');
    editor.exec(`UPDATE stores SET number = 9 WHERE name = 'far';
      UPDATE stores SET number = 2 WHERE name = 'near';
      UPDATE stores SET number = 3 WHERE name = 'far'`);
    await fixture.reopen();
    expect((await found()).length).toBe(2);
  });

  it('takes no triggers of others along', async () => {
    editor.exec(`CREATE TRIGGER evil AFTER INSERT ON records BEGIN
      UPDATE principals SET role = 'operator'; END`);
    expect(await fixture.ledger.commit(putOf('other'))).toMatchObject({ ok: false });
    const alice = await editor.tx.get<{ role: string }>('SELECT role FROM principals');
    expect(alice?.role).toBe('member');
  });

  it.each([
    ['the heads', ['seal_heads', 'seals', 'grants'], 'there is of rights or accounts is not'],
    ['the accounts', ['quota_accounts', 'quota_windows'], 'accounts of one have used is not'],
    ['what is charged by time', ['quota_storage'], 'accounts of one have used is not'],
    ['what was moved', ['quota_transfers'], 'what was moved in the month (users aws/us-east-1) is'],
    ['the roots, with all that is below', null, 'is not what there was with the log'],
  ])('is not believed where %s are put back to an earlier state', async (_, tables, said) => {
    const all = ['seal_heads', 'seals', 'seal_roots', 'grants', 'quota_accounts', 'quota_windows'];
    const kept = tables ?? all;
    await fixture.ledger.commit(sentOf());
    for (const table of kept)
      editor.exec(`CREATE TEMP TABLE old_${table} AS SELECT * FROM ${table}`);
    await fixture.ledger.commit(grantOf('late'));
    await fixture.ledger.commit(putOf('late'));
    await fixture.ledger.commit(sentOf());
    for (const table of kept) {
      editor.exec(`DELETE FROM ${table}; INSERT INTO ${table} SELECT * FROM temp.old_${table}`);
    }
    expect((await found()).join('; ')).toContain(said);
  });

  it('with roots of whatever form is found out, and no more', async () => {
    const { roots } = (await editor.tx.get<{ roots: Buffer }>(newestRoots)) as { roots: Buffer };
    const random = seededRandom(20);
    const next = (below: number) => randomBelow(random, below);
    for (let i = 0; i < 500; i++) {
      const bytes = Buffer.from(roots.subarray(0, next(roots.length + 1)));
      for (let flips = next(4); flips > 0 && bytes.length > 0; flips--) {
        bytes[next(bytes.length)] = next(256);
      }
      for (const [, { mac }] of parseRoots(bytes)) expect(mac.length).toBe(32);
      if (i % 25 > 0 || bytes.equals(roots)) continue;
      await editor.tx.run(`UPDATE records SET roots = ? WHERE idx = (${newestIndex})`, bytes);
      expect(await found()).not.toEqual([]);
    }
    for (const odd of ['text', 1, null, roots.subarray(0, 1)]) {
      await editor.tx.run(`UPDATE records SET roots = ? WHERE idx = (${newestIndex})`, odd);
      expect(await found()).not.toEqual([]);
    }
    await editor.tx.run(`UPDATE records SET roots = ? WHERE idx = (${newestIndex})`, roots);
    expect(await found()).toEqual([]);
  });

  it('has the roots of more tenants than go with a record', async () => {
    const { ledger } = fixture;
    for (let i = 0; i < 20; i++) {
      const limits = { requests: { month: i + 1 } };
      await ledger.commit(commitOf({ kind: 'setLimits', account: `tenant:many-${i}`, limits }));
    }
    const rooted = await editor.tx.all('SELECT tenant FROM seal_roots WHERE tenant <> ?', '*');
    expect(rooted.length).toBeGreaterThan(3);
    expect(await found()).toEqual([]);
    await fixture.reopen();
    await fixture.ledger.commit(putOf('k'));
    expect(await found()).toEqual([]);
  });

  it('is read without what is not authentic only by who asks for that', async () => {
    const reader = openDatabase(fixture.path, { readonly: true, cacheKib: 1024 });
    verifyReads(reader, keyring);
    const names = 'SELECT name FROM principals ORDER BY name';
    expect(await reader.tx.all(names)).toEqual([{ name: 'alice' }]);
    editor.exec("INSERT INTO principals VALUES ('one', 'eve', 'person', 'operator', 1, 1)");
    await expect(reader.tx.all(names)).rejects.toThrow('principal one/eve was not stored');
    expect(await reader.tx.sparing?.all(names)).toEqual([{ name: 'alice' }]);
    await expect(reader.tx.all(names)).rejects.toThrow('principal one/eve was not stored');
    reader.close();
  });

  it('holds up no work on the buckets of others', async () => {
    const { ledger } = fixture;
    const bucket = { tenant: 'one', name: 'more', owner: 'alice', store: 1 };
    await ledger.commit(commitOf({ kind: 'createBucket', ...bucket }));
    const put = putOf('k');
    await ledger.commit({ ...put, change: { ...put.change, bucketId: 2 } as typeof put.change });
    for (const bucketId of [1, 2]) {
      const setting = { name: 'lifecycle', document: '[]' } as const;
      await ledger.commit(commitOf({ kind: 'putBucketSetting', bucketId, ...setting }));
    }
    const reader = openDatabase(fixture.path, { readonly: true, cacheKib: 1024 });
    verifyReads(reader, keyring);
    const all = { tenant: null, bucket: null, prefix: '' };
    const found = [await findLifecycleBucket(reader.tx, 0, [])];
    found.push(await findLifecycleBucket(reader.tx, 0, ['smart']));
    expect(found).toMatchObject([{ id: 1 }, { id: 1 }]);
    expect(await findNextRow(reader.tx, all, null)).toMatchObject({ bucket: { id: 1 } });
    editor.exec(`UPDATE buckets SET owner = 'eve' WHERE id = 1;
      UPDATE bucket_settings SET document = '[1]' WHERE bucket_id = 1`);
    const next = [await findLifecycleBucket(reader.tx, 0, [])];
    next.push(await findLifecycleBucket(reader.tx, 0, ['smart']));
    expect(next).toMatchObject([{ id: 2 }, { id: 2 }]);
    expect(await findNextRow(reader.tx, all, null)).toMatchObject({ bucket: { id: 2 } });
    reader.close();
  });

  /**
   * Of the buckets `data` and `more`, a level each; of the first, a total of the month; and
   * transfers.
   */
  const chargeSome = async (): Promise<void> => {
    const { ledger } = fixture;
    const more = { tenant: 'one', name: 'more', owner: 'alice', store: 1 };
    await ledger.commit(commitOf({ kind: 'createBucket', ...more }));
    await ledger.commit(putIn('more', 2));
    await ledger.commit(sentOf());
    await vi.waitUntil(async () => (await chargeStorage()) > 0);
  };
  const chargeStorage = async (): Promise<number> => {
    const work = { beforeMs: Date.now(), max: 100, books: new Map<number, string>() };
    await fixture.ledger.maintain({ kind: 'chargeStorage', ...work });
    return (await chargesOf('%')).length;
  };
  const chargesOf = (bucket: string) =>
    editor.tx.all(
      `SELECT idx FROM records WHERE json_extract(record, '$.action') = 'bursar:ChargeStorage'
         AND json_extract(record, '$.bucket') LIKE ?`,
      bucket,
    );

  it.each([
    ['quota_storage', "bucket = 'data'", 'what bucket one/data is charged for STANDARD is not'],
    ['quota_storage_totals', '1', 'what was charged for storage of aws/us-east-1/STANDARD/'],
    ['quota_transfers', '1', 'what was moved in the month (users aws/us-east-1) is not'],
  ])('has no other amounts in %s by which is charged', async (table, where, said) => {
    await chargeSome();
    expect(await found()).toEqual([]);
    const columns = await editor.tx.all<{ name: string }>(
      `SELECT name FROM pragma_table_info('${table}')`,
    );
    for (const { name } of columns) {
      editor.exec(`CREATE TEMP TABLE before AS SELECT * FROM ${table}`);
      const other = `CASE typeof(${name}) WHEN 'integer' THEN ${name} + 1 WHEN 'text' THEN
        ${name} || '0' ELSE zeroblob(32) END`;
      editor.exec(`UPDATE ${table} SET ${name} = ${other} WHERE ${where}`);
      const all = (await found()).join('; ');
      const isKey = ['tenant', 'bucket', 'class', 'market', 'month_ms', 'side', 'provider'];
      expect([name, all]).toEqual([name, expect.stringContaining(said.slice(0, 8))]);
      if (!isKey.includes(name) && name !== 'region') expect(all).toContain(said);
      editor.exec(`DELETE FROM ${table}; INSERT INTO ${table} SELECT * FROM before;
        DROP TABLE temp.before`);
    }
    editor.exec(`CREATE TEMP TABLE before AS SELECT * FROM ${table}; DELETE FROM ${table}`);
    expect(await found()).not.toEqual([]);
    editor.exec(`INSERT INTO ${table} SELECT * FROM before`);
    expect(await found()).toEqual([]);
  });

  it('charges no storage by a level that was edited, and all others', async () => {
    await chargeSome();
    const edit = (by: string) =>
      fixture.edit(`UPDATE quota_storage SET at_ms = at_ms ${by} 1000 WHERE bucket = 'data'`);
    await fixture.reopen(() => edit('+'));
    const before = [await chargesOf('data'), await chargesOf('more')];
    await vi.waitUntil(async () => {
      await chargeStorage();
      return (await chargesOf('more')).length > (before[1]?.length ?? 0);
    });
    expect(await chargesOf('data')).toEqual(before[0]);
    expect(fixture.failures).toContain(
      'what bucket one/data is charged for STANDARD is not what was stored',
    );
    const put = await fixture.ledger.commit(putOf('refused'));
    expect(put).toMatchObject({ ok: false, code: 'BursarIntegrityError' });
    expect(await fixture.ledger.commit(putIn('more', 2))).toMatchObject({ ok: true });
    await fixture.reopen(() => edit('-'));
    await vi.waitUntil(async () => {
      await chargeStorage();
      return (await chargesOf('data')).length > (before[0]?.length ?? 0);
    });
    expect(await found()).toEqual([]);
  });

  it('charges nobody by the tiers of totals that were edited', async () => {
    await chargeSome();
    const edit = (by: string) =>
      fixture.edit(`UPDATE quota_storage_totals SET byte_ms = byte_ms ${by} 1;
        UPDATE quota_transfers SET egress_bytes = egress_bytes ${by} 1`);
    await fixture.reopen(() => edit('+'));
    const before = await chargesOf('%');
    await expect(chargeStorage()).rejects.toThrow();
    expect(await chargesOf('%')).toEqual(before);
    const sent = await fixture.ledger.commit(sentOf());
    expect(sent).toMatchObject({ ok: false, code: 'BursarIntegrityError' });
    expect(await fixture.ledger.commit(putOf('k'))).toMatchObject({ ok: true });
    await fixture.reopen(() => edit('-'));
    await vi.waitUntil(async () => (await chargeStorage()) > before.length);
    expect(await fixture.ledger.commit(sentOf())).toMatchObject({ ok: true });
    expect(await found()).toEqual([]);
  });

  it('has none of two levels exchanged', async () => {
    await chargeSome();
    const columns = 'billed_bytes, at_ms, charged_ms, due, epoch, mac';
    editor.exec(`CREATE TEMP TABLE before AS SELECT * FROM quota_storage;
      UPDATE quota_storage AS s SET (${columns}) =
        (SELECT ${columns} FROM before AS t WHERE t.bucket <> s.bucket)`);
    expect(await found()).toEqual([
      'what bucket one/data is charged for STANDARD is not what was stored',
      'what bucket one/more is charged for STANDARD is not what was stored',
    ]);
  });

  it('has levels and totals that were edited once the operator has accepted them', async () => {
    await chargeSome();
    await fixture.rewrite(`UPDATE quota_storage SET at_ms = at_ms + 1;
      UPDATE quota_storage_totals SET byte_ms = byte_ms + 1;
      UPDATE quota_transfers SET egress_bytes = egress_bytes + 1`);
    expect(await found()).toEqual([]);
    expect(await fixture.ledger.commit(sentOf())).toMatchObject({ ok: true });
    expect(await fixture.ledger.commit(putOf('more'))).toMatchObject({ ok: true });
  });

  it('is authentic again once the operator has accepted it, which is recorded', async () => {
    editor.exec(
      "UPDATE quota_accounts SET used_requests = 0; DELETE FROM seals WHERE row = 'alice'",
    );
    const before = await found();
    expect(before).toContain('what tenant:one has used is not what was stored');
    expect(await acceptRights(editor, keyring)).toEqual(before);
    expect(await found()).toEqual([]);
    const newest = 'SELECT record FROM records ORDER BY idx DESC LIMIT 1';
    const { record } = (await editor.tx.get<{ record: string }>(newest)) ?? { record: '{}' };
    expect(JSON.parse(record)).toMatchObject({
      action: 'bursar:AcceptRights',
      change: { accepted: before, count: before.length },
    });
    expect(await acceptRights(editor, keyring)).toEqual([]);
    await fixture.reopen();
    expect(await fixture.ledger.commit(grantOf('a'))).toMatchObject({ ok: true });
  });

  it('has all that was accepted in its records, however much that is', async () => {
    editor.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1250)
      INSERT INTO groups SELECT 'one', 'group-' || i, 1 FROM n`);
    const accepted = await acceptRights(editor, keyring);
    expect(accepted.length).toBe(1250);
    const rows = await editor.tx.all<{ record: string }>(
      "SELECT record FROM records WHERE record LIKE '%bursar:AcceptRights%' ORDER BY idx",
    );
    const changes = rows.map(({ record }) => JSON.parse(record).change);
    expect(changes.flatMap((change) => change.accepted)).toEqual(accepted);
    expect(new Set(changes.map(({ count }) => count))).toEqual(new Set([1250]));
    expect(await found()).toEqual([]);
  });
});
