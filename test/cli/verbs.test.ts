// What all commands have in common: five verbs, arguments, forms of answers, and exit codes.
import { Command } from 'commander';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { addCommands } from '#bursar/cli/command-table.js';
import { oldFlags, oldVerbs, reword } from '#bursar/cli/old-words.js';
import { type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

let place: Workplace;
let served: Served;
const program = new Command('bursar');

beforeAll(async () => {
  await addCommands(program, undefined);
  place = new Workplace();
  served = await place.serve();
});

afterAll(() => place.remove());

const run = (line: string) => place.run(line.split(' '));

/** Each command that does something, with the words that lead to it. */
function* leaves(command = program, path: string[] = []): Generator<[string, Command]> {
  for (const one of command.commands) {
    const words = [...path, one.name()];
    if (one.commands.length === 0) yield [words.join(' '), one];
    yield* leaves(one, words);
  }
}

test('an old word leads to a command, and is none itself', () => {
  const names = new Set([...leaves()].map(([name]) => name));
  for (const { old, verb } of oldVerbs) {
    const now = `${old.split(' ')[0]} ${verb}`;
    expect([old, names.has(old)]).toEqual([old, false]);
    expect([now, names.has(now)]).toEqual([now, true]);
    expect(reword([...old.split(' '), 'x', '--json']).words).toEqual([
      ...now.split(' '),
      ...['x', '--json'],
    ]);
  }
  for (const [name] of leaves()) {
    // Of a group's members, who are there without it.
    if (name === 'group add' || name === 'group remove') continue;
    expect(name.split(' ')[1] ?? '').not.toMatch(/^(?:update|add|put|remove|revoke|get|status)$/);
  }
});

test('a flag that was one once is put where the argument is', () => {
  for (const { command, flag } of oldFlags) {
    const found =
      [...leaves()].find(([name]) => name === command)?.[1] ??
      program.commands.find((one) => one.name() === command);
    expect(found?.options.map((one) => one.long)).not.toContain(flag);
  }
  const said = (line: string) => reword(line.split(' ')).words.join(' ');
  expect(said('audit export --out f --tenant cms')).toBe('audit export cms --out f');
  expect(said('cost --account=tenant:cms --csv')).toBe('cost tenant:cms --csv');
  expect(said('snapshot restore s3://raw --from then --dry-run')).toBe(
    'snapshot restore s3://raw then --dry-run',
  );
  expect(said('explain --resource raw/x --principal cms/a --action s3:GetObject')).toBe(
    'explain s3:GetObject raw/x --principal cms/a',
  );
  // Whatever stands behind -- is no flag.
  expect(said('cost -- --account x')).toBe('cost -- --account x');
  expect(reword(['tenant', 'list']).notes).toEqual([]);
});

test('what was said the old way is done, with a note', async () => {
  expect((await run('tenant create old')).code).toBe(0);
  const { code, stderr } = await run('tenant update old --members-create-buckets no');
  expect([code, stderr]).toEqual([
    0,
    'bursar: "bursar tenant update" is called "bursar tenant set" now\n',
  ]);
  const explained = await run('explain --action bursar:ListPrincipals --principal default/admin');
  expect(explained.stdout).toMatch(/^allowed/);
  expect(explained.stderr).toContain('bursar explain bursar:ListPrincipals --principal');
});

test('all lists have CSV, and all commands JSON', async () => {
  const lists = [...leaves()].filter(([name]) => name.endsWith(' list'));
  expect(lists.length).toBeGreaterThan(12);
  for (const [, list] of lists) expect(list.options.map(({ long }) => long)).toContain('--csv');
  const { stdout } = await run('tenant list --csv');
  expect(stdout).toMatch(
    /^tenant,membersCreateBuckets,membersMountBuckets,store,reads,created\r\ndefault,yes,yes,,prompt,/,
  );
  expect((await run('limit set tenant:default --egress day=1MiB --rate bytes=2KiB')).code).toBe(0);
  expect((await run('limit list --csv')).stdout).toMatch(
    /^account,meter,window,limit,used,lost,reserved,left,resets\r\ntenant:default,egressBytes,day,1048576,0,.*\r\ntenant:default,rate bytes,second,2048,/,
  );
  expect((await run('token list --csv')).stdout).toMatch(/^token,parent,label,principal,scope,/);
  expect(await run('tenant list --csv --json')).toEqual({
    code: 2,
    stdout: expect.stringMatching(/^\{"error":\{"code":"UsageError",/),
    stderr: 'bursar: --json and --csv exclude each other\n',
  });
});

test('with --json a failure is one document, too', async () => {
  const failure = async (line: string, environment = {}) => {
    const { code, stdout, stderr } = await place.run([...line.split(' '), '--json'], environment);
    expect(stderr).toMatch(/^bursar: /);
    return { code, ...JSON.parse(stdout).error };
  };
  expect(await failure('tenant show nobody')).toEqual({
    ...{ code: 'NoSuchTenant', message: expect.any(String), exitCode: 1, status: 404 },
    requestId: expect.stringMatching(/^[0-9A-F]{16}$/),
  });
  expect(await failure('tenant shw nobody')).toMatchObject({ code: 'UsageError', exitCode: 2 });
  expect(await failure('principal show nobody')).toMatchObject({ code: 'UsageError', exitCode: 2 });
  const gone = { BURSAR_ENDPOINT: 'http://127.0.0.1:1' };
  expect(await failure('whoami', gone)).toMatchObject({ code: 'Unreachable', exitCode: 1 });
  // What has nothing to say says that.
  await run('tenant create gone');
  await run('group create gone/all');
  const nothing = { code: 0, stdout: '{}\n', stderr: '' };
  expect(await run('group delete gone/all --json')).toEqual(nothing);
});

test('without arguments it says what people do', async () => {
  const { code, stdout } = await place.run([]);
  expect(code).toBe(0);
  const said = [...stdout.matchAll(/bursar ([a-z]+(?: [a-z]+)?)/g)].map(([, words]) => words);
  expect(said).toEqual(
    expect.arrayContaining(['whoami', 'token create', 'share create', 'usage', 'records']),
  );
  expect((await run('--help')).stdout).toMatch(/Exit codes: 0 .*1 .*2 /s);
  expect(served.stderr()).not.toMatch(/Error/);
});
