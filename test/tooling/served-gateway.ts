// A gateway served from the built code as a process of its own, on a free port of the loopback
// interface. Its data folder is temporary unless the test names one, and is removed by `stop`.
// Set BURSAR_TEST_ENDPOINT, _ACCESS_KEY and _SECRET_KEY to aim the tests at a server that runs.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

export interface ServedGateway {
  /** `http://127.0.0.1:PORT`, without a slash at its end. */
  endpoint: string;
  /** Of the administration, where `--admin-listen` gave it one; else that of all. */
  adminEndpoint: string;
  accessKeyId: string;
  secretAccessKey: string;
  dataDir: string;
  /** Undefined when the tests are aimed at a server that was already running. */
  pid: number | undefined;
  /** What the process has written so far, for messages about failures. */
  output(): string;
  /** SIGTERM. Throws unless the process drains and exits with 0; removes a temporary folder. */
  stop(): Promise<void>;
  /** SIGKILL. The data folder stays, so that a test can serve it again. */
  kill(): Promise<void>;
}

export interface ServeOptions {
  env?: Record<string, string>;
  /** More arguments for `bursar serve`. */
  args?: string[];
  /** Serves this folder, and leaves it to the caller. */
  dataDir?: string;
  accessKeyId?: string;
  secretAccessKey?: string;
}

/** The metrics token of a gateway that the test gave none. */
export const metricsToken = 'metrics-token-of-the-tests';

/** What `npm start` starts Node with. */
export const nodeFlags = /exec node (--\S+(?: --\S+)*) /
  .exec(readFileSync(resolve(import.meta.dirname, '../../package.json'), 'utf8'))?.[1]
  ?.split(' ') as string[];

const startMsMax = 60_000;
const stopMsMax = 30_000;
const main = resolve(import.meta.dirname, '../../app/main.js');

/** Serves until `stop` or `kill`. Throws with the process's output when it does not come up. */
export async function startServedGateway(options: ServeOptions = {}): Promise<ServedGateway> {
  const running = runningServer();
  if (running) return running;

  const accessKeyId = options.accessKeyId ?? 'BURSARTESTACCESSKEY0';
  const secretAccessKey = options.secretAccessKey ?? 'test-secret-of-the-operator-0123456789ab';
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), 'bursar-served-'));
  const child = spawn(
    process.execPath,
    [
      ...nodeFlags,
      main,
      'serve',
      '--data',
      dataDir,
      '--listen',
      '127.0.0.1:0',
      ...(options.args ?? []),
    ],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...environmentWithoutSettings(),
        ...servedThreads(),
        BURSAR_ROOT_ACCESS_KEY: accessKeyId,
        BURSAR_ROOT_SECRET_KEY: secretAccessKey,
        // Tests look for the record of each of very many requests by one principal.
        BURSAR_REFUSAL_RECORDS: '1000000',
        BURSAR_METRICS_TOKEN: metricsToken,
        ...options.env,
      },
    },
  );

  let output = '';
  const collect = (text: string) => {
    output += text;
  };
  child.stdout.setEncoding('utf8').on('data', collect);
  child.stderr.setEncoding('utf8').on('data', collect);

  const endpoint = await listening(child, () => output);
  const [, adminEndpoint = endpoint] = /^Administration at (\S+),/m.exec(output) ?? [];
  return {
    endpoint,
    adminEndpoint,
    accessKeyId,
    secretAccessKey,
    dataDir,
    pid: child.pid,
    output: () => output,
    stop: async () => {
      const status = await ended(child, 'SIGTERM');
      if (options.dataDir === undefined) rmSync(dataDir, { recursive: true, force: true });
      if (status !== 0) throw new Error(`bursar serve ended with ${status}:\n${output}`);
    },
    kill: async () => void (await ended(child, 'SIGKILL')),
  };
}

/** The metrics, as Prometheus reads them. */
export async function readMetrics({ endpoint }: { endpoint: string }): Promise<string> {
  const headers = { authorization: `Bearer ${metricsToken}` };
  const answer = await fetch(`${endpoint}/_/metrics`, { headers });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`metrics: ${answer.status} ${text}`);
  return text;
}

function runningServer(): ServedGateway | undefined {
  const endpoint = process.env.BURSAR_TEST_ENDPOINT;
  if (endpoint === undefined) return undefined;
  return {
    endpoint: endpoint.replace(/\/$/, ''),
    adminEndpoint: endpoint.replace(/\/$/, ''),
    accessKeyId: process.env.BURSAR_TEST_ACCESS_KEY ?? '',
    secretAccessKey: process.env.BURSAR_TEST_SECRET_KEY ?? '',
    dataDir: '',
    pid: undefined,
    output: () => '',
    stop: async () => {},
    kill: async () => {},
  };
}

/** BURSAR_TEST_HTTP_THREADS=3 has every gateway served by so many threads. */
export function servedThreads(): Record<string, string> {
  const { BURSAR_TEST_HTTP_THREADS: count } = process.env;
  return count === undefined ? {} : { BURSAR_HTTP_THREADS: count };
}

/** A developer's own settings must not reach the gateway under test. */
export function environmentWithoutSettings(): Record<string, string | undefined> {
  const entries = Object.entries(process.env).filter(([name]) => !/^(BURSAR|OTEL)_/.test(name));
  return Object.fromEntries(entries);
}

/** Waits for the line that names the address. */
function listening(child: ChildProcess, output: () => string): Promise<string> {
  return new Promise((resolvePromise, reject) => {
    const fail = (why: string) => {
      child.kill('SIGKILL');
      reject(new Error(`bursar serve ${why}:\n${output()}`));
    };
    const timer = setTimeout(fail, startMsMax, `did not listen within ${startMsMax} ms`);
    child.once('error', (error) => fail(error.message));
    child.once('exit', (status, signal) => {
      clearTimeout(timer);
      fail(`ended with ${signal ?? status} before it listened`);
    });
    child.stdout?.on('data', function look() {
      const found = /^Bursar serves (http:\/\/127\.0\.0\.1:\d+)/m.exec(output())?.[1];
      if (!found) return;
      // From here on there is a line for each request.
      child.stdout?.off('data', look);
      clearTimeout(timer);
      child.removeAllListeners('exit');
      resolvePromise(found);
    });
  });
}

/** Sends the signal and resolves with the exit status, or the signal that ended the process. */
function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<number | string> {
  if (child.exitCode !== null || child.signalCode !== null) {
    return Promise.resolve(child.exitCode ?? String(child.signalCode));
  }
  return new Promise((resolvePromise) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), stopMsMax);
    child.once('close', (status, endedBy) => {
      clearTimeout(timer);
      resolvePromise(status ?? String(endedBy));
    });
    child.kill(signal);
  });
}
