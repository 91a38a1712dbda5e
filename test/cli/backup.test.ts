// `bursar backup`: what a second one costs, what is said of damage, what pruning leaves, and what
// is left by one that was killed.
import { spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openManifest, sealManifest } from '#bursar/backup/manifest.js';
import { PieceSealer } from '#bursar/backup/pieces.js';
import { openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { S3Client } from '../fault/s3-client.ts';
import { CatalogEditor } from '../tooling/attacks.ts';
import { listFiles, seededBytes } from '../tooling/files.ts';
import {
  environmentWithoutSettings,
  type ServedGateway,
  startServedGateway,
} from '../tooling/served-gateway.ts';
import { Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const work = new Workplace();
const at = (name: string) => join(work.folder, name);
const [place, data] = [at('place'), at('data')];
let gateway: ServedGateway;
let client: S3Client;

interface Made {
  id: string;
  written: { count: number; bytes: number };
  copiedExtents: number;
  databaseBytes: number;
  extents: { count: number } | null;
}

async function create(args: string[] = [], to = place): Promise<Made> {
  const made = await work.run(['backup', 'create', to, '--data', data, '--json', ...args]);
  expect(made.code, made.stderr).toBe(0);
  return JSON.parse(made.stdout);
}

async function list(): Promise<string[]> {
  const { stdout } = await work.run(['backup', 'list', place, '--data', data, '--json']);
  return (JSON.parse(stdout) as Made[]).map(({ id }) => id);
}

async function verify(args: string[] = []) {
  const { code, stdout } = await work.run([
    'backup',
    'verify',
    place,
    ...args,
    '--data',
    data,
    '--json',
  ]);
  return {
    code,
    faults: (JSON.parse(stdout) as { faults: { what: string; name: string }[] }[])[0]?.faults,
  };
}

async function put(key: string, sizeBytes: number): Promise<void> {
  const { status } = await client.send('PUT', `/bucket/${key}`, {
    body: seededBytes(sizeBytes, sizeBytes),
  });
  expect(status).toBe(200);
}

beforeAll(async () => {
  gateway = await startServedGateway({
    dataDir: data,
    args: ['--sweep-grace', '0s', '--sweep-interval', '200ms'],
  });
  client = new S3Client(gateway);
  await client.send('PUT', '/bucket');
  for (let i = 0; i < 60; i++) await put(`small ${i}`, 60_000 + i);
  for (let i = 0; i < 3; i++) await put(`large ${i}`, 300_000 + i);
});
afterAll(async () => {
  client.close();
  await gateway.stop();
  work.remove();
});

describe('bursar backup', () => {
  it('copies only what is new when it is made again', async () => {
    const first = await create();
    expect(first.extents?.count).toBe(3);
    expect(first.copiedExtents).toBe(3);
    await put('another', 310_000);
    const second = await create();
    expect(second.copiedExtents).toBe(1);
    // Some pieces of several: the database's first one, and those that have the new rows.
    expect(second.written.bytes).toBeLessThan(first.written.bytes / 2 + 1024 * 1024);
    const third = await create(['--catalog-only']);
    expect(third.extents).toBeNull();
    expect(await list()).toEqual([first.id, second.id, third.id]);
    expect(await verify(['--all'])).toEqual({ code: 0, faults: [] });
  });

  it('copies with --copy also what it had linked', async () => {
    const links = () =>
      listFiles(join(place, 'extent-files')).filter((file) => statSync(file).nlink > 1).length;
    await create();
    expect(links()).toBeGreaterThan(0);
    const linked = links();
    expect((await create(['--copy'])).copiedExtents).toBe(linked);
    expect(links()).toBe(0);
    expect((await create(['--copy'])).copiedExtents).toBe(0);
    expect(await verify()).toEqual({ code: 0, faults: [] });
  });

  it('says what of it is missing, cut or altered, and the next one puts it right', async () => {
    // What is there is this one's then.
    await create(['--keep', '1']);
    const pieces = listFiles(join(place, 'pieces')).sort();
    const extents = listFiles(join(place, 'extent-files')).sort();
    const kept = at('kept');
    cpSync(place, kept, { recursive: true });
    const damage = async (file: string, harm: () => void, what: string) => {
      harm();
      const { code, faults } = await verify();
      expect(code).toBe(1);
      expect(faults).toContainEqual(
        expect.objectContaining({ what, name: file.slice(place.length + 1) }),
      );
      rmSync(place, { recursive: true });
      cpSync(kept, place, { recursive: true });
    };
    for (const piece of [pieces[0], pieces.at(-1)] as string[]) {
      await damage(piece, () => rmSync(piece), 'missing');
      await damage(piece, () => truncateSync(piece, 40), 'altered');
      await damage(piece, () => writeFileSync(piece, seededBytes(1, 300)), 'altered');
    }
    const [extent = ''] = extents;
    const cut = () => {
      // The data folder's stays as it is.
      rmSync(extent);
      writeFileSync(extent, seededBytes(1, 300));
    };
    await damage(extent, cut, 'cut');
    await damage(extent, () => rmSync(extent), 'missing');
    rmSync(pieces[0] as string);
    rmSync(extent);
    await create();
    expect(await verify()).toEqual({ code: 0, faults: [] });
  });

  it('prunes what no kept backup needs, and nothing else', async () => {
    await client.send('DELETE', '/bucket/large 0');
    await vi.waitUntil(() => listFiles(join(data, 'extents')).length === 3, 20_000);
    const newest = await create();
    const before = listFiles(join(place, 'extent-files')).length;
    const pruned = await work.run([
      'backup',
      'prune',
      place,
      '--keep',
      '1',
      '--data',
      data,
      '--json',
    ]);
    expect(JSON.parse(pruned.stdout)).toMatchObject({ kept: [newest.id] });
    expect(await list()).toEqual([newest.id]);
    expect(listFiles(join(place, 'extent-files')).length).toBe(before - 1);
    expect(await verify()).toEqual({ code: 0, faults: [] });
    const none = await work.run(['backup', 'prune', place, '--keep', '0', '--data', data]);
    expect(none.code).toBe(2);
  });

  it('is no backup when it was killed, and in nobody’s way', async () => {
    const known = await list();
    for (const step of ['copying the database', 'writing the copy of the database']) {
      await put(`because of ${step}`, 61_000);
      await killAt(['backup', 'create', place, '--data', data, '--rate', '1MiB'], step);
      expect(await list()).toEqual(known);
    }
    await killAt(['backup', 'prune', place, '--data', data, '--keep', '1'], 'removing files');
    expect((await verify()).code).toBe(0);
    const made = await create();
    expect(await list()).toEqual([...known, made.id]);
    expect(existsSync(join(place, 'incoming'))).toBe(false);
  });

  it('is made by one process at a time', async () => {
    const slow = spawnCli(['backup', 'create', place, '--data', data, '--rate', '100KiB']);
    await vi.waitUntil(() => existsSync(join(place, 'incoming')), 20_000);
    slow.kill('SIGSTOP');
    const pruning = await work.run(['backup', 'prune', place, '--data', data, '--keep', '1']);
    expect(pruning.code).toBe(1);
    expect(pruning.stderr).toContain('another process works in');
    slow.kill('SIGKILL');
  });

  it('refuses places and keys that are not its own, and says why', async () => {
    mkdirSync(at('other'));
    writeFileSync(at('other/file'), '');
    const full = await work.run(['backup', 'create', at('other'), '--data', data]);
    expect(full).toMatchObject({ code: 1, stderr: expect.stringContaining('no place of backups') });
    const none = await work.run(['backup', 'list', at('nowhere'), '--data', data]);
    expect(none).toMatchObject({ code: 1, stderr: expect.stringContaining('has no backups') });
    const keyless = await work.run(['backup', 'list', place, '--data', at('empty')]);
    expect(keyless).toMatchObject({ code: 1, stderr: expect.stringContaining('root keys') });
    const unsealed = await work.run(['backup', 'create', place, '--data', data, '--with-keys']);
    expect(unsealed).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--passphrase-file'),
    });
  });
});

describe('bursar restore', () => {
  it('puts local objects, identities and the log back, with keys under a passphrase', async () => {
    const sealed = at('sealed');
    writeFileSync(at('passphrase'), 'correct horse battery\n');
    writeFileSync(at('wrong'), 'incorrect horse battery\n');
    await create(['--with-keys', '--passphrase-file', at('passphrase')], sealed);
    const restore = (to: string, args: string[]) =>
      work.run(['restore', sealed, '--data', at(to), '--json', ...args]);
    expect(await restore('back', [])).toMatchObject({ code: 2 });
    expect(await restore('back', ['--passphrase-file', at('wrong')])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('do not open'),
    });
    const restored = await restore('back', ['--passphrase-file', at('passphrase')]);
    expect(restored.code, restored.stderr).toBe(0);
    const again = await restore('back', []);
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('is not empty') });
    const { tx, close } = openDatabase(at('back/bursar.db'), { readonly: true, cacheKib: 1024 });
    expect(await tx.get('SELECT name FROM buckets')).toEqual({ name: 'bucket' });
    close();
    const served = await startServedGateway({ dataDir: at('back') });
    const other = new S3Client(served);
    for (const [key, sizeBytes] of [
      ['large 1', 300_001],
      ['small 5', 60_005],
    ] as const) {
      const { status, body } = await other.send('GET', `/bucket/${key}`);
      expect(status).toBe(200);
      expect(body.equals(seededBytes(sizeBytes, sizeBytes))).toBe(true);
    }
    expect((await other.send('PUT', '/bucket/new', { body: Buffer.from('new') })).status).toBe(200);
    other.close();
    await served.stop();
  });

  it('takes no keys that whoever writes to the place has put there as wrapped', async () => {
    const file = readFileSync(join(data, 'keys', 'root-keys.json'), 'utf8');
    const { keys } = JSON.parse(file) as { keys: { epoch: number; key: string }[] };
    const own = keys.map(({ epoch, key }) => ({ epoch, key: Buffer.from(key, 'base64') }));
    const sealer = new PieceSealer(new Keyring(own));
    const [name = ''] = readdirSync(join(at('sealed'), 'backups'));
    const id = name.replace('.json', '');
    const manifest = openManifest(sealer, id, readFileSync(join(at('sealed'), 'backups', name)));
    const planted = sealManifest(sealer, { ...manifest, keys: { form: 'kms', file } });
    cpSync(at('sealed'), at('planted'), { recursive: true });
    writeFileSync(join(at('planted'), 'backups', name), planted);
    const refused = await work.run(['restore', at('planted'), '--data', at('taken')]);
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('are not wrapped by KMS'),
    });
    expect(existsSync(at('taken/keys/root-keys.json'))).toBe(false);
  });

  it('carries on nothing that somebody has edited, unless that is accepted', async () => {
    const catalog = new CatalogEditor(at('back'));
    expect(await catalog.run("UPDATE principals SET role = 'auditor', kind = 'robot'")).toBe(1);
    catalog.close();
    const restore = (args: string[]) =>
      work.run(['restore', '--here', '--data', at('back'), '--json', ...args]);
    const what = 'principal default/admin is not what was stored';
    const refused = await restore([]);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining(what) });
    const done = await restore(['--accept-edited']);
    expect(done.code, done.stderr).toBe(0);
    expect(JSON.parse(done.stdout).accepted).toEqual([what]);
    const check = await work.run(['database', 'check', '--data', at('back')]);
    expect(check.stdout).toContain('who may what and how much is what the gateway stored');
    expect(check.code).toBe(0);
  });
});

const main = resolve('app/main.js');

function spawnCli(args: string[]) {
  return spawn(process.execPath, [main, ...args], {
    cwd: work.folder,
    env: environmentWithoutSettings(),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

function killAt(args: string[], step: string): Promise<void> {
  const child = spawnCli(args);
  child.stderr.on('data', (text: Buffer) => {
    if (text.toString().includes(step)) child.kill('SIGKILL');
  });
  return new Promise((done) => child.once('close', () => done()));
}
