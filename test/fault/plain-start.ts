// Starts of a gateway as its user makes them, without keys in the environment: to be killed at some
// moment, or to come up and be asked.
import { type ChildProcess, spawn } from 'node:child_process';
import { resolve } from 'node:path';

const main = resolve(import.meta.dirname, '../../app/main.js');
const startMsMax = 60_000;

/** Serves `dataDir` and kills the process after `afterMs`, wherever it is then. */
export async function killWhileStarting(dataDir: string, afterMs: number): Promise<void> {
  const child = start(dataDir);
  await sleep(afterMs);
  await end(child, 'SIGKILL');
}

/** Serves `dataDir` for as long as `use` takes, then stops it. Throws unless it exits with 0. */
export async function servePlainly(
  dataDir: string,
  use: (endpoint: string) => Promise<void>,
): Promise<void> {
  const child = start(dataDir);
  try {
    await use(await listening(child));
  } catch (error) {
    await end(child, 'SIGKILL');
    throw error;
  }
  const status = await end(child, 'SIGTERM');
  if (status !== 0) throw new Error(`bursar serve ended with ${status}`);
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolvePromise) => setTimeout(resolvePromise, ms));
}

function start(dataDir: string): ChildProcess {
  const entries = Object.entries(process.env).filter(([name]) => !name.startsWith('BURSAR_'));
  const args = [main, 'serve', '--data', dataDir, '--listen', '127.0.0.1:0'];
  return spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: Object.fromEntries(entries),
  });
}

function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolvePromise, reject) => {
    let output = '';
    const fail = (): void => reject(new Error(`bursar serve did not come up: ${output}`));
    const timer = setTimeout(fail, startMsMax);
    child.once('exit', fail);
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(output);
      if (!found) return;
      clearTimeout(timer);
      child.off('exit', fail);
      resolvePromise(found[0]);
    });
  });
}

function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolvePromise) => {
    child.once('close', (status) => resolvePromise(status));
    child.kill(signal);
  });
}
