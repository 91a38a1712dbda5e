// The AWS CLI takes half a second of CPU to load, many times what its commands take. Where it is
// Python's, it is loaded once, and each of its commands runs in a fork of that process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { awscliPython, clientEnvironment, runTool } from './tools.ts';

export interface AwsForks {
  /** A program that does what the one that was given does. */
  path: string;
  stop(): Promise<void>;
}

/** `path` is the AWS CLI; it stays what it is where Python has none, or has another. */
export async function startAwsForks(path: string): Promise<AwsForks> {
  const python = awscliPython.path;
  if (python === undefined) return { path, stop: async () => {} };
  const folder = mkdtempSync(join(tmpdir(), 'bursar-aws-'));
  const script = join(import.meta.dirname, 'aws-forks.py');
  const env = clientEnvironment({ accessKeyId: '', secretAccessKey: '' });
  const loaded = spawn(python, [script, folder], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(loaded, 'exit');
  const stop = async () => {
    loaded.stdin.end();
    await ended;
    rmSync(folder, { recursive: true });
  };
  const ready = once(createInterface(loaded.stdout), 'line');
  const [line] = (await Promise.race([ready, ended])) as [unknown];
  const version = await runTool(path, ['--version'], env);
  if (line === /^aws-cli\/(\S+)/.exec(version)?.[1]) return { path: join(folder, 'aws'), stop };
  await stop();
  return { path, stop: async () => {} };
}
