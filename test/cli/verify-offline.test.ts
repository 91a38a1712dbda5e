// `bursar verify receipt`, `log` and `bundle` as auditors run them, and what they catch of a
// database that was altered behind the gateway's back.
import { hash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { makeTenant } from '../fault/integrity-client.ts';
import { S3Client } from '../fault/s3-client.ts';
import { type Outcome, type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const keys = {
  accessKeyId: 'VERIFYTESTACCESSKEY0',
  secretAccessKey: 'a-secret-of-the-operator-0123456789',
};
const rootKeys = {
  BURSAR_ROOT_ACCESS_KEY: keys.accessKeyId,
  BURSAR_ROOT_SECRET_KEY: keys.secretAccessKey,
};
const flags = ['--prices', 'none', '--sweep-interval', '1h'];

let place: Workplace;
let served: Served;
let log: string;
let key: string;

beforeAll(async () => {
  place = new Workplace();
  await start();
  const client = new S3Client({ endpoint: served.endpoint, ...keys });
  const cms = await makeTenant(client, { endpoint: served.endpoint, ...keys }, 'cms');
  await cms.send('PUT', '/raw');
  for (let i = 0; i < 5; i += 1) {
    const { status } = await cms.send('PUT', `/raw/line\u2028end${i}`, {
      body: Buffer.from('x'),
    });
    expect(status).toBe(200);
  }
  client.close();
  cms.close();
  key = (await (await fetch(`${log}/key`)).text()).trim();
  writeFileSync(file('log.key'), `${key}\n`);
});

afterAll(() => place.remove());

async function start(): Promise<void> {
  served = await place.serve(flags, rootKeys);
  log = `${served.endpoint}/_/log`;
}

const file = (name: string) => join(place.folder, name);

/** With nothing that leads to a gateway. */
async function verify(...args: string[]): Promise<Outcome> {
  const outcome = await place.run(['verify', ...args], { BURSAR_ENDPOINT: 'http://127.0.0.1:1' });
  expect(outcome.stderr).not.toContain('    at ');
  return outcome;
}

async function bursar(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await place.run(args);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return stdout;
}

async function change(name: string, to: string, edit: (text: string) => string): Promise<string> {
  const text = readFileSync(file(name), 'utf8');
  const changed = edit(text);
  expect(changed).not.toBe(text);
  writeFileSync(file(to), changed);
  return to;
}

describe('bursar verify receipt', () => {
  it('says what the receipt proves and what it does not, without a gateway', async () => {
    await bursar('receipt', 'show', '5', '--out', 'five');
    const found = await verify('receipt', 'five', '--key', 'log.key');
    expect(found).toMatchObject({ code: 0, stderr: '' });
    const [proves, provesNot, ...rest] = found.stdout.split('\n');
    expect(proves).toMatch(
      /^It proves that record 5 of the log bursar\/.* cms\/boss did s3:Put.*$/,
    );
    expect(proves).toContain('raw/line\\u2028end');
    expect(provesNot).toMatch(/^It does not prove that cms\/boss asked for it, since the gateway/);
    expect(rest).toContain('  tenant: cms');
    const json = await verify('receipt', 'five', '--key', key, '--json');
    expect(JSON.parse(json.stdout)).toMatchObject({
      ...{ ok: true, proves: expect.stringContaining('record 5'), index: 5 },
      ...{ evidence: 'none', enrolledKey: null, record: { index: 5, bucket: 'raw' } },
      checkpoint: { keyIds: [key.split('+')[1]], witnesses: [] },
    });
  });

  it('fails in one line where nothing is proven, with another code if asked wrongly', async () => {
    const altered = await change('five', 'altered', (text) => text.replace('index 5', 'index 4'));
    const found = await verify('receipt', altered, '--key', 'log.key');
    expect(found).toMatchObject({ code: 1, stdout: '' });
    expect(found.stderr).toMatch(/^bursar: altered proves nothing: .* entry 4 is another\n$/);
    const json = await verify('receipt', altered, '--key', 'log.key', '--json');
    expect(JSON.parse(json.stdout)).toEqual({ ok: false, why: expect.stringMatching(/entry 4/) });
    const wrongly: [string[], RegExp][] = [
      [['five'], /Give the log's key with --key/],
      [['five', '--key', 'five'], /not the verifier line of a log/],
      [['five', '--key', 'nowhere'], /nowhere is not the verifier line of a log .*, nor a file/],
      [['nowhere', '--key', 'log.key'], /no such file/],
      [['five', '--key', 'log.key', '--witness', 'log.key'], /verifier line of a witness/],
      [['five', '--key', 'log.key', '--witnesses-min', '1'], /asks for more than the 0/],
      [['five', '--keys', 'log.key'], /not what GET/],
    ];
    for (const [args, expected] of wrongly) {
      const outcome = await verify('receipt', ...args);
      expect(outcome).toMatchObject({ code: 2, stdout: '' });
      expect(outcome.stderr).toMatch(expected);
    }
    const enrolment = await verify('receipt', 'five', '--key', key, '--enrolment', 'five');
    expect(enrolment).toMatchObject({ code: 1, stdout: '' });
    expect(enrolment.stderr).toMatch(/proves no signature by an enrolled key/);
  });
});

describe('bursar verify log', () => {
  it('verifies a log over HTTP and as files, keeps its checkpoint only when told to', async () => {
    const before = readdirSync(place.folder);
    const found = await verify('log', log, '--key', 'log.key');
    expect(found).toMatchObject({ code: 0, stderr: '' });
    expect(found.stdout).toMatch(/^\d+ entries of bursar\/.*, all as they were signed/);
    expect(found.stdout).toMatch(/nothing was compared with before/);
    expect(readdirSync(place.folder)).toEqual(before);
    expect(await verify('log', log, '--key', key, '--keep', 'kept')).toMatchObject({ code: 0 });
    const first = readFileSync(file('kept'), 'utf8');
    expect(first).toBe(await (await fetch(`${log}/checkpoint`)).text());
    await bursar('tenant', 'create', 'other');
    await bursar('log', 'export', 'copy', '--key', 'log.key');
    const args = ['copy', '--key', 'log.key', '--since', 'kept', '--json'];
    const json = JSON.parse((await verify('log', ...args)).stdout);
    expect(json).toMatchObject({ ok: true, since: [Number(first.split('\n')[1])] });
    expect(json.size).toBeGreaterThan(json.since[0]);
    expect(readFileSync(file('kept'), 'utf8')).toBe(first);
  });

  it('names what is damaged, and keeps nothing of it', async () => {
    const [bundle = ''] = readdirSync(file('copy/tile/entries/000.p'));
    const path = `copy/tile/entries/000.p/${bundle}`;
    const bytes = readFileSync(file(path));
    bytes[60] = (bytes[60] as number) ^ 1;
    writeFileSync(file(path), bytes);
    const found = await verify('log', 'copy', '--key', key, '--keep', 'never');
    expect(found).toMatchObject({ code: 1, stdout: 'entry 0 was altered\n' });
    expect(found.stderr).toBe('bursar: copy: it is not the log that was signed: findings: 1\n');
    expect(existsSync(file('never'))).toBe(false);
    const json = JSON.parse((await verify('log', 'copy', '--key', key, '--json')).stdout);
    expect(json).toMatchObject({ ok: false, findings: ['entry 0 was altered'] });
  });

  it('fails where there is no log, and for a checkpoint that was not signed', async () => {
    expect((await verify('log', '.', '--key', key)).stderr).toMatch(/no file "checkpoint"/);
    expect((await verify('log', 'http://127.0.0.1:1/_/log', '--key', key)).stderr).toMatch(
      /^bursar: cannot read http:.*\n$/,
    );
    const forged = await change('kept', 'forged', (text) => text.replace(/\n(\d+)\n/, '\n1$1\n'));
    const found = await verify('log', log, '--key', key, '--since', forged);
    expect(found).toMatchObject({ code: 1, stdout: '' });
    expect(found.stderr).toMatch(/^bursar: forged: .*forged or damaged/);
  });
});

describe('bursar verify bundle', () => {
  it('counts the records, and finds one that is altered or missing', async () => {
    await bursar('audit', 'export', 'cms', '--out', 'cms.jsonl');
    const found = await verify('bundle', 'cms.jsonl', '--key', 'log.key');
    expect(found).toMatchObject({ code: 0, stderr: '' });
    expect(found.stdout).toMatch(/^all 6 records of cms, log indexes 0 to before/);
    const json = JSON.parse((await verify('bundle', 'cms.jsonl', '--key', key, '--json')).stdout);
    expect(json).toMatchObject({ ok: true, records: 6, erased: 0, evidence: { none: 6 } });

    await change('cms.jsonl', 'altered', (text) => text.replace('end3', 'end9'));
    await change('cms.jsonl', 'missing', (text) => text.replace(/\n\{"index":5[^\n]*/, ''));
    await change('cms.jsonl', 'cut', (text) => text.slice(0, -20));
    const cases = { altered: /was logged/, missing: /record 5 is missing/, cut: /nothing that a/ };
    for (const [name, expected] of Object.entries(cases)) {
      const outcome = await verify('bundle', name, '--key', 'log.key');
      expect(outcome).toMatchObject({ code: 1, stderr: `bursar: ${name} is not to be believed\n` });
      expect(outcome.stdout).toMatch(expected);
    }
    const bytes = readFileSync(file('cms.jsonl'));
    writeFileSync(file('bytes'), Buffer.concat([bytes, Buffer.of(0xff, 0x0a)]));
    expect(await verify('bundle', 'bytes', '--key', key)).toMatchObject({ code: 1 });
    expect(await verify('bundle', 'nowhere', '--key', key)).toMatchObject({ code: 2 });
  });
});

describe("the log's keys", () => {
  it('can be rotated: what was kept and received before stays valid', async () => {
    await bursar('log', 'rotate-key', '--overlap', '0s');
    await bursar('receipt', 'show', '5', '--out', 'five-anew');
    const keyNow = (await bursar('log', 'key')).trim();
    writeFileSync(file('both.key'), `${keyNow}\n`);
    expect(keyNow.split('\n')).toHaveLength(2);
    expect(await verify('receipt', 'five', '--key', 'both.key')).toMatchObject({ code: 0 });
    expect(await verify('receipt', 'five-anew', '--key', 'both.key')).toMatchObject({ code: 0 });
    const old = await verify('receipt', 'five-anew', '--key', 'log.key');
    expect(old.stderr).toMatch(/not signed with any key that you gave/);
    const args = ['--key', 'both.key', '--since', 'kept'];
    expect(await verify('log', log, ...args)).toMatchObject({ code: 0 });
  });

  it('can be revoked: no verifier that has the published keys believes them then', async () => {
    await bursar('log', 'revoke-key', String(key.split('+')[1]));
    const client = new S3Client({ endpoint: served.endpoint, ...keys });
    const published = await client.send('GET', '/_/v1/log/keys');
    client.close();
    writeFileSync(file('keys.json'), published.body);
    const found = await verify('receipt', 'five', '--key', 'log.key', '--keys', 'keys.json');
    expect(found).toMatchObject({ code: 1, stdout: '' });
    expect(found.stderr).toMatch(/signed with the key [0-9a-f]{8}, which was revoked/);
    const anew = await verify('receipt', 'five-anew', '--keys', 'keys.json');
    expect(anew).toMatchObject({ code: 0, stderr: '' });
    const args = ['--keys', 'keys.json', '--since', 'kept', '--keep', 'kept-anew'];
    expect(await verify('log', log, ...args)).toMatchObject({ code: 0, stderr: '' });
  });
});

interface Row {
  time_ms: number;
  tenant: string;
  bucket_tenant: string | null;
  commitment: Buffer;
  salt: Buffer;
  record: string;
}

/** As somebody would who has the data folder, the log's private key in it, and time. */
describe('a log that was rewritten in the database, and signed again', () => {
  let original: Row[];

  // The gateway notices by the seals that records are gone; its own of that may make the log as
  // long again.
  it.each<[string, RegExp, (rows: Row[]) => Row[]]>([
    ['a record was altered', /rewritten/, (all) => all.with(5, forge(all, { status: 403 }))],
    ['one was removed', /rolled back|rewritten/, (all) => all.toSpliced(5, 1)],
    ['one was inserted', /rewritten/, (all) => all.toSpliced(5, 0, forge(all, { size: 7 }))],
    ['two changed places', /rewritten/, (all) => all.toSpliced(5, 2, ...all.slice(5, 7).reverse())],
    ['the newest were removed', /rolled back|rewritten/, (all) => all.slice(0, -2)],
  ])('shows to who kept a checkpoint: %s', async (_, expected, attack) => {
    await served.stop();
    await rewrite(attack);
    await start();
    expect(await verify('log', log, '--keys', 'keys.json')).toMatchObject({ code: 0, stderr: '' });
    const found = await verify('log', log, '--keys', 'keys.json', '--since', 'kept-anew');
    expect(found).toMatchObject({ code: 1, stdout: '' });
    expect(found.stderr).toMatch(expected);
  });

  it('is true again when it is put back', async () => {
    await served.stop();
    await rewrite((all) => all);
    await start();
    const found = await verify('log', log, '--keys', 'keys.json', '--since', 'kept-anew');
    expect(found).toMatchObject({ code: 0, stderr: '' });
  });

  function forge(rows: Row[], members: object): Row {
    const row = rows[5] as Row;
    return { ...row, record: JSON.stringify({ ...JSON.parse(row.record), ...members }) };
  }

  /** From what there was before the first attack; the gateway's own memory of it goes as well. */
  async function rewrite(attack: (rows: Row[]) => Row[]): Promise<void> {
    rmSync(join(place.data, 'log-checkpoint'));
    const db = openDatabase(join(place.data, 'bursar.db'), { readonly: false, cacheKib: 1024 });
    original ??= await db.tx.all<Row>('SELECT * FROM records ORDER BY idx');
    await db.tx.run('DELETE FROM records');
    for (const [index, row] of attack(original).entries()) {
      const { time_ms, tenant, bucket_tenant, salt } = row;
      const record = row.record.replace(/"index":\d+/, `"index":${index}`);
      const commitment = hash('sha256', Buffer.concat([salt, Buffer.from(record)]), 'buffer');
      const values = [index, time_ms, tenant, bucket_tenant, commitment, salt, record];
      await db.tx.run('INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, NULL)', ...values);
    }
    db.close();
  }
});
