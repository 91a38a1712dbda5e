// The reader of a store's answers against Node's own HTTP client, with answers damaged at random and
// read in random pieces. Ours is the stricter one: what it refuses is tried again, and what it takes
// must be what Node understands.
import http from 'node:http';
import { Duplex } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { AttemptFailure } from '#bursar/tiering/stores/s3/failure.js';
import { type AnswerHeaders, AnswerParser } from '#bursar/tiering/stores/s3/http-answer.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomBytesOf, randomOf } from './seeded-random.ts';

type Random = () => number;

interface Outcome {
  status: number;
  headers: AnswerHeaders;
  body: Buffer;
  isPersistent: boolean;
  /** How many bytes it took. */
  bytes: number;
}

const methods = ['GET', 'PUT', 'HEAD'];
const rooms = [1, 7, 64, 300];

/** A sound answer, and the body that it has for a GET. */
function soundAnswer(random: Random, method: string): { bytes: Buffer; body: Buffer } {
  const status = randomOf(random, ['200 OK', '206 Partial Content', '404 ', '503']);
  const body = randomBytesOf(random, randomOf(random, [0, 1, 40, 200, 1000]));
  const lines = [`HTTP/1.1 ${status}`, 'ETag: "abc"', 'x-amz-request-id:  A1 ', 'Date: today'];
  if (random() < 0.2) lines.push('Connection: close');
  if (random() < 0.2) lines.unshift('HTTP/1.1 100 Continue', '');
  const isChunked = random() < 0.4;
  lines.push(isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`);
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
  if (method === 'HEAD') return { bytes: head, body: Buffer.alloc(0) };
  return { bytes: Buffer.concat([head, isChunked ? chunksOf(random, body) : body]), body };
}

function chunksOf(random: Random, body: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const size = 1 + randomBelow(random, Math.min(300, body.length - at));
    const extension = random() < 0.2 ? ';name=value' : '';
    parts.push(Buffer.from(`${size.toString(16)}${extension}\r\n`), body.subarray(at, at + size));
    parts.push(Buffer.from('\r\n'));
    at += size;
  }
  parts.push(Buffer.from(random() < 0.2 ? '0\r\nx-trailer: 1\r\n\r\n' : '0\r\n\r\n'));
  return Buffer.concat(parts);
}

const odd = ['\r\n', '\n', '\r', ' ', ':', '\0', '0', '5', 'ff', ';', ',', 'chunked', '\r\n\r\n'];
const oddLines = [
  'Content-Length: 5\r\n',
  'Content-Length: +5\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Transfer-Encoding: gzip, chunked\r\n',
  ' folded\r\n',
  'Connection: Close\r\n',
  'HTTP/1.0 200 OK\r\n',
];

/** Drops, doubles or inserts a few bytes, preferably those that have a meaning. */
function damage(random: Random, sound: Buffer): Buffer {
  let bytes = sound;
  for (let count = 1 + randomBelow(random, 2); count > 0; count--) {
    const headBytes = Math.max(1, bytes.indexOf('\r\n\r\n') + 4);
    let at = randomBelow(random, random() < 0.7 ? headBytes : bytes.length + 1);
    if (random() < 0.3) at = bytes.indexOf('\r\n') + 2;
    const end = Math.min(bytes.length, at + randomBelow(random, 4));
    const inserted = random() < 0.5 ? randomOf(random, odd) : randomOf(random, oddLines);
    const parts = [bytes.subarray(0, at), Buffer.from(inserted, 'latin1'), bytes.subarray(end)];
    bytes = Buffer.concat(random() < 0.3 ? [parts[0] as Buffer, parts[2] as Buffer] : parts);
  }
  return bytes;
}

/** What our reader makes of the bytes; null when it refuses them, or they are not all of it. */
function readOurs(method: string, bytes: Buffer, pieceBytes: () => number): Outcome | null {
  let status = 0;
  let headers: AnswerHeaders = {};
  const body: Buffer[] = [];
  let room = Buffer.alloc(0);
  const parser = new AnswerParser(method, {
    onHead: (...head) => {
      [status, headers] = head;
    },
    room: () => {
      room = Buffer.alloc(randomOf(Math.random, rooms));
      return room;
    },
    took: (count) => {
      expect(count).toBeLessThanOrEqual(room.length);
      body.push(room.subarray(0, count));
    },
  });
  let at = 0;
  try {
    while (at < bytes.length && !parser.isDone) {
      const direct = parser.room();
      const piece = bytes.subarray(at, at + Math.min(pieceBytes(), direct?.length ?? Infinity));
      at += piece.length;
      if (direct) {
        piece.copy(direct);
        parser.took(piece.length);
      } else {
        parser.push(piece);
      }
    }
  } catch (error) {
    expect(error).toBeInstanceOf(AttemptFailure);
    return null;
  }
  if (!parser.isDone && !parser.end()) return null;
  const { isPersistent } = parser;
  return { status, headers, body: Buffer.concat(body), isPersistent, bytes: at };
}

/** The same by Node. */
function readNodes(
  method: string,
  bytes: Buffer,
): Promise<Pick<Outcome, 'status' | 'body'> | null> {
  return new Promise((resolve) => {
    const socket = new Duplex({ read: () => {}, write: (_, __, done) => done() });
    const request = http.request({ method, createConnection: () => socket });
    request.on('error', () => resolve(null));
    request.on('response', (answer) => {
      const body: Buffer[] = [];
      answer.on('data', (chunk) => body.push(chunk));
      answer.on('error', () => resolve(null));
      answer.on('end', () => {
        resolve({ status: answer.statusCode ?? 0, body: Buffer.concat(body) });
      });
    });
    request.on('socket', () => {
      socket.push(bytes);
      setImmediate(() => socket.push(null));
    });
    request.end();
  });
}

describe('the answers of a store', () => {
  it(
    'are read as they were sent, in whatever pieces they come',
    async () => {
      await fuzz(9100, 400, (random) => {
        const method = randomOf(random, methods);
        const { bytes, body } = soundAnswer(random, method);
        const outcome = readOurs(method, bytes, () => 1 + randomBelow(random, 50));
        expect(outcome?.headers).toMatchObject({ etag: '"abc"', 'x-amz-request-id': 'A1' });
        if (method !== 'HEAD') expect(outcome?.body.equals(body)).toBe(true);
        const isClosing = bytes.includes('close');
        expect(outcome?.isPersistent).toBe(!isClosing);
      });
    },
    fuzzTimeoutMs,
  );

  it(
    'are refused, or are what Node takes them for, when they are damaged',
    async () => {
      let taken = 0;
      await fuzz(9200, 1500, async (random) => {
        const method = randomOf(random, methods);
        const bytes = damage(random, soundAnswer(random, method).bytes);
        const outcome = readOurs(method, bytes, () => 1);
        const again = readOurs(method, bytes, () => bytes.length);
        expect(again?.body).toEqual(outcome?.body);
        if (!outcome) return;
        taken++;
        expect(await readNodes(method, bytes.subarray(0, outcome.bytes))).toEqual({
          status: outcome.status,
          body: outcome.body,
        });
      });
      expect(taken).toBeGreaterThan(100);
    },
    fuzzTimeoutMs,
  );
});
