// What notices that something older was put back: parts of a data folder, its store's bucket, rows,
// alone and together. Each row is put back once, and each column is asked; docs/admin/restore.md
// has this table. BURSAR_FULL=1 tries all rows, otherwise those that no other is like.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { parseVerifier } from '#bursar/audit/log/note.js';
import { type RunningWitness, startLitewitness } from '../tooling/litewitness.ts';
import { describeWithTool, litewitness, versitygw } from '../tooling/tools.ts';
import { Admin, type Credentials } from './identities-content.ts';
import { KeptStates } from './put-back.ts';
import { ask } from './rebuild-content.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { S3Client } from './s3-client.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 });

/** Who notices, as the columns of the table. */
const columns = {
  start: 'the start',
  reads: 'reads',
  data: '`verify data`',
  deep: '`verify deep`',
  log: '`verify log`',
  witness: 'a witness',
  receipt: 'a receipt',
} as const;

type Column = keyof typeof columns;
/** Of the start: it signs nothing and takes no write; or it only says what is wrong. */
type Start = 'stops' | 'says';
type Noticed = { start: Start | null } & Record<Exclude<Column, 'start'>, boolean>;

const noticed = (start: Start | null, ...who: Exclude<Column, 'start'>[]): Noticed => ({
  ...{ start, reads: who.includes('reads'), data: who.includes('data') },
  ...{ deep: who.includes('deep'), log: who.includes('log') },
  ...{ witness: who.includes('witness'), receipt: who.includes('receipt') },
});

const ofLog = ['log', 'witness', 'receipt'] as const;
const isDatabase = (name: string): boolean => name.startsWith('bursar.db');
const isCheckpoint = (name: string): boolean => name === 'log-checkpoint';
const isEither = (name: string): boolean => isDatabase(name) || isCheckpoint(name);
const catalog = ['versions', 'ended_versions', 'superseded', 'extents'];
const seals = ['seals', 'seal_heads', 'seal_roots'];
const counters = ['quota_accounts', 'quota_windows'];

const rows: [string, (older: KeptStates) => void, Noticed][] = [
  ['the database', (older) => older.putFilesBack(isDatabase), noticed('stops', 'deep', ...ofLog)],
  ['the kept checkpoint', (older) => older.putFilesBack(isCheckpoint), noticed(null)],
  ['the bucket', (older) => older.putBucketBack(), noticed('says', 'reads', 'data', 'deep')],
  [
    'the database and the kept checkpoint',
    (older) => older.putFilesBack(isEither),
    noticed('stops', ...ofLog),
  ],
  [
    'the database and the bucket',
    (older) => {
      older.putFilesBack(isDatabase);
      older.putBucketBack();
    },
    noticed('stops', 'deep', ...ofLog),
  ],
  ['the whole folder', (older) => older.putFilesBack(() => true), noticed('stops', ...ofLog)],
  [
    'the whole folder, after writes to the local store alone',
    (older) => older.putFilesBack(() => true, 'lately'),
    noticed('stops', ...ofLog),
  ],
  [
    'the whole folder and the bucket',
    (older) => {
      older.putFilesBack(() => true);
      older.putBucketBack();
    },
    noticed(null, ...ofLog),
  ],
  [
    'rows of objects',
    (older) => older.putRowsBack(['versions']),
    noticed(null, 'reads', 'data', 'deep'),
  ],
  ['all tables of objects', (older) => older.putRowsBack(catalog), noticed(null, 'deep')],
  [
    'rows of who may what',
    (older) => older.putRowsBack(['grants']),
    noticed('says', 'reads', 'deep'),
  ],
  [
    'limits and counters of an account',
    (older) => older.putRowsBack(counters, "account = 'tenant:cms'"),
    noticed('says', 'reads', 'data', 'deep'),
  ],
  [
    'counters of an account',
    (older) => older.putRowsBack(counters, "account = 'tenant:default'"),
    noticed('says', 'reads', 'data', 'deep'),
  ],
  [
    'who may what, limits, counters, and all seals',
    (older) => older.putRowsBack(['grants', ...counters, ...seals]),
    noticed('says', 'reads', 'data', 'deep'),
  ],
  ['sums by day', (older) => older.putRowsBack(['usage_days']), noticed(null, 'deep')],
];

const isFull = process.env.BURSAR_FULL === '1';
const alike = [
  'the kept checkpoint',
  'the database and the bucket',
  'limits and counters of an account',
  'counters of an account',
  'sums by day',
];
const tried = rows.filter(([what]) => isFull || !alike.includes(what));

const shown = (value: Start | boolean | null): string =>
  ({ stops: '**stops**', says: 'says so', true: 'yes' })[String(value)] ?? '';

function renderTable(): string {
  const line = (cells: string[]): string => `| ${cells.join(' | ')} |`.replaceAll('  |', ' |');
  const names = Object.keys(columns) as Column[];
  return [
    line(['put back', ...Object.values(columns)]),
    `|${'---|'.repeat(names.length + 1)}`,
    ...rows.map(([what, , cells]) => line([what, ...names.map((one) => shown(cells[one]))])),
  ].join('\n');
}

it('what notices that something older was put back is in the documents as it is tried here', () => {
  expect(readFileSync('docs/admin/restore.md', 'utf8')).toContain(`\n${renderTable()}\n`);
});

describeWithTool(versitygw, 'something older that is put back', (path) => {
  describeWithTool(litewitness, 'beside a witness', (witnessPath) => {
    let rig: RebuildRig;
    let admin: Admin;
    let older: KeptStates;
    let witness: RunningWitness;
    let alice: Credentials;
    const folder = mkdtempSync(join(tmpdir(), 'bursar-kept-'));
    const [key, kept, received] = ['log.key', 'kept', 'received'].map((name) => join(folder, name));

    beforeAll(async () => {
      rig = await RebuildRig.start(path);
      admin = new Admin(rig);
      older = new KeptStates(rig);
      witness = await startLitewitness(witnessPath, 'witness.test/one');
      await rig.serve();
      const { body } = await ask(rig.client, 'GET', '/_/log/key');
      const [line = ''] = body.toString().split('\n');
      writeFileSync(key as string, body);
      await witness.knowLog(parseVerifier(line)?.name ?? '', line);
      await admin.call('POST', 'tenants', { name: 'cms' });
      await admin.call('POST', 'tenants/cms/principals', { name: 'alice', role: 'admin' });
      alice = await admin.newKey('cms', 'alice');
      await ask(rig.client, 'PUT', '/near', { headers: { 'x-bursar-store': 'local' } });
      await ask(rig.client, 'PUT', '/far');
      await asAlice((client) => ask(client, 'PUT', '/hers'));
      await write('then');
      await rig.stopGateway();
      older.keep('then');
      await rig.serve(['--witness', witness.setting]);
      await write('now');
      await rig.stopGateway();
      older.keep('lately');
      await rig.serve(['--witness', witness.setting]);
      const { headers } = await ask(rig.client, 'PUT', '/near/last', { body: Buffer.from('x') });
      const index = String(headers['x-bursar-receipt']);
      const receipt = await ask(rig.client, 'GET', `/_/v1/receipts/${index}`);
      writeFileSync(received as string, receipt.body);
      const checkpoint = await ask(rig.client, 'GET', '/_/log/checkpoint');
      writeFileSync(kept as string, checkpoint.body);
      await vi.waitFor(async () => {
        const { body: log } = await ask(rig.client, 'GET', '/_/v1/log');
        const { witnesses } = JSON.parse(log.toString());
        expect(witnesses[0].cosignedSize).toBeGreaterThan(Number(index));
      }, 60_000);
      await rig.stopGateway();
      older.keep('now');
    });
    afterAll(async () => {
      await rig?.stop();
      await witness?.stop();
      older?.remove();
      rmSync(folder, { recursive: true });
    });

    async function asAlice<T>(work: (client: S3Client) => Promise<T>): Promise<T> {
      const client = new S3Client({ endpoint: rig.gateway.endpoint, ...alice });
      try {
        return await work(client);
      } finally {
        client.close();
      }
    }

    /** Objects in both stores, a limit, and a grant that is taken back. */
    async function write(text: 'then' | 'now'): Promise<void> {
      for (const bucket of ['near', 'far']) {
        await ask(rig.client, 'PUT', `/${bucket}/object`, { body: Buffer.alloc(99_999, text) });
      }
      await asAlice((client) => ask(client, 'PUT', '/hers/object', { body: Buffer.from(text) }));
      const day = text === 'then' ? 90_000 : 80_000;
      await admin.call('PUT', 'limits/tenant:cms', { requests: { day } });
      const rule = { effect: 'allow', actions: ['s3:GetObject'], bucket: 'hers' };
      const path = 'tenants/cms/grants/all';
      if (text === 'then') await admin.call('PUT', path, { ...rule, subjects: ['anyone'] });
      else await admin.call('DELETE', path);
    }

    async function lookAtStart(): Promise<Start | null> {
      const answer = await fetch(`${rig.gateway.endpoint}/_/health`);
      const { problems } = (await answer.json()) as { problems: string[] };
      const isSigned = !problems.includes('The log is not signed.');
      for (const bucket of ['near', 'far']) {
        const { status } = await rig.client.send('PUT', `/${bucket}/new`, {
          body: Buffer.from('new'),
        });
        if (!isSigned) expect(status, bucket).toBe(503);
      }
      if (!isSigned) return 'stops';
      const isLost = /journal of store s3: .* is not there any more/.test(rig.gateway.output());
      return isLost || problems.includes('Stored data was found damaged.') ? 'says' : null;
    }

    async function areReadsRefused(): Promise<boolean> {
      const statuses = await Promise.all([
        ...['near', 'far'].map(
          async (one) => (await rig.client.send('GET', `/${one}/object`)).status,
        ),
        asAlice(async (client) => (await client.send('GET', '/hers/object')).status),
      ]);
      return statuses.includes(500);
    }

    async function lookAtFolder() {
      const fork = ['log', 'fork-point', '--data', rig.dataDir, '--json'];
      const asked = ['--checkpoint', received as string, '--witness', witness.setting];
      const [deep, seen] = await Promise.all([
        rig.run(['verify', 'deep']),
        rig.runPlain([...fork, ...asked]),
      ]);
      expect(seen.code, seen.stderr).toBe(0);
      const { sightings } = JSON.parse(seen.stdout) as {
        sightings: { by: string; relation: string }[];
      };
      const isOff = (by: string | undefined) =>
        sightings.some((one) => one.by === by && /longer|another/.test(one.relation));
      return {
        ...{ deep: deep.code !== 0, receipt: isOff(received), witness: isOff('witness.test/one') },
        told: deep.stdout + JSON.stringify(sightings),
      };
    }

    async function look(): Promise<Noticed & { told: string }> {
      const still = await lookAtFolder();
      await rig.serve();
      const start = await lookAtStart();
      const reads = await areReadsRefused();
      const { accessKeyId, secretAccessKey, endpoint } = rig.gateway;
      const [data, log] = await Promise.all([
        rig.runPlain(['verify', 'data', '--endpoint', endpoint], {
          BURSAR_ACCESS_KEY_ID: accessKeyId,
          BURSAR_SECRET_ACCESS_KEY: secretAccessKey,
        }),
        rig.runPlain([
          ...['verify', 'log', `${endpoint}/_/log`],
          ...['--key', key as string, '--since', kept as string],
        ]),
      ]);
      await rig.stopGateway();
      const told = still.told + data.stdout + data.stderr + log.stdout + log.stderr;
      return { ...still, start, reads, data: data.code !== 0, log: log.code !== 0, told };
    }

    it.each(tried)('%s: who notices that it was put back', async (_, putBack, expected) => {
      older.bringNowBack();
      putBack(older);
      const { told, ...found } = await look();
      expect(found, told).toEqual(expected);
    });

    it('is served again, with what its store was given since, once that is decided', async () => {
      const isOlder =
        /are refused: the database is an older copy: store s3: .* \(bursar restore --here\)/;
      older.bringNowBack();
      older.putFilesBack(() => true);
      const backups = join(folder, 'backups');
      await rig.serve(['--backup-to', backups]);
      await expect.poll(() => rig.gateway.output()).toMatch(isOlder);
      expect(await lookAtStart()).toBe('stops');
      await rig.stopGateway();
      // It would be the newest of them, and of an older state.
      expect(existsSync(backups)).toBe(false);
      const renamed = ['log', 'restart', '--origin', 'log.test/other', '--reason', 'a test'];
      const other = await rig.runPlain([...renamed, '--data', rig.dataDir]);
      expect(other.code, other.stderr).toBe(0);
      await rig.serve();
      expect(await lookAtStart()).toBe('stops');
      await rig.stopGateway();
      const restored = await rig.run(['restore', '--here', '--json']);
      expect(restored.code, restored.stderr).toBe(0);
      await rig.serve();
      expect(await lookAtStart()).toBeNull();
      const { body } = await rig.client.send('GET', '/far/object');
      expect(body.equals(Buffer.alloc(99_999, 'now'))).toBe(true);
    });
  });
});
