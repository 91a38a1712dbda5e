// What shells complete, in the shells themselves, where they are installed.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, describe, expect, it, vi } from 'vitest';

vi.setConfig({ testTimeout: 60_000 });

const folder = mkdtempSync(join(tmpdir(), 'bursar-completion-'));
afterAll(() => rmSync(folder, { recursive: true }));

function bursar(...args: string[]) {
  return spawnSync(process.execPath, [resolve('app/main.js'), ...args], { encoding: 'utf8' });
}

/** What a shell proposes for a line. Zsh runs functions of bash as sh does. */
const asked = {
  bash: (line: string) => {
    const words = line.split(' ').map((word) => `'${word}'`);
    const set = `COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}`;
    return `source ./script; ${set}; _bursar; printf '%s\\n' "\${COMPREPLY[@]}"`;
  },
  zsh: (line: string) => {
    const words = line.split(' ').map((word) => `'${word}'`);
    const set = `COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}`;
    const load = 'autoload -U compinit && compinit -u -D; source ./script';
    return `${load}; emulate sh; ${set}; _bursar; printf '%s\\n' "\${COMPREPLY[@]}"`;
  },
  fish: (line: string) => `source ./script; complete -C '${line}'`,
} as const;

describe.each(['bash', 'zsh', 'fish'] as const)('%s', (shell) => {
  const isThere = spawnSync(shell, ['--version']).status === 0;

  it.skipIf(!isThere)('completes commands, what is below them, and flags', () => {
    const { status, stdout } = bursar('completion', shell);
    expect(status).toBe(0);
    writeFileSync(join(folder, 'script'), stdout);
    const propose = (line: string) => {
      const env = { HOME: folder, PATH: process.env.PATH ?? '' };
      const args = [...(shell === 'bash' ? ['--norc'] : []), '-c', asked[shell](line)];
      const done = spawnSync(shell, args, { cwd: folder, env, encoding: 'utf8' });
      return done.stdout.split('\n').map((one) => one.split('\t')[0]);
    };
    expect(propose('bursar ten')).toContain('tenant');
    expect(propose('bursar ten')).not.toContain('token');
    const ofTenant = propose('bursar tenant ');
    for (const verb of ['create', 'list', 'show', 'set', 'delete'])
      expect(ofTenant).toContain(verb);
    expect(propose('bursar tenant list --c')).toEqual(
      expect.arrayContaining(['--csv', '--credentials']),
    );
    expect(propose('bursar tenant list --c')).not.toContain('--json');
    // What a flag or an argument may be; behind a flag of anything no words are proposed.
    expect(propose('bursar principal create cms/a --role m')).toContain('member');
    expect(propose('bursar completion f')).toContain('fish');
    expect(propose('bursar principal list cms --profile --c')).not.toContain('--csv');
  });
});

it('names the shells that there are', () => {
  expect(bursar('completion', 'tcsh')).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(/bash, zsh, fish/),
  });
});
