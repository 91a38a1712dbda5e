// A gateway of several HTTP threads, and connections of which is known to which thread they go.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'vitest';
import {
  type Message,
  signMessage,
  type Target,
  targetOf as targetTextOf,
} from '../../protocol/target.ts';
import {
  type ServedGateway,
  type ServeOptions,
  startServedGateway,
} from '../../tooling/served-gateway.ts';

const hook = pathToFileURL(join(import.meta.dirname, 'told-thread.mjs')).href;

export function targetOf({ endpoint, accessKeyId, secretAccessKey, stop }: ServedGateway): Target {
  return { endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [], stop };
}

export interface ToldThreads {
  target: Target;
  /** Resolves when a thread is blocked. */
  block(thread: number): Promise<void>;
  isBlocked(thread: number): boolean;
  release(thread: number): void;
  stop(): Promise<void>;
}

/** `more`: of what the gateway is started with. */
export async function startToldThreads(
  count: number,
  more: Pick<ServeOptions, 'args' | 'env'> = {},
): Promise<ToldThreads> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-threads-'));
  const gateway = await startServedGateway({
    args: ['--http-threads', String(count), ...(more.args ?? [])],
    env: { NODE_OPTIONS: `--import=${encodeURI(hook)}`, TOLD_THREADS: folder, ...more.env },
  });
  const isBlocked = (thread: number) => existsSync(join(folder, `${thread}.blocked`));
  return {
    target: targetOf(gateway),
    block: async (thread) => {
      writeFileSync(join(folder, String(thread)), '');
      await expect.poll(() => isBlocked(thread), { timeout: 30_000 }).toBe(true);
    },
    isBlocked,
    release: (thread) => rmSync(join(folder, String(thread))),
    stop: async () => {
      await gateway.stop();
      rmSync(folder, { recursive: true });
    },
  };
}

export interface Told {
  status: number;
  /** Which thread answered. */
  thread: number;
  versionId: string | undefined;
  headers: IncomingHttpHeaders;
  text: string;
}

/** One that stays open. */
export class Connection {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  ask(who: Target, message: Message): Promise<Told> {
    const { path, headers } = signMessage(who, message);
    return this.send(who, message, path, headers);
  }

  /** Calls the native API. */
  // biome-ignore lint/suspicious/noExplicitAny: JSON is whatever the schema says.
  async call(who: Target, method: string, path: string, content?: object): Promise<any> {
    const body = content === undefined ? '' : JSON.stringify(content);
    const headers: Record<string, string> = content ? { 'content-type': 'application/json' } : {};
    const signed = signMessage(who, { method, path, headers, body });
    // Accounts have a slash in their names.
    const [, account] = /^\/_\/v1\/limits\/(.*)/.exec(path) ?? [];
    const target = account ? `/_/v1/limits/${encodeURIComponent(account)}` : signed.path;
    const { status, text } = await this.send(who, { method, path, body }, target, signed.headers);
    expect(status, text).toBeLessThan(300);
    return text === '' ? undefined : JSON.parse(text);
  }

  bear(target: Target, token: string, message: Message): Promise<Told> {
    const headers = { authorization: `Bearer ${token}` };
    return this.send(target, message, targetTextOf(message.path, message.query), headers);
  }

  send(
    { endpoint }: Target,
    { method, body }: Message,
    path: string,
    headers: Record<string, string>,
  ): Promise<Told> {
    const { hostname, port } = new URL(endpoint);
    return new Promise((resolve, reject) => {
      const asked = request(
        { hostname, port, method, path, headers, agent: this.#agent },
        (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (piece) => {
            text += piece;
          });
          response.on('error', reject);
          response.on('end', () => {
            const { statusCode: status = 0, headers: given } = response;
            const versionId = given['x-amz-version-id'] as string | undefined;
            const thread = Number(given['test-thread']);
            resolve({ status, thread, versionId, headers: given, text });
          });
        },
      );
      asked.on('error', reject);
      asked.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** One connection to each thread, by its number. */
export async function connectToEach(target: Target, count: number): Promise<Connection[]> {
  const connections: Connection[] = [];
  while (connections.filter(Boolean).length < count) {
    const connection = new Connection();
    const { thread } = await connection.ask(target, { method: 'GET', path: '/none/none' });
    if (connections[thread]) connection.close();
    else connections[thread] = connection;
  }
  return connections;
}

export function setLimits(target: Target, account: string, limits: object): Promise<unknown> {
  const connection = new Connection();
  const put = connection.call(target, 'PUT', `/_/v1/limits/${account}`, limits);
  return put.finally(() => connection.close());
}
