// Runs the built `bursar` command as its users do: in a folder of its own, with a clean
// environment.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { metricsToken } from '../tooling/served-gateway.ts';

const main = resolve('app/main.js');

export interface Outcome {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface Served {
  process: ChildProcess;
  endpoint: string;
  /** All of stdout so far. */
  stdout(): string;
  /** All of stderr so far. */
  stderr(): string;
  /** Sends SIGTERM and waits until the gateway says that it is stopping. */
  beginStop(): Promise<void>;
  /** The exit code, or the signal that ended the process. */
  ended(): Promise<number | NodeJS.Signals | null>;
  /** Sends the signal and waits for the end. */
  stop(signal?: NodeJS.Signals): Promise<number | NodeJS.Signals | null>;
}

export type Environment = Record<string, string>;

export class Workplace {
  readonly folder = mkdtempSync(join(tmpdir(), 'bursar-cli-'));
  readonly data = join(this.folder, 'bursar-data');
  readonly #running = new Set<ChildProcess>();

  /** Runs a command to its end. `input`: what it is given on stdin; absent: nothing. */
  async run(
    args: readonly string[],
    environment: Environment = {},
    input?: string,
  ): Promise<Outcome> {
    const child = this.#start(args, environment, input === undefined ? 'ignore' : 'pipe');
    child.stdin?.end(input);
    const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, stdout: stdout(), stderr: stderr() };
  }

  /** Begins a command that goes on until it is stopped. */
  begin(args: readonly string[]): { stdout(): string; stderr(): string; stop(): void } {
    const child = this.#start(args, {});
    const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
    return { stdout, stderr, stop: () => void child.kill() };
  }

  /** Serves until it is stopped; resolves when it says that it serves. Rejects when it ends. */
  async serve(args: readonly string[] = [], environment: Environment = {}): Promise<Served> {
    const listen = args.includes('--listen') ? [] : ['--listen', '127.0.0.1:0'];
    const child = this.#start(['serve', ...listen, ...args], {
      BURSAR_METRICS_TOKEN: metricsToken,
      ...environment,
    });
    const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
    const ended = once(child, 'close');
    const endpoint = await new Promise<string>((ready, fail) => {
      child.stdout?.on('data', function look() {
        const match = /^Bursar serves (\S+)[\s\S]*tenant list(?: --credentials .*)?\n/m.exec(
          stdout(),
        );
        if (!match?.[1]) return;
        // From here on there is a line for each request.
        child.stdout?.off('data', look);
        ready(match[1]);
      });
      child.on('close', (code) => fail(new Error(`serve ended with ${code}: ${stderr()}`)));
    });
    return {
      process: child,
      endpoint,
      stdout,
      stderr,
      beginStop: async () => {
        const told = new Promise<void>((done) => {
          child.stderr?.on('data', () => {
            if (stderr().includes('SIGTERM: finishing')) done();
          });
        });
        child.kill('SIGTERM');
        await told;
      },
      ended: async () => {
        const [code, killedBy] = (await ended) as [number | null, NodeJS.Signals | null];
        return code ?? killedBy;
      },
      stop: async (signal = 'SIGTERM') => {
        child.kill(signal);
        const [code, killedBy] = (await ended) as [number | null, NodeJS.Signals | null];
        return code ?? killedBy;
      },
    };
  }

  killAll(): void {
    for (const child of this.#running) child.kill('SIGKILL');
  }

  async remove(): Promise<void> {
    const ends = [...this.#running].map((child) => once(child, 'exit'));
    this.killAll();
    await Promise.all(ends);
    rmSync(this.folder, { recursive: true });
  }

  #start(
    args: readonly string[],
    environment: Environment,
    stdin: 'ignore' | 'pipe' = 'ignore',
  ): ChildProcess {
    const child = spawn(process.execPath, [main, ...args], {
      cwd: this.folder,
      env: { ...bareEnvironment(), ...environment },
      stdio: [stdin, 'pipe', 'pipe'],
    });
    this.#running.add(child);
    child.on('exit', () => this.#running.delete(child));
    return child;
  }
}

function collect(stream: ChildProcess['stdout']): () => string {
  let text = '';
  stream?.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
  });
  return () => text;
}
