// `bursar records` on a log that is long, and on names that are made to deceive who reads them.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { RecordLog } from '#bursar/audit/record-log.js';
import { openDatabase } from '#bursar/core/database.js';
import { printable } from '#bursar/core/printable.js';
import { type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const place = new Workplace();
let served: Served;

/** More records than one call looks at, each about nothing, and a few that somebody looks for. */
const many = 25_000;
const names = ['\u202egpj.exe', 'c\u009b31mred', 'esc\u001b[2Jcleared', 'zero\u200bwidth'];

beforeAll(async () => {
  await (await place.serve()).stop();
  const db = openDatabase(join(place.data, 'bursar.db'), { readonly: false, cacheKib: 1024 });
  const log = await RecordLog.open(db.tx);
  const append = (principal: string, key: string) =>
    log.append(
      {
        action: 's3:PutObject',
        tenant: 'default',
        principal,
        bucket: 'data',
        key,
        evidence: 'none',
        bytesIn: 0,
        bytesOut: 0,
        requestId: 'R',
        source: 'a test',
        status: 200,
      },
      {
        index: log.size,
        timeMs: Date.parse('2026-01-01T00:00:00.000Z'),
        storedBytes: 0,
        storedObjects: 0,
        cost: null,
      },
    );
  db.exec('BEGIN');
  for (let i = 0; i < many; i++) await append('busy', 'k');
  for (const name of names) await append('rare', name);
  await log.flush();
  db.exec('COMMIT');
  db.close();
  // No gateway wrote them.
  expect(await place.run(['database', 'accept', '--yes'])).toMatchObject({ code: 0 });
  served = await place.serve();
});
afterAll(() => place.remove());

test('finds what is behind many records that do not fit', async () => {
  const { stdout, code } = await place.run(['records', '--principal', 'default/rare', '--json']);
  expect(code).toBe(0);
  const keys = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).key);
  expect(keys).toEqual(names);
});

test('shows names without what would command the terminal or deceive who reads', async () => {
  const { stdout } = await place.run(['records', '--principal', 'default/rare']);
  const [heading, ...lines] = stdout.trimEnd().split('\n');
  expect(heading).toMatch(/^INDEX {2}TIME +WHO +HOW +.* ABOUT$/);
  expect(lines.map((line) => line.split('  ').at(-1))).toEqual([
    '"data/\\u202egpj.exe"',
    '"data/c\\u009b31mred"',
    '"data/esc\\u001b[2Jcleared"',
    '"data/zero\\u200bwidth"',
  ]);
});

test('gives the last ones from the newest back, wherever the index ends', async () => {
  const keysOf = async (...flags: string[]): Promise<string[]> => {
    const { stdout } = await place.run(['records', ...flags, '--json']);
    const lines = stdout
      .trim()
      .split('\n')
      .filter((line) => line !== '');
    return lines.map((line) => (JSON.parse(line) as { key: string }).key);
  };
  const rare = ['--principal', 'default/rare'];
  expect(await keysOf(...rare, '--last', '2')).toEqual(names.toReversed().slice(0, 2));
  expect(await keysOf(...rare, '--last', '100')).toEqual(names.toReversed());
  expect(await keysOf(...rare, '--key', names[1] as string)).toEqual([names[1]]);
  expect(await keysOf('--key', 'zero', '--principal', 'default/rare')).toEqual([]);
  for (const other of [
    ['--after', '3'],
    ['--limit', '3'],
  ]) {
    const { code, stderr } = await place.run(['records', '--last', '3', ...other]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(`--last and ${other[0]} exclude`)]);
  }
});

test('says that nothing fits, and refuses a range that nothing is in', async () => {
  const none = await place.run(['records', '--token', 'nothing']);
  expect(none).toEqual({ code: 0, stdout: '', stderr: 'bursar: no records fit\n' });
  const csv = await place.run(['records', '--bucket', 's3://atlas:data', '--csv']);
  expect(csv).toMatchObject({ code: 0, stderr: 'bursar: no records fit\n' });
  expect(csv.stdout).toMatch(/^index,time,who,[^\n]*\r\n$/);
  const json = await place.run(['records', '--bucket', 'atlas:data', '--json']);
  expect(json).toEqual({ code: 0, stdout: '', stderr: '' });
  for (const command of [['records'], ['audit', 'report', '--out', 'none.html']]) {
    const given = [...command, '--from', '2026-11-28', '--to', '2026-11-27'];
    const { code, stdout, stderr } = await place.run(given);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^bursar: --to 2026-11-27T.* is not after --from 2026-11-28T/);
  }
});

test('names a bucket as other commands do', async () => {
  const rare = ['--principal', 'rare', '--json'];
  const whole = await place.run(['records', '--bucket', 'data', ...rare]);
  expect(whole.stdout.trim().split('\n')).toHaveLength(names.length);
  for (const bucket of ['s3://data', 'default:data', 's3://default:data', 'default/data']) {
    expect(await place.run(['records', '--bucket', bucket, ...rare])).toEqual(whole);
  }
  const keyed = await place.run(['records', '--bucket', 's3://data/k']);
  expect([keyed.code, keyed.stderr]).toEqual([2, expect.stringContaining('--key or --prefix')]);
});

test('says that there is nobody of a name, and who was meant', async () => {
  const said = async (principal: string) =>
    (await place.run(['records', '--principal', principal])).stderr;
  expect(await said('default/admim')).toBe(
    'bursar: no records fit, and there is no principal default/admim: ' +
      'was default/admin meant?\n',
  );
  expect(await said('zaphod')).toMatch(/ no principal default\/zaphod\n$/);
});

test('is CSV for spreadsheets', async () => {
  const { stdout } = await place.run(['records', '--principal', 'default/rare', '--csv']);
  const lines = stdout.trimEnd().split('\r\n');
  expect(lines[0]).toBe('index,time,who,how,evidence,from,action,outcome,request,about');
  expect(lines).toHaveLength(1 + names.length);
  expect(lines[1]).toContain(',default/rare,-,none,a test,s3:PutObject,200,R,data/\u202egpj.exe');
});

test('follows what comes until it is stopped', async () => {
  const asked = ['records', '--action', 'bursar:ListTenants', '--follow', '--json'];
  const follower = place.begin(asked);
  for (let count = 1; count <= 2; count++) {
    expect(await place.run(['tenant', 'list'])).toMatchObject({ code: 0 });
    const lines = () => follower.stdout().split('\n').length - 1;
    await expect.poll(lines, { timeout: 20_000 }).toBe(count);
  }
  // It waits for a gateway that is gone and comes back.
  const sockets = new Set<Socket>();
  const proxy = createServer((socket) => {
    const to = connect(Number(new URL(served.endpoint).port), '127.0.0.1');
    for (const one of [socket, to]) sockets.add(one.on('error', () => {}));
    socket.pipe(to).pipe(socket);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const { port } = proxy.address() as AddressInfo;
  const endpoint = `http://127.0.0.1:${port}`;
  const through = place.begin([...asked, '--last', '1', '--endpoint', endpoint]);
  const found = () => through.stdout().split('\n').length - 1;
  await expect.poll(found, { timeout: 20_000 }).toBe(1);
  proxy.close();
  for (const socket of sockets) socket.destroy();
  await expect.poll(through.stderr, { timeout: 20_000 }).toMatch(/cannot reach .* tried again\n$/);
  expect(await place.run(['tenant', 'list'])).toMatchObject({ code: 0 });
  proxy.listen(port, '127.0.0.1');
  await expect.poll(found, { timeout: 20_000 }).toBe(2);
  through.stop();
  proxy.close();
  const behind = place.begin([...asked, '--last', '1']);
  const indexes = () =>
    behind
      .stdout()
      .trim()
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line).index);
  await expect.poll(() => indexes().length, { timeout: 20_000 }).toBe(1);
  expect(await place.run(['tenant', 'list'])).toMatchObject({ code: 0 });
  await expect.poll(() => indexes().length, { timeout: 20_000 }).toBe(2);
  expect(indexes()).toEqual(indexes().toSorted((a, b) => a - b));
  behind.stop();
  follower.stop();
  // Its own looks are no news: they would go on for ever.
  const all = place.begin(['records', '--last', '1', '--follow', '--json']);
  const actions = () =>
    all
      .stdout()
      .split('\n')
      .filter(Boolean)
      .slice(1)
      .map((line) => JSON.parse(line).action);
  await expect.poll(() => all.stdout(), { timeout: 20_000 }).not.toBe('');
  for (const count of [1, 2]) {
    expect(await place.run(['tenant', 'list'])).toMatchObject({ code: 0 });
    await expect.poll(() => actions().length, { timeout: 20_000 }).toBe(count);
  }
  expect(actions()).toEqual(['bursar:ListTenants', 'bursar:ListTenants']);
  all.stop();
});

test('writes each such character, also one of two units, so that it can be told', () => {
  expect(printable('a\u{e0041}\u2028\tb\ufeff é\u{1f600}')).toBe(
    'a\\udb40\\udc41\\u2028\\tb\\ufeff é\u{1f600}',
  );
});
