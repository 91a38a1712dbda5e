// Where the files of a log are read from: a folder, or a web server. Their paths are those of C2SP
// tlog-tiles, below the log's own address. Nothing that comes is believed; it is only bounded.

import { once } from 'node:events';
import { open } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { http, https } from '../../core/node-http.ts';

export interface LogSource {
  /** undefined: it is not there. Throws `SourceFailure` where that cannot be told. */
  read(path: string): Promise<Buffer | undefined>;
}

/** The file could not be read, which says nothing about the log. */
export class SourceFailure extends Error {
  override readonly name = 'SourceFailure';
}

/** The longest file that a log can have: a bundle of 256 entries of 65,535 bytes. */
const fileBytesMax = 256 * (2 + 65_535);
const answerMsMax = 30_000;
const triesMax = 4;
const firstPauseMs = 200;

const agent = new http.Agent({ keepAlive: true });
const tlsAgent = new https.Agent({ keepAlive: true });
const unzip = promisify(gunzip);

/** An address (`http:`, `https:`), or else a folder. */
export function openLogSource(place: string): LogSource {
  return /^https?:\/\//.test(place) ? urlSource(place) : folderSource(place);
}

export function folderSource(folder: string): LogSource {
  return { read: (path) => readBounded(join(folder, path)) };
}

async function readBounded(path: string): Promise<Buffer | undefined> {
  try {
    await using file = await open(path);
    const { size } = await file.stat();
    if (size > fileBytesMax) throw new SourceFailure(`${path} is too long: ${size} bytes`);
    return await file.readFile();
  } catch (error) {
    if (error instanceof SourceFailure) throw error;
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw new SourceFailure(`cannot read ${path}: ${messageOf(error)}`, { cause: error });
  }
}

/** `url`: the log's own address, such as `https://bursar.example/_/log`. */
export function urlSource(url: string): LogSource {
  const base = url.endsWith('/') ? url : `${url}/`;
  return { read: (path) => fetchPatiently(new URL(path, base)) };
}

/** Asks again where the server is busy or out of reach. */
async function fetchPatiently(url: URL): Promise<Buffer | undefined> {
  for (let tries = 1; ; tries++) {
    const answer = await fetchOnce(url);
    if (!(answer instanceof SourceFailure)) return answer;
    if (tries === triesMax) throw answer;
    await setTimeout(firstPauseMs * 2 ** (tries - 1));
  }
}

/** A failure that is returned may pass; one that is thrown does not. */
async function fetchOnce(url: URL): Promise<Buffer | SourceFailure | undefined> {
  try {
    const answer = await ask(url);
    const body = await readBody(answer, url);
    const status = answer.statusCode ?? 0;
    if (status === 200) return body;
    if (status === 404 || status === 410) return undefined;
    const said = body.toString('utf8', 0, 300).trim();
    const failure = new SourceFailure(`${url} answered ${status}: ${said}`);
    if (status === 429 || status >= 500) return failure;
    throw failure;
  } catch (error) {
    if (error instanceof SourceFailure) throw error;
    return new SourceFailure(`cannot read ${url}: ${messageOf(error)}`, { cause: error });
  }
}

/** Not `fetch`: that refuses ports on which a gateway may well listen. */
async function ask(url: URL): Promise<IncomingMessage> {
  const isTls = url.protocol === 'https:';
  const request = (isTls ? https : http).get(url, {
    agent: isTls ? tlsAgent : agent,
    headers: { 'accept-encoding': 'gzip, identity' },
    signal: AbortSignal.timeout(answerMsMax),
  });
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  return answer;
}

async function readBody(answer: IncomingMessage, url: URL): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of answer as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > fileBytesMax) throw new SourceFailure(`${url} is too long`);
    parts.push(part);
  }
  const body = Buffer.concat(parts);
  const isPacked = answer.headers['content-encoding'] === 'gzip';
  return isPacked ? unzip(body, { maxOutputLength: fileBytesMax }) : body;
}

function messageOf(error: unknown): string {
  return error instanceof Error
    ? error.message || String(Reflect.get(error, 'code'))
    : String(error);
}
