// What npm links as `bursar` is there before anything is built, and says so until it is.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

const launcher = JSON.parse(readFileSync('package.json', 'utf8')).bin.bursar;
const folder = mkdtempSync(join(tmpdir(), 'bursar-launcher-'));

afterAll(() => rmSync(folder, { recursive: true }));

function run() {
  const { status, stdout, stderr } = spawnSync(join(folder, launcher), ['one'], {
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

it('says in one line that nothing is built, and runs the command once it is', () => {
  mkdirSync(join(folder, 'scripts'));
  for (const file of [launcher, 'scripts/fitting-node.mjs', 'scripts/node-programs.mjs'])
    cpSync(file, join(folder, file));
  expect(run()).toEqual({
    status: 1,
    stdout: '',
    stderr: expect.stringMatching(/^bursar: it is not built yet: [^\n]+\n$/),
  });
  mkdirSync(join(folder, 'app'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(join(folder, 'app/main.js'), 'console.log(process.argv[2]);');
  expect(run()).toEqual({ status: 0, stdout: 'one\n', stderr: '' });
});
