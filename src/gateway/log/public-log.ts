// The public log at `/_/log/`: checkpoint, tiles, entries and keys, for anybody. Invariants: it is
// never recorded and names nobody; what may be cached for ever never changes, and what changes is
// not cached.
// Specification: C2SP tlog-tiles, "APIs"; docs/formats/log.md.

import { setImmediate, setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { renderEntries } from '../../audit/log/entries.ts';
import { listLogKeys } from '../../audit/log/log-keys.ts';
import { widthOfTile } from '../../audit/log/merkle.ts';
import { renderVerifier } from '../../audit/log/note.ts';
import { readEntries, storedTiles } from '../../audit/log/stored-tiles.ts';
import { parseTilePath, pathOfTile, type TileName } from '../../audit/log/tile-path.ts';
import type { Reader } from '../../core/database.ts';
import { Refusal } from '../../core/errors.ts';
import { TokenBucket } from '../../quota/token-bucket.ts';
import type { NativeDeps } from '../native/deps.ts';
import { pathOf } from '../native/problem.ts';

const root = '/_/log/';
const text = 'text/plain; charset=utf-8';
const forEver = 'public, max-age=31536000, immutable';

export function addPublicLog(native: FastifyInstance, { log, read }: NativeDeps): void {
  const hidden = { schema: { hide: true } };
  const tiles = new LogTiles({ read, signedSize: () => log.size });
  native.get(`${root}checkpoint`, hidden, async (_request, reply) => {
    if (log.note === null) throw unsigned();
    return reply.type(text).header('cache-control', 'no-store').send(log.note);
  });
  native.get(`${root}key`, hidden, async (_request, reply) => {
    const keys = (await listLogKeys(read)).filter(({ revokedMs }) => revokedMs === null);
    const lines = keys.map(({ key }) => `${renderVerifier(key)}\n`);
    return reply.type(text).header('cache-control', 'no-store').send(lines.join(''));
  });
  native.get(`${root}tile/*`, hidden, async (request, reply) => {
    // The path as it came: a name that is written in another way names nothing.
    const name = parseTilePath(pathOf(request.url).slice(root.length));
    if (!name) throw new Refusal('NotFound');
    const { body, isCompressed } = await tiles.open(name, takesGzip(request));
    reply.type('application/octet-stream').header('cache-control', forEver);
    if (name.level === 'entries') reply.header('vary', 'accept-encoding');
    if (isCompressed) reply.header('content-encoding', 'gzip');
    return reply.send(body);
  });
}

/** Why there is no checkpoint. */
function unsigned(): Refusal {
  return new Refusal('ServiceUnavailable', { message: 'The log is not signed.' });
}

function takesGzip({ headers }: FastifyRequest): boolean {
  return /(?:^|,)\s*gzip\s*(?:$|,)/i.test(headers['accept-encoding'] ?? '');
}

// Tiles and entry bundles of the log, for whoever asks: nobody is known here, so what all of them
// together may cost is bounded. Invariants: only what lies below the signed size is given; what a
// path once gave it gives for ever; and reading for strangers takes no more than a part of the main
// thread's time, however many ask. Specification: C2SP tlog-tiles.

interface LogTilesOptions {
  read: Reader;
  /** How many leaves are signed for. */
  signedSize: () => number;
  /** Of the main thread's time, milliseconds a second. */
  msPerSecond?: number;
  /** Requests that may wait for their turn. */
  waitingMax?: number;
}

interface LogFile {
  body: Buffer;
  isCompressed: boolean;
}

/** Some hundred bundles a second, which are the dearest. */
const msPerSecondMax = 200;
const waitingMax = 200;
/** A bundle has some 23 KiB, a full tile 8. */
const keptMax = 500;

const compress = promisify(gzip);

export class LogTiles {
  readonly #read: Reader;
  readonly #signedSize: () => number;
  readonly #time: TokenBucket;
  readonly #waitingMax: number;
  #waiting = 0;
  #turn: Promise<unknown> = Promise.resolve();
  /** Files by their names, the ones that were asked for last at the end. */
  readonly #kept = new Map<string, Promise<LogFile>>();

  constructor(options: LogTilesOptions) {
    this.#read = options.read;
    this.#signedSize = options.signedSize;
    this.#time = new TokenBucket(options.msPerSecond ?? msPerSecondMax);
    this.#waitingMax = options.waitingMax ?? waitingMax;
  }

  /**
   * A tile, or a bundle of entries, compressed where `mayCompress`. Throws `Refusal` NotFound for
   * what no signed log has, and SlowDown when too many wait.
   */
  async open(name: TileName, mayCompress: boolean): Promise<LogFile> {
    const { level, index, width } = name;
    const there = widthOfTile(level === 'entries' ? 0 : level, index, this.#signedSize());
    if (width > there) throw new Refusal('NotFound');
    // Hashes are noise, which nothing makes smaller.
    const isCompressed = mayCompress && level === 'entries';
    const key = `${pathOfTile(name)}${isCompressed ? ' gzip' : ''}`;
    let file = this.#kept.get(key);
    if (!file) {
      if (this.#waiting >= this.#waitingMax) throw new Refusal('SlowDown');
      file = this.#take(name, isCompressed);
    }
    this.#keep(key, file);
    return file;
  }

  #keep(key: string, file: Promise<LogFile>): void {
    this.#kept.delete(key);
    this.#kept.set(key, file);
    // What failed is asked for anew.
    file.catch(() => this.#kept.delete(key));
    if (this.#kept.size <= keptMax) return;
    const [oldest = ''] = this.#kept.keys();
    this.#kept.delete(oldest);
  }

  async #take(name: TileName, isCompressed: boolean): Promise<LogFile> {
    this.#waiting += 1;
    const body = this.#turn.then(() => this.#readInTurn(name));
    this.#turn = body.catch(() => {});
    try {
      const whole = await body;
      return { body: isCompressed ? await compress(whole) : whole, isCompressed };
    } finally {
      this.#waiting -= 1;
    }
  }

  async #readInTurn({ level, index, width }: TileName): Promise<Buffer> {
    const waitMs = this.#time.waitMs(0);
    await (waitMs > 0 ? setTimeout(waitMs) : setImmediate());
    const sinceMs = performance.now();
    try {
      if (level === 'entries') return renderEntries(await readEntries(this.#read, index, width));
      return Buffer.from(await storedTiles(this.#read).readTile(level, index, width));
    } finally {
      this.#time.take(performance.now() - sinceMs);
    }
  }
}
