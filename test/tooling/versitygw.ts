// A real S3 server for tests: versitygw over a folder, on a free loopback port. Only what is
// started here is ever signalled.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface S3Backend {
  /** `http://127.0.0.1:PORT` */
  endpoint: string;
  port: number;
  region: string;
  credentials: { accessKeyId: string; secretAccessKey: string };
  /** Its buckets are the folders in here, objects the files in them. */
  dataDir: string;
  pid: number;
  /** A bucket that exists from now on. */
  makeBucket(name: string): void;
  /** Ends it, as an outage does: its data stays. */
  kill(): Promise<void>;
  /** After `kill`: the same server again, at the same port. */
  restart(): Promise<void>;
  /** Ends it for good and removes its data. */
  stop(): Promise<void>;
}

const startMsMax = 60_000;
const credentials = {
  accessKeyId: 'TESTBACKENDACCESSKEY',
  secretAccessKey: 'test-backend-secret-0123456789',
};

/**
 * Starts the versitygw at `path` (see tools.ts) without versioning. Throws with its output when it
 * does not come up. `args` are more global flags.
 */
export async function startVersitygw(path: string, args: string[] = []): Promise<S3Backend> {
  const dir = mkdtempSync(join(tmpdir(), 'versitygw-'));
  const dataDir = join(dir, 'data');
  mkdirSync(dataDir);
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  // Its default closes each connection after one request and prints each request.
  const flags = ['--keep-alive', '--quiet', '--port', `127.0.0.1:${port}`, ...args];
  const start = () => startServer(path, [...flags, 'posix', dataDir], endpoint);
  let child = await start();
  return {
    endpoint,
    port,
    region: 'us-east-1',
    credentials,
    dataDir,
    get pid() {
      return child.pid as number;
    },
    makeBucket: (name) => mkdirSync(join(dataDir, name)),
    kill: () => endServer(child),
    restart: async () => {
      child = await start();
    },
    stop: async () => {
      await endServer(child);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function startServer(path: string, args: string[], endpoint: string): Promise<ChildProcess> {
  const { accessKeyId, secretAccessKey } = credentials;
  const child = spawn(path, args, {
    env: { ...process.env, ROOT_ACCESS_KEY: accessKeyId, ROOT_SECRET_KEY: secretAccessKey },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output = (output + text).slice(-4000);
    });
  }
  const untilMs = Date.now() + startMsMax;
  for (;;) {
    if (child.exitCode !== null) throw new Error(`versitygw ended at once:\n${output}`);
    const answer = await fetch(endpoint).catch(() => undefined);
    await answer?.arrayBuffer();
    if (answer) return child;
    if (Date.now() > untilMs) {
      await endServer(child);
      throw new Error(`versitygw did not answer:\n${output}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function endServer(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    child.once('close', () => resolve());
    child.kill('SIGKILL');
  });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}
