// Where the files of a log are read from: a folder, or a web server. Their paths are those of C2SP
// tlog-tiles, below the log's own address. Nothing that comes is believed; it is only bounded.
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';

export interface LogSource {
  /** undefined: it is not there. Throws `SourceFailure` where that cannot be told. */
  read(path: string): Promise<Buffer | undefined>;
}

/** It could not be read, which says nothing about the log. */
export class SourceFailure extends Error {
  override readonly name = 'SourceFailure';
}

/** The longest file that a log can have: a bundle of 256 entries of 65,535 bytes. */
const fileBytesMax = 256 * (2 + 65_535);
const answerMsMax = 30_000;
const triesMax = 4;
const firstPauseMs = 200;

/** An address (`http:`, `https:`), or else a folder. */
export function openLogSource(place: string): LogSource {
  return /^https?:\/\//.test(place) ? urlSource(place) : folderSource(place);
}

export function folderSource(folder: string): LogSource {
  return { read: (path) => readBounded(join(folder, path)) };
}

async function readBounded(path: string): Promise<Buffer | undefined> {
  try {
    const file = await open(path);
    try {
      const { size } = await file.stat();
      if (size > fileBytesMax) throw new SourceFailure(`${path} is too long: ${size} bytes`);
      return await file.readFile();
    } finally {
      await file.close();
    }
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
    const answer = await fetch(url, { signal: AbortSignal.timeout(answerMsMax) });
    const body = await readBody(answer, url);
    if (answer.status === 200) return body;
    if (answer.status === 404 || answer.status === 410) return undefined;
    const said = body.toString('utf8', 0, 300).trim();
    const failure = new SourceFailure(`${url} answered ${answer.status}: ${said}`);
    if (answer.status === 429 || answer.status >= 500) return failure;
    throw failure;
  } catch (error) {
    if (error instanceof SourceFailure) throw error;
    return new SourceFailure(`cannot read ${url}: ${messageOf(error)}`, { cause: error });
  }
}

async function readBody(answer: Response, url: URL): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of answer.body ?? []) {
    bytes += part.length;
    if (bytes > fileBytesMax) throw new SourceFailure(`${url} is too long`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** What `fetch` throws says what went wrong in its cause. */
function messageOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}
