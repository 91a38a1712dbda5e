// `bursar receipt` and `bursar log`, on a served gateway; and what is given of records that were
// altered or erased in its database.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ed25519 } from '#bursar/audit/log/note.js';
import { verifyReceipt } from '#bursar/audit/verify/receipt.js';
import { parseVerifiers } from '#bursar/audit/verify/trusted-keys.js';
import { openDatabase } from '#bursar/core/database.js';
import { callNative, send, type Target } from '../protocol/target.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { type Outcome, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const place = new Workplace();
let gateway: ServedGateway;
let target: Target;
/** Of records of PUTs. */
const indexes: string[] = [];

beforeAll(async () => {
  gateway = await startServedGateway();
  const { endpoint, accessKeyId, secretAccessKey } = gateway;
  const keys = { accessKeyId, secretAccessKey };
  target = { endpoint, keys, strayNames: () => [], stop: () => gateway.stop() };
  await send(target, { method: 'PUT', path: '/raw' });
  for (const key of ['a', 'b', 'c', 'd']) {
    const { headers } = await send(target, { method: 'PUT', path: `/raw/${key}`, body: key });
    indexes.push(String(headers['x-bursar-receipt']));
  }
});

afterAll(async () => {
  await place.remove();
  await gateway.stop();
});

function run(...args: string[]): Promise<Outcome> {
  const { endpoint, accessKeyId, secretAccessKey } = gateway;
  return place.run(args, {
    BURSAR_ENDPOINT: endpoint,
    BURSAR_ACCESS_KEY_ID: accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: secretAccessKey,
  });
}

const [at0, at1, at2] = [0, 1, 2].map((place) => () => String(indexes[place])) as [
  ...[() => string, () => string, () => string],
];

describe('bursar receipt show', () => {
  it('prints or writes a receipt that verifies by what bursar log key prints', async () => {
    const printed = await run('receipt', 'show', at0());
    expect(printed).toMatchObject({ code: 0, stderr: '' });
    const file = join(place.folder, 'a.tlog-proof');
    expect(await run('receipt', 'show', at0(), '--out', file)).toMatchObject({
      code: 0,
      stdout: '',
    });
    const { stdout } = await run('log', 'key');
    const keys = parseVerifiers(stdout, ed25519) ?? [];
    for (const text of [printed.stdout, readFileSync(file, 'utf8')]) {
      expect(verifyReceipt(text, { keys })).toMatchObject({ ok: true, record: { key: 'a' } });
    }
  });

  it.each([
    ['999999', 1, /NoSuchRecord/],
    ['-1', 2, /./],
    ['01', 2, /whole number/],
    ['x', 2, /whole number/],
  ])('of %s says why there is none', async (index, code, why) => {
    const outcome = await run('receipt', 'show', '--', index);
    expect(outcome).toMatchObject({ code, stdout: '' });
    expect(outcome.stderr).toMatch(why);
  });

  it('says where it cannot write', async () => {
    const outcome = await run('receipt', 'show', at0(), '--out', '/nowhere/a');
    expect(outcome).toMatchObject({ code: 1, stdout: '' });
    expect(outcome.stderr).toMatch(/cannot write \/nowhere\/a/);
  });
});

describe('bursar log', () => {
  it('status shows origin, size, root and keys, for people and as JSON', async () => {
    const { stdout } = await run('log', 'show');
    expect(stdout).toMatch(/^origin {3}bursar\/[0-9a-f]{32}\nrecords {2}\d+\nroot {5}\S{44}\n/);
    expect(stdout).toMatch(/^key {6}[0-9a-f]{8} {2}active {2}since \d{4}-/m);
    const state = JSON.parse((await run('log', 'show', '--json')).stdout);
    expect(state).toMatchObject({ refusal: null, keys: [{ state: 'active' }], witnesses: [] });
  });

  it('key --all lists each key with its state', async () => {
    const { stdout } = await run('log', 'key', '--all');
    expect(stdout.split('\n')[0]).toMatch(/^ID +STATE +CREATED +ENDED +VERIFIER$/);
    const { keys } = JSON.parse((await run('log', 'key', '--json')).stdout);
    expect(stdout).toContain(keys[0].verifier);
  });
});

describe('there is no receipt', () => {
  const receiptOf = async (index: string) => {
    const { status, text } = await send(target, { method: 'GET', path: `/_/v1/receipts/${index}` });
    return [status, status === 200 ? null : JSON.parse(text).code];
  };

  /** While a column of record 1 is another in the database. */
  async function whileAltered(column: string, value: string, look: () => Promise<void>) {
    const file = join(gateway.dataDir, 'bursar.db');
    const db = openDatabase(file, { readonly: false, cacheKib: 1024 });
    const index = Number(at1());
    const read = `SELECT ${column} AS was FROM records WHERE idx = ?`;
    const before = await db.tx.get<{ was: string | Buffer | null }>(read, index);
    try {
      await db.tx.run(`UPDATE records SET ${column} = ${value} WHERE idx = ?`, index);
      await look();
    } finally {
      const undo = `UPDATE records SET ${column} = ? WHERE idx = ?`;
      await db.tx.run(undo, before?.was ?? null, index);
      db.close();
    }
  }

  it.each([
    ['record', "json_set(record, '$.size', 1000)"],
    ['salt', "x'00112233445566778899aabbccddeeff'"],
    ['bucket_tenant', "'default'"],
  ])(
    'of a record whose %s was altered in the database, until that is undone',
    async (...altered) => {
      await whileAltered(...altered, async () => {
        expect(await receiptOf(at1())).toEqual([500, 'BursarIntegrityError']);
      });
      expect(await receiptOf(at1())).toEqual([200, null]);
    },
  );

  it('that an altered commitment would make false: those of the records beside it', async () => {
    await whileAltered('commitment', 'randomblob(32)', async () => {
      expect(await receiptOf(at0())).toEqual([500, 'BursarIntegrityError']);
    });
    expect(await receiptOf(at0())).toEqual([200, null]);
  });

  it('of a record that was erased; the others have theirs, and the log goes on', async () => {
    const erasure = { indexes: [Number(at2())], reason: 'a person asked for it' };
    await callNative(target, 'POST', '/_/v1/tenants/default/erasures', erasure);
    expect(await receiptOf(at2())).toEqual([410, 'RecordErased']);
    for (const index of indexes.filter((one) => one !== at2())) {
      expect(await receiptOf(index)).toEqual([200, null]);
    }
  });
});
