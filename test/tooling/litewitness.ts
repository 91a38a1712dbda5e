// A real witness for tests: litewitness (filippo.io/torchwood) on a free loopback port. Its key
// lives in an ssh-agent, which is played here: two messages of the agent's protocol are all that it
// asks. Specifications: C2SP tlog-witness; draft-ietf-sshm-ssh-agent.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { emptyRoot } from '#bursar/audit/log/merkle.js';
import { openDatabase } from '#bursar/core/database.js';

export interface RunningWitness {
  /** As `--witness` takes it. */
  setting: string;
  /** Its verifier key. */
  verifier: string;
  /** `http://127.0.0.1:PORT` */
  url: string;
  /** It cosigns this log from now on. */
  knowLog(origin: string, verifier: string): Promise<void>;
  /** Leaves of the newest checkpoint that it cosigned. */
  seenSize(origin: string): Promise<number | undefined>;
  /** Ends it, as an outage does: what it has seen stays. */
  kill(): Promise<void>;
  /** After `kill`: the same witness again, at the same port. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

const startMsMax = 60_000;

/**
 * Starts the litewitness at `path` (see tools.ts). Throws with its output when it does not come up.
 */
export async function startLitewitness(path: string, name: string): Promise<RunningWitness> {
  const dir = mkdtempSync(join(tmpdir(), 'litewitness-'));
  const agent = await startAgent(join(dir, 'agent.sock'));
  const port = await freePort();
  const database = join(dir, 'witness.db');
  const flags = ['-name', name, '-db', database, '-ssh-agent', join(dir, 'agent.sock')];
  const start = () => {
    return startProcess(path, [...flags, '-listen', `127.0.0.1:${port}`, '-key', agent.print]);
  };
  let { child, verifier } = await start();
  const url = `http://127.0.0.1:${port}`;
  return {
    setting: `${verifier} ${url}`,
    verifier,
    url,
    knowLog: async (origin, key) => {
      const { tx, close } = openDatabase(database, { readonly: false, cacheKib: 64 });
      await tx.run('INSERT INTO log VALUES (?, 0, ?)', origin, emptyRoot.toString('base64'));
      await tx.run('INSERT INTO key VALUES (?, ?)', origin, key);
      close();
    },
    seenSize: async (origin) => {
      const { tx, close } = openDatabase(database, { readonly: true, cacheKib: 64 });
      const sql = 'SELECT tree_size AS size FROM log WHERE origin = ?';
      const row = await tx.get<{ size: number }>(sql, origin);
      close();
      return row?.size;
    },
    kill: () => endProcess(child),
    restart: async () => {
      ({ child, verifier } = await start());
    },
    stop: async () => {
      await endProcess(child);
      agent.server.close();
      for (const socket of agent.sockets) socket.destroy();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function startProcess(
  path: string,
  args: string[],
): Promise<{ child: ChildProcess; verifier: string }> {
  const child = spawn(path, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    output = (output + text).slice(-8000);
  });
  const untilMs = Date.now() + startMsMax;
  for (;;) {
    const verifier = /vkey=(\S+)/.exec(output)?.[1];
    const address = /listening addr=(\S+)/.exec(output)?.[1];
    // It says that it listens just before it does.
    if (verifier && address && (await isOpen(`http://${address}/`))) return { child, verifier };
    if (child.exitCode !== null || Date.now() > untilMs) {
      throw new Error(`litewitness does not come up:\n${output}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function isOpen(url: string): Promise<boolean> {
  try {
    await (await fetch(url)).arrayBuffer();
    return true;
  } catch {
    return false;
  }
}

async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await exited;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

interface Agent {
  server: Server;
  sockets: Set<Socket>;
  /** The key's fingerprint, as ssh-keygen shows it. */
  print: string;
}

const requestIdentities = 11;
const identitiesAnswer = 12;
const signRequest = 13;
const signResponse = 14;

/** An ssh-agent with one Ed25519 key, that signs whatever it is asked to. */
async function startAgent(path: string): Promise<Agent> {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const raw = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');
  const blob = Buffer.concat([field('ssh-ed25519'), field(raw)]);
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let received = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      while (received.length >= 4 && received.length >= 4 + received.readUInt32BE()) {
        const message = received.subarray(4, 4 + received.readUInt32BE());
        received = received.subarray(4 + message.length);
        socket.write(field(answerOf(message, blob, privateKey)));
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const digest = createHash('sha256').update(blob).digest('base64').replace(/=+$/, '');
  return { server, sockets, print: `SHA256:${digest}` };
}

function answerOf(message: Buffer, blob: Buffer, privateKey: KeyObject): Buffer {
  if (message[0] === requestIdentities) {
    return Buffer.concat([Buffer.of(identitiesAnswer, 0, 0, 0, 1), field(blob), field('test')]);
  }
  if (message[0] !== signRequest) return Buffer.of(5);
  const dataAt = 1 + 4 + message.readUInt32BE(1);
  const data = message.subarray(dataAt + 4, dataAt + 4 + message.readUInt32BE(dataAt));
  const signature = Buffer.concat([field('ssh-ed25519'), field(sign(null, data, privateKey))]);
  return Buffer.concat([Buffer.of(signResponse), field(signature)]);
}

/** With its length before it. */
function field(bytes: Buffer | string): Buffer {
  const content = Buffer.from(bytes);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(content.length);
  return Buffer.concat([length, content]);
}
