// Clients of a tenant near its limits: they write, read, copy, upload in parts, delete, leave in
// the middle and try again, many at a time. Invariant: any answer but success, a refusal for want
// of budget that is true in itself, or the absence of what another client deletes, is a finding.
import { createHash } from 'node:crypto';
import { randomBelow, randomOf } from '../../fuzz/seeded-random.ts';
import { KiB, makeContent } from '../content.ts';
import { element } from '../load.ts';
import type { Answer, S3Client, Sending } from '../s3-client.ts';

export interface LoadOptions {
  /** One for each principal. */
  clients: readonly S3Client[];
  buckets: readonly string[];
  random: () => number;
  /** Begins all keys of this load, which no other load uses. */
  prefix: string;
  /** What is stored, to be read; it is kept up to date. */
  stored: string[];
  /** The largest body, bytes. */
  sizeBytesMax: number;
  /** May changes be answered ServiceUnavailable, since the journal of their store is slow? */
  isSlow?: boolean;
}

/** What the clients know, which the gateway's books have to agree with. */
export class ClientBook {
  done = 0;
  refused = 0;
  /** Body bytes of objects that clients have received, of answers broken off too. */
  receivedBytes = 0;
  /** Requests that were answered well, by how they are priced. */
  readonly answered = { put: 0, get: 0 };
  /** Bytes of bodies that were sent whole and answered well. */
  sentBytes = 0;
  /** Objects that were never stored: each attempt was refused. */
  readonly neverStored = new Set<string>();
  /** Refusals by `account limit`. */
  readonly refusals = new Map<string, number>();
  readonly findings: string[] = [];
  /** Changes whose store was too slow to make them safe: they are there or not. */
  unsafe = 0;
}

interface Turn {
  client: S3Client;
  /** Of its own. */
  key: string;
}

const gone = new Set(['NoSuchKey', 'NoSuchUpload', 'InvalidPart']);

/** What was answered ServiceUnavailable, as any client of S3 has to expect under overload. */
class Unsafe extends Error {}

export class LimitedLoad {
  readonly book = new ClientBook();
  readonly #options: LoadOptions;
  readonly #stored: string[];
  #turns = 0;
  #isStopped = false;
  #isKilled = false;

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#stored = options.stored;
  }

  /** Keeps `atOnce` requests under way until `turns` of them have begun, or it is stopped. */
  async run(atOnce: number, turns = Number.POSITIVE_INFINITY): Promise<void> {
    const { clients, random } = this.#options;
    const worker = async (number: number): Promise<void> => {
      const client = clients[number % clients.length] as S3Client;
      while (!this.#isStopped && this.#turns < turns) {
        const key = `${this.#options.prefix}/${this.#turns++}`;
        const turn = { client, key: `${this.#pickBucket()}/${key}` };
        await this.#take(randomOf(random, deck), turn);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, (_, i) => worker(i)));
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** From here on connections may break. */
  expectKill(): void {
    this.#isKilled = true;
    this.#isStopped = true;
  }

  async #take(act: (load: LimitedLoad, turn: Turn) => Promise<void>, turn: Turn): Promise<void> {
    try {
      await act(this, turn);
      this.book.done++;
    } catch (error) {
      if (error instanceof Unsafe && this.#options.isSlow) {
        this.book.unsafe++;
        this.book.neverStored.delete(turn.key);
      } else if (!this.#isKilled) this.book.findings.push(`${turn.key}: ${String(error)}`);
    }
  }

  size(): number {
    const { random, sizeBytesMax } = this.#options;
    const sizes = [0, 1, KiB, 4 * KiB, 4 * KiB, 20 * KiB, 70 * KiB, 300 * KiB];
    return Math.min(randomOf(random, sizes) + randomBelow(random, 500), sizeBytesMax);
  }

  /** Written, and now and then once more if it was refused. */
  async put({ client, key }: Turn): Promise<void> {
    const body = contentOf(this.size());
    for (let tries = 0; tries < 2; tries++) {
      const { status } = await this.send(client, 'PUT', key, { body });
      if (status === 200) {
        this.book.neverStored.delete(key);
        this.#stored.push(key);
        return;
      }
      if (tries === 0) this.book.neverStored.add(key);
      if (this.#options.random() < 0.7) return;
    }
  }

  /**
   * In frames of 16 bytes, which with their heads are half as much again as the length declared.
   */
  async putInFrames({ client, key }: Turn): Promise<void> {
    const content = contentOf(this.size() & ~15);
    const frames: Buffer[] = [];
    for (let at = 0; at < content.length; at += 16) {
      frames.push(Buffer.from('10\r\n'), content.subarray(at, at + 16), Buffer.from('\r\n'));
    }
    const chunks = [Buffer.concat([...frames, Buffer.from('0\r\n\r\n')])];
    const headers = { 'x-amz-decoded-content-length': String(content.length) };
    const payloadHash = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER';
    const sending = { body: { sizeBytes: null, chunks }, headers, payloadHash };
    const { status } = await this.send(client, 'PUT', key, sending);
    if (status === 200) this.#stored.push(key);
    else this.book.neverStored.add(key);
  }

  /** Left in the middle. */
  async leaveUpload({ client, key }: Turn): Promise<void> {
    const body = contentOf(this.size() + 100);
    const request = client.begin('PUT', `/${key}`, { body });
    this.book.neverStored.add(key);
    await new Promise<void>((resolve) => {
      request.on('error', () => resolve());
      request.on('response', (response) => response.resume().once('end', resolve));
      request.write(body.subarray(0, body.length >> 1), () => {
        setTimeout(() => request.destroy(), randomBelow(this.#options.random, 20));
      });
      request.once('close', resolve);
    });
  }

  async get({ client }: Turn, headers: Record<string, string> = {}): Promise<void> {
    const key = this.#pickStored();
    if (key !== undefined) await this.send(client, 'GET', key, { headers });
  }

  /** Reads the beginning and leaves. */
  async leaveDownload({ client }: Turn): Promise<void> {
    const key = this.#pickStored();
    if (key === undefined) return;
    const response = await client.open('GET', `/${key}`);
    const isData = response.statusCode === 200;
    if (isData) this.book.answered.get++;
    await new Promise<void>((resolve) => {
      response.on('data', (data: Buffer) => {
        if (isData) this.book.receivedBytes += data.length;
        response.destroy();
      });
      response.on('error', () => resolve());
      response.once('close', resolve);
    });
  }

  async head({ client }: Turn): Promise<void> {
    const key = this.#pickStored();
    if (key === undefined) return;
    // Of a HEAD's refusal only the status can be read.
    const { status } = await client.send('HEAD', `/${key}`);
    if (status === 200) this.book.answered.get++;
    if (![200, 403, 404].includes(status)) throw new Error(`HEAD was answered ${status}`);
  }

  async list({ client }: Turn): Promise<void> {
    const query = pairs({ 'list-type': '2', 'max-keys': '20', prefix: this.#options.prefix });
    await this.send(client, 'GET', this.#pickBucket(), { query });
  }

  async copy({ client, key }: Turn): Promise<void> {
    const source = this.#pickStored();
    if (source === undefined) return;
    const headers = { 'x-amz-copy-source': `/${source}` };
    const { status } = await this.send(client, 'PUT', key, { headers });
    if (status === 200) this.#stored.push(key);
    else this.book.neverStored.add(key);
  }

  async multipart({ client, key }: Turn, end: 'complete' | 'abort' | 'leave'): Promise<void> {
    this.book.neverStored.add(key);
    const begun = await this.send(client, 'POST', key, { query: pairs({ uploads: '' }) });
    if (begun.status !== 200) return;
    const uploadId = element(begun.body, 'UploadId');
    const query = pairs({ partNumber: '1', uploadId });
    const part = await this.send(client, 'PUT', key, { query, body: contentOf(this.size()) });
    if (end === 'leave') return;
    if (end === 'abort' || part.status !== 200) {
      await this.mustDo(client, 'DELETE', key, { query: pairs({ uploadId }) });
      return;
    }
    const list = `<Part><PartNumber>1</PartNumber><ETag>${part.headers.etag}</ETag></Part>`;
    const body = Buffer.from(`<CompleteMultipartUpload>${list}</CompleteMultipartUpload>`);
    const done = await this.send(client, 'POST', key, { query: pairs({ uploadId }), body });
    if (done.status !== 200) return;
    this.book.neverStored.delete(key);
    this.#stored.push(key);
  }

  /** Nobody's limits hold a delete up. */
  async delete({ client }: Turn): Promise<void> {
    const key = this.#takeStored();
    if (key !== undefined) await this.mustDo(client, 'DELETE', key, {});
  }

  async deleteMany({ client }: Turn): Promise<void> {
    const bucket = this.#pickBucket();
    const keys = [this.#takeStored(), this.#takeStored()].filter((key) => key !== undefined);
    const objects = keys.map(
      (key) => `<Object><Key>${key.slice(key.indexOf('/') + 1)}</Key></Object>`,
    );
    if (objects.length === 0) return;
    const body = Buffer.from(`<Delete>${objects.join('')}</Delete>`);
    const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
    await this.mustDo(client, 'POST', bucket, { query: pairs({ delete: '' }), body, headers });
  }

  async mustDo(client: S3Client, method: string, path: string, sending: Sending): Promise<void> {
    const { status, body } = await client.send(method, `/${path}`, sending);
    if (status === 503) throw new Unsafe(String(body));
    if (status >= 300) throw new Error(`${method} was answered ${status}: ${body}`);
  }

  /** Resolves with a good answer, or one that is to be expected. */
  async send(client: S3Client, method: string, path: string, sending: Sending): Promise<Answer> {
    const { book } = this;
    const response = await client.open(method, `/${path}`, sending);
    const { statusCode: status = 0, headers } = response;
    if (status < 300) {
      book.answered[method === 'GET' ? 'get' : 'put']++;
      book.sentBytes += Buffer.isBuffer(sending.body) ? sending.body.length : 0;
    }
    const pieces: Buffer[] = [];
    // What a write is answered counts as no bytes sent.
    const isRead = status < 300 && method === 'GET';
    // Counted as it comes: the answer may be broken off.
    for await (const piece of response) {
      if (isRead) book.receivedBytes += (piece as Buffer).length;
      pieces.push(piece as Buffer);
    }
    const body = Buffer.concat(pieces);
    const answer = { status, headers, body };
    if (status < 300) return answer;
    const code = element(body, 'Code');
    if (status === 503 && code === 'ServiceUnavailable') throw new Unsafe(String(body));
    if (code === 'QuotaExceeded' && status === 403) this.#checkRefusal(body);
    else if (!gone.has(code) && status !== 416) {
      throw new Error(`${method} was answered ${status}: ${body}`);
    }
    return answer;
  }

  /** What a refusal says must be a reason for it. */
  #checkRefusal(body: Buffer): void {
    // A token that was given a part of its maker's rights is not told its maker's figures.
    const isTold = element(body, 'Max') !== '';
    const [max, used, reserved, asked] = ['Max', 'Used', 'Reserved', 'Asked'].map((name) =>
      toWhole(element(body, name)),
    ) as [bigint, bigint, bigint, bigint];
    const isOver = used + reserved > max || reserved < 0n;
    const isEnough = used + reserved + asked <= max;
    if (isTold && (isOver || isEnough)) throw new Error(`a refusal without reason: ${body}`);
    const name = `${element(body, 'Account')} ${element(body, 'Limit')}`;
    this.book.refused++;
    this.book.refusals.set(name, (this.book.refusals.get(name) ?? 0) + 1);
  }

  #pickBucket(): string {
    return randomOf(this.#options.random, this.#options.buckets);
  }

  #pickStored(): string | undefined {
    return this.#stored[randomBelow(this.#options.random, this.#stored.length)];
  }

  #takeStored(): string | undefined {
    const at = randomBelow(this.#options.random, this.#stored.length);
    return this.#stored.splice(at, 1)[0];
  }
}

type Act = (load: LimitedLoad, turn: Turn) => Promise<void>;

/** Each act as often as its weight. */
const deck: Act[] = (
  [
    [24, (load, turn) => load.put(turn)],
    [6, (load, turn) => load.putInFrames(turn)],
    [5, (load, turn) => load.leaveUpload(turn)],
    [18, (load, turn) => load.get(turn)],
    [6, (load, turn) => load.get(turn, { range: 'bytes=100-2000' })],
    [4, (load, turn) => load.leaveDownload(turn)],
    [3, (load, turn) => load.head(turn)],
    [3, (load, turn) => load.list(turn)],
    [8, (load, turn) => load.copy(turn)],
    [4, (load, turn) => load.multipart(turn, 'complete')],
    [2, (load, turn) => load.multipart(turn, 'abort')],
    [1, (load, turn) => load.multipart(turn, 'leave')],
    [5, (load, turn) => load.delete(turn)],
    [2, (load, turn) => load.deleteMany(turn)],
  ] as [number, Act][]
).flatMap(([weight, act]) => new Array<Act>(weight).fill(act));

const content = makeContent(5, 400 * KiB).bytes;

function contentOf(sizeBytes: number): Buffer {
  return content.subarray(0, sizeBytes);
}

/** A count, or decimal USD as picodollars. */
function toWhole(text: string): bigint {
  const [whole = '', decimals] = text.split('.');
  return BigInt(decimals === undefined ? whole : whole + decimals.padEnd(12, '0'));
}

function pairs(query: Record<string, string>): [string, string][] {
  return Object.entries(query);
}
