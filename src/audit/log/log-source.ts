// Where a log's files are read from: a folder, or a server over HTTP. Invariant: memory is bounded
// whatever a server sends, and what is not there is told from what cannot be read. Nothing is
// verified here. Specification: C2SP tlog-tiles.
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { entryBytesMax } from './entries.ts';
import { tileWidth } from './merkle.ts';

export interface LogSource {
  /** For messages: the folder or the address. */
  name: string;
  /** A file by its path below the log's address; undefined: there is none. Throws otherwise. */
  read(path: string): Promise<Buffer | undefined>;
  close(): void;
}

/** Of the largest file that there can be, a full bundle. */
const fileBytesMax = tileWidth * (2 + entryBytesMax);
const tries = 4;
const pauseMs = 200;
/** A server that says nothing for so long is taken for gone. */
const silenceMsMax = 30_000;
const connectionsMax = 16;
const unzip = promisify(gunzip);

/** An address (`http:`, `https:`) or else a folder. */
export function openLogSource(place: string): LogSource {
  return /^https?:\/\//.test(place) ? httpSource(place) : folderSource(place);
}

function folderSource(folder: string): LogSource {
  return {
    name: folder,
    read: async (path) => {
      try {
        return await readFile(join(folder, path));
      } catch (error) {
        if (isAbsent(error)) return undefined;
        throw error;
      }
    },
    close: () => {},
  };
}

function isAbsent(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}

function httpSource(url: string): LogSource {
  const name = url.replace(/\/+$/, '');
  const options = { keepAlive: true, maxSockets: connectionsMax };
  const agent = name.startsWith('https:') ? new https.Agent(options) : new http.Agent(options);
  return {
    name,
    read: (path) => readUrl(`${name}/${path}`, agent),
    close: () => agent.destroy(),
  };
}

/** Tries again what may pass by itself: lost connections, and a server that is overloaded. */
async function readUrl(url: string, agent: http.Agent): Promise<Buffer | undefined> {
  for (let attempt = 1; ; attempt += 1) {
    let reason: string;
    try {
      const { status, body } = await get(url, agent);
      if (status === 200) return body;
      if (status === 404 || status === 410) return undefined;
      reason = `${url} answered ${status}`;
      if (status < 500 && status !== 429) throw new Error(reason);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === undefined) throw error;
      reason = `cannot read ${url}: ${message || code}`;
    }
    if (attempt === tries) throw new Error(reason);
    await sleep(pauseMs * 2 ** attempt * (0.5 + Math.random()));
  }
}

async function get(url: string, agent: http.Agent): Promise<{ status: number; body: Buffer }> {
  const begin = url.startsWith('https:') ? https.get : http.get;
  const headers = { 'accept-encoding': 'gzip, identity' };
  const request = begin(url, { agent, headers, timeout: silenceMsMax });
  request.on('timeout', () => {
    request.destroy(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' }));
  });
  const [answer] = (await once(request, 'response')) as [http.IncomingMessage];
  const pieces: Buffer[] = [];
  let sizeBytes = 0;
  for await (const piece of answer as AsyncIterable<Buffer>) {
    pieces.push(piece);
    sizeBytes += piece.length;
    if (sizeBytes > fileBytesMax) throw new Error(`${url} is longer than any file of a log`);
  }
  const body = Buffer.concat(pieces);
  const isPacked = answer.headers['content-encoding'] === 'gzip' && body.length > 0;
  const unpacked = isPacked ? await unzip(body, { maxOutputLength: fileBytesMax }) : body;
  return { status: answer.statusCode ?? 0, body: unpacked };
}
