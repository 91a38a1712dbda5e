// What the protocol suite runs against: a served gateway and its operator's keys. The suite knows
// nothing of the store behind it, so each store's gateway is held to the same promises.
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  CreateBucketCommand,
  DeletePublicAccessBlockCommand,
  S3Client,
  type S3ClientConfig,
} from '@aws-sdk/client-s3';
import { percentEncode } from '#bursar/core/canonical-request.js';
import { signRequest } from '#bursar/core/sigv4.js';
import { listFiles } from '../tooling/files.ts';
import { startServedGateway } from '../tooling/served-gateway.ts';
import { startVersitygw } from '../tooling/versitygw.ts';

export interface Keys {
  accessKeyId: string;
  secretAccessKey: string;
}

export interface Target {
  /** `http://127.0.0.1:PORT` */
  endpoint: string;
  /** The operator's. */
  keys: Keys;
  /**
   * Names of files and objects that the gateway has made and that are not of the forms that it
   * gives by itself. None, where it runs on another machine.
   */
  strayNames(): string[];
  stop(): Promise<void>;
}

export type StartTarget = () => Promise<Target>;

/** The base of virtual-host-style names that each target is served with. */
export const domain = 's3.example.test';
export const region = 'us-east-1';

/** The gateway on its embedded store; `args`: more arguments for `bursar serve`. */
export async function startEmbeddedTarget(
  args: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<Target> {
  const gateway = await startServedGateway({
    env,
    args: ['--domain', domain, '--private-issuers', '127.0.0.1:*', ...args],
  });
  const { endpoint, accessKeyId, secretAccessKey, dataDir, stop } = gateway;
  const strayNames = () => strayFiles(dataDir, [ownFile]);
  return { endpoint, keys: { accessKeyId, secretAccessKey }, strayNames, stop };
}

/** The gateway on an S3 store, kept by the versitygw at `path`. */
export async function startS3Target(path: string): Promise<Target> {
  const backend = await startVersitygw(path);
  const { accessKeyId: id, secretAccessKey: secret } = backend.credentials;
  backend.makeBucket('backend');
  const store = ['--store', 's3://backend/some/prefix', '--store-path-style'];
  const gateway = await startServedGateway({
    args: ['--domain', domain, ...store, '--store-endpoint', backend.endpoint],
    env: { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret },
  }).catch(async (error: unknown) => {
    await backend.stop();
    throw error;
  });
  const { endpoint, accessKeyId, secretAccessKey, dataDir } = gateway;
  return {
    endpoint,
    keys: { accessKeyId, secretAccessKey },
    strayNames: () => [
      // No file of the local store is expected: all bytes are in the other.
      ...strayFiles(dataDir, [ownFile]).concat(strayFiles(join(dataDir, 'extents'), [])),
      ...strayFiles(join(backend.dataDir, 'backend'), [ownObject]),
    ],
    stop: async () => {
      await gateway.stop();
      await backend.stop();
    },
  };
}

/** The gateway on a store in a folder of another disk. */
export async function startFolderTarget(): Promise<Target> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-folder-'));
  const store = ['--store', pathToFileURL(folder).href];
  const gateway = await startServedGateway({ args: ['--domain', domain, ...store] });
  const { endpoint, accessKeyId, secretAccessKey, dataDir } = gateway;
  return {
    endpoint,
    keys: { accessKeyId, secretAccessKey },
    strayNames: () => [
      // No file of the local store is expected: all bytes are in the other.
      ...strayFiles(dataDir, [ownFile]).concat(strayFiles(join(dataDir, 'extents'), [])),
      ...strayFiles(folder, [ownInFolder]),
    ],
    stop: async () => {
      await gateway.stop();
      rmSync(folder, { recursive: true });
    },
  };
}

const ownFile =
  /^((bursar|search|objects)\.db(-wal|-shm|-journal)?|lock\.db(-journal)?|credentials|log-keys\.json|log-checkpoint(\.tmp)?|http\.sock|samples\/traffic(-\d{8}\.jsonl|\.lock(-journal)?)|keys\/root-keys\.json|extents\/([0-9a-f]{2}\/){2}[0-9a-f]{32})$/;
const ownObject = /^some\/prefix\/(owner|extents\/[0-9a-f]{2}\/[0-9a-f]{32}|journal\/[\w/-]+)$/;

const ownInFolder = /^(owner|extents\/[0-9a-f]{2}\/[0-9a-f]{32}|journal\/[\w/-]+)$/;

function strayFiles(folder: string, own: RegExp[]): string[] {
  if (folder === '' || folder === 'extents') return [];
  return listFiles(folder)
    .map((path) => relative(folder, path))
    .filter((name) => !own.some((form) => form.test(name)));
}

/**
 * The real client, with what it does by default; only retries are off, so that each try shows.
 * Path style is its choice for an address anyway, but not for bucket names with dots.
 */
export function clientOf(target: Target, more: Partial<S3ClientConfig> = {}): S3Client {
  const { endpoint, keys: credentials } = target;
  return new S3Client({
    region,
    endpoint,
    credentials,
    maxAttempts: 1,
    forcePathStyle: true,
    ...more,
  });
}

/** The same gateway, asked by somebody else. */
export function as(target: Target, keys: Keys): Target {
  return { ...target, keys };
}

let count = 0;

/** A bucket name that no other test uses. */
export function newName(prefix = 'bucket'): string {
  return `${prefix}-${++count}-${randomBytes(4).toString('hex')}`;
}

/** A new, empty bucket. */
export async function newBucket(client: S3Client): Promise<string> {
  const Bucket = newName();
  await client.send(new CreateBucketCommand({ Bucket }));
  return Bucket;
}

/** One that may be opened to everybody. */
export async function newOpenBucket(client: S3Client): Promise<string> {
  const Bucket = await newBucket(client);
  await unblock(client, Bucket);
  return Bucket;
}

/** From now on a policy or a list may open the bucket to everybody. */
export async function unblock(client: S3Client, Bucket: string): Promise<void> {
  await client.send(new DeletePublicAccessBlockCommand({ Bucket }));
}

export interface Message {
  method: string;
  /** Decoded, begins with '/'. */
  path: string;
  query?: ReadonlyArray<readonly [string, string]>;
  headers?: Readonly<Record<string, string>>;
  /** A text stands for its Latin-1 bytes. */
  body?: Buffer | string;
  /** UNSIGNED-PAYLOAD and the like; the body's SHA-256 by default. */
  payload?: string;
}

export interface Answer {
  status: number;
  headers: Record<string, string>;
  body: Buffer;
  text: string;
  /** The error code, where the answer is S3's error document. */
  code: string | undefined;
}

/** What `message` is on the wire: the target and all headers, signed. */
export function signMessage(
  target: Target,
  message: Message,
): { path: string; headers: Record<string, string> } {
  const { method, path, query = [], body = '', payload } = message;
  const { accessKeyId, secretAccessKey: secret } = target.keys;
  const given = { host: new URL(target.endpoint).host, ...message.headers };
  const payloadHash =
    payload ??
    createHash('sha256')
      .update(Buffer.from(body as string, 'latin1'))
      .digest('hex');
  const timeMs = Date.now();
  const credentials = { accessKeyId, secret, region };
  const signed = signRequest({
    ...credentials,
    method,
    path,
    query,
    headers: given,
    payloadHash,
    timeMs,
  });
  return { path: targetOf(path, query), headers: { ...given, ...signed } };
}

/** The request target of a decoded path and query. */
export function targetOf(path: string, query: Message['query'] = []): string {
  const pairs = query.map(
    ([name, value]) => `${percentEncode(name, false)}=${percentEncode(value, false)}`,
  );
  const encoded = percentEncode(path, true);
  return pairs.length === 0 ? encoded : `${encoded}?${pairs.join('&')}`;
}

/** Signs and sends one message over a connection of its own. */
export function send(target: Target, message: Message): Promise<Answer> {
  const { path, headers } = signMessage(target, message);
  return exchange(target, message.method, path, headers, message.body);
}

/** Sends one message as it is. */
export function exchange(
  target: Target,
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body?: Buffer | string,
): Promise<Answer> {
  const { hostname, port } = new URL(target.endpoint);
  return new Promise((resolve, reject) => {
    const asked = request({ hostname, port, method, path, headers, agent: false }, (response) => {
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      response.on('error', reject);
      response.on('end', () => {
        const bytes = Buffer.concat(pieces);
        const { statusCode = 0 } = response;
        resolve(answerOf(statusCode, response.headers as Record<string, string>, bytes));
      });
    });
    asked.on('error', reject);
    // Node would write the header in UTF-8 if it could join it with a text.
    asked.end(typeof body === 'string' ? Buffer.from(body, 'latin1') : body);
  });
}

function answerOf(status: number, headers: Record<string, string>, body: Buffer): Answer {
  const text = body.toString('utf8');
  return { status, headers, body, text, code: elementOf(text, 'Code') };
}

/** The text of the first element of this name, still escaped; undefined: there is none. */
export function elementOf(xml: string, name: string): string | undefined {
  return new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1];
}

/** The texts of all elements of this name, still escaped. */
export function elementsOf(xml: string, name: string): string[] {
  return Array.from(xml.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, 'g')), (m) => m[1] ?? '');
}

/** Calls the native API, with and for JSON. Throws when the answer is not a success. */
export async function callNative(
  target: Target,
  method: string,
  path: string,
  content?: object,
  query: Message['query'] = [],
  // biome-ignore lint/suspicious/noExplicitAny: JSON is whatever the schema says.
): Promise<any> {
  const body = content === undefined ? '' : JSON.stringify(content);
  const headers: Record<string, string> =
    content === undefined ? {} : { 'content-type': 'application/json' };
  const answer = await send(target, { method, path, query, headers, body });
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.text === '' ? undefined : JSON.parse(answer.text);
}

/** All records that fit, page by page: one that is empty need not be the last. */
export async function findRecords(
  target: Target,
  asked: NonNullable<Message['query']>,
  // biome-ignore lint/suspicious/noExplicitAny: JSON is whatever the schema says.
): Promise<any[]> {
  const found = [];
  for (let cursor: string | null = null; ; ) {
    const query = cursor === null ? asked : [...asked, ['cursor', cursor] as const];
    const page = await callNative(target, 'GET', '/_/v1/records', undefined, query);
    found.push(...page.records);
    if (page.next === null) return found;
    cursor = page.next;
  }
}

/** A new principal with an access key. */
export async function newPrincipal(
  target: Target,
  { tenant = 'default', name = newName('person'), role = 'member' } = {},
): Promise<Keys> {
  const principals = `/_/v1/tenants/${tenant}/principals`;
  await callNative(target, 'POST', principals, { name, role });
  return callNative(target, 'POST', `${principals}/${name}/access-keys`, {});
}

/** How a promise was refused: the S3 code and the status. Fails if it was not. */
export async function refusalOf(
  attempt: Promise<unknown>,
): Promise<{ code: string; status: number | undefined }> {
  const outcome = await attempt.then(
    () => new Error('it was not refused'),
    (error: unknown) => error as Error & { $metadata?: { httpStatusCode?: number } },
  );
  if (!('$metadata' in outcome)) throw outcome;
  return { code: outcome.name, status: outcome.$metadata?.httpStatusCode };
}

/** `count` bytes that differ from place to place and repeat with no power of two. */
export function patternOf(sizeBytes: number, seed = 1): Buffer {
  const bytes = Buffer.allocUnsafe(sizeBytes);
  let state = seed;
  for (let i = 0; i < sizeBytes; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}
