// The decoder against a reader that has the whole body before it and follows the specification line
// by line, with bodies damaged at random and pushed in random pieces.
import { createHash, createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { AwsChunkedDecoder, type ChunkSeed } from '#bursar/authz/aws-chunked.js';
import { encodeChunks } from '../authz/chunk-encoder.ts';
import { fuzz, fuzzTimeoutMs, randomBelow, randomBytesOf, randomOf } from './seeded-random.ts';

interface Case {
  body: Buffer;
  seed: ChunkSeed | null;
  trailer: boolean;
  trailerNames: string[];
  decodedBytes: number;
}

interface Outcome {
  data: Buffer;
  trailers: Array<[string, string]>;
}

type Random = () => number;

const names = ['x-amz-checksum-crc32', 'x-amz-checksum-sha256', 'x-amz-checksum-crc32c'];

/** A sound body: signed or not, with or without trailers. */
function soundCase(random: Random): Case {
  const signed = random() < 0.5;
  const trailer = !signed || random() < 0.5;
  const seed = signed
    ? {
        signingKey: randomBytesOf(random, 32),
        scope: '20130524/us-east-1/s3/aws4_request',
        amzDate: '20130524T000000Z',
        signature: randomBytesOf(random, 32).toString('hex'),
      }
    : null;
  const chunks = Array.from({ length: randomBelow(random, 5) }, () =>
    randomBytesOf(random, 1 + randomBelow(random, 40)),
  );
  // Signed in the order of names, as the canonical form sorts them.
  const trailers = names
    .filter(() => random() < 0.4)
    .sort()
    .map((name) => [name, randomBytesOf(random, 6).toString('base64')] as const);
  return {
    body: encodeChunks(chunks, seed, trailer ? trailers : null).bytes,
    seed,
    trailer,
    trailerNames: trailer ? trailers.map(([name]) => name) : [],
    decodedBytes: chunks.reduce((sum, chunk) => sum + chunk.length, 0),
  };
}

/** Flips, drops, doubles or inserts a few bytes, preferably those that have a meaning. */
function damage(random: Random, body: Buffer): Buffer {
  let bytes = body;
  for (let count = 1 + randomBelow(random, 2); count > 0; count--) {
    const at = randomBelow(random, bytes.length + 1);
    const end = Math.min(bytes.length, at + randomBelow(random, 4));
    const inserted = randomOf(random, ['', '\r\n', '\n', '0', ';', ':', 'f', 'x', '\0', '\xff']);
    bytes = Buffer.concat([
      bytes.subarray(0, at),
      Buffer.from(inserted, 'latin1'),
      bytes.subarray(random() < 0.5 ? at : end),
    ]);
  }
  return bytes;
}

function decode(random: Random, given: Case, pieceBytesMax: number): Outcome | string {
  const decoder = new AwsChunkedDecoder(given);
  const slices: Buffer[] = [];
  try {
    for (let at = 0; at < given.body.length; ) {
      const end = at + 1 + randomBelow(random, pieceBytesMax);
      decoder.push(given.body.subarray(at, end), (slice) => slices.push(slice));
      at = end;
    }
    decoder.finish();
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'Refusal') throw error;
    return (error as Error & { code: string }).code;
  }
  return { data: Buffer.concat(slices), trailers: [...decoder.trailers] };
}

/** The same by the book: regular expressions over the whole text. null: the body is not sound. */
function readWhole(given: Case): Outcome | null {
  const { seed } = given;
  const text = given.body.toString('latin1');
  let previous = seed?.signature ?? '';
  const signedBy = (kind: string, digests: string, signature: string | undefined): boolean => {
    if (seed === null) return true;
    const signedText = [kind, seed.amzDate, seed.scope, previous, digests].join('\n');
    previous = createHmac('sha256', seed.signingKey).update(signedText).digest('hex');
    return signature === previous;
  };
  const digest = (data: string) => createHash('sha256').update(data, 'latin1').digest('hex');

  let data = '';
  let rest = text;
  for (;;) {
    const line = /^([0-9a-fA-F]+)(?:;([^\n]*))?\r\n/.exec(rest);
    if (line === null) return null;
    const size = Number.parseInt(line[1] as string, 16);
    const chunk = rest.slice(line[0].length, line[0].length + size);
    const signature = /^\s*chunk-signature=(.*?)\s*$/s.exec(line[2] ?? '')?.[1];
    if (chunk.length !== size) return null;
    const digests = `${digest('')}\n${digest(chunk)}`;
    if (!signedBy('AWS4-HMAC-SHA256-PAYLOAD', digests, signature)) return null;
    rest = rest.slice(line[0].length + size);
    if (size === 0) break;
    if (!rest.startsWith('\r\n')) return null;
    rest = rest.slice(2);
    data += chunk;
  }
  if (data.length !== given.decodedBytes) return null;
  const trailers = given.trailer ? readTrailers(given, rest, signedBy, digest) : [];
  if (trailers === null || (!given.trailer && rest !== '\r\n')) return null;
  return { data: Buffer.from(data, 'latin1'), trailers };
}

function readTrailers(
  given: Case,
  rest: string,
  signedBy: (kind: string, digests: string, signature: string) => boolean,
  digest: (data: string) => string,
): Array<[string, string]> | null {
  if (!rest.endsWith('\n'))
    return rest === '' && given.seed === null && given.trailerNames.length === 0 ? [] : null;
  // If nothing is signed, one empty line may follow a line that ends with a line feed alone.
  const between = given.seed === null ? /(?<=^|\n)([^\n]*[^\r\n])\n\r?\n/g : /$^/g;
  const lines = rest
    .replace(between, '$1\n')
    .slice(0, -1)
    .split('\n')
    .map((line) => line.replace(/\r$/, ''));
  // The empty line at the end may be missing, and must be the only one if nothing is signed.
  if (lines.at(-1) === '') lines.pop();
  const trailers: Array<[string, string]> = [];
  let signed = given.seed === null;
  for (const line of lines) {
    if (line === '' && !signed) continue;
    const parts = /^([^:]+):(.*)$/s.exec(line);
    if (parts === null || (signed && given.seed !== null)) return null;
    const name = (parts[1] as string).trim().toLowerCase();
    const value = (parts[2] as string).trim();
    if (name === 'x-amz-trailer-signature' && given.seed !== null) {
      const sorted = trailers.map(([n, v]) => `${n}:${v}\n`).sort();
      if (!signedBy('AWS4-HMAC-SHA256-TRAILER', digest(sorted.join('')), value)) return null;
      signed = true;
      continue;
    }
    if (!given.trailerNames.includes(name) || trailers.some(([n]) => n === name)) return null;
    trailers.push([name, value]);
  }
  return signed && trailers.length === given.trailerNames.length ? trailers : null;
}

describe('the aws-chunked decoder, fuzzed', () => {
  it('a sound body decodes to the same in any pieces', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(1_000, 300, (random) => {
      const given = soundCase(random);
      const expected = readWhole(given);
      expect(expected).not.toBeNull();
      for (const pieceBytesMax of [1, 3, 50, given.body.length]) {
        expect(decode(random, given, pieceBytesMax)).toEqual(expected);
      }
    });
  });

  it('a damaged body is refused, in any pieces alike, unless a plain reading finds it sound', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    await fuzz(2_000, 1_500, (random) => {
      const sound = soundCase(random);
      const given = { ...sound, body: damage(random, sound.body) };
      const expected = readWhole(given);
      const outcomes = [1, 3, 50, given.body.length + 1].map((pieceBytesMax) =>
        decode(random, given, pieceBytesMax),
      );
      for (const outcome of outcomes) expect(outcome).toEqual(outcomes[0]);
      if (expected === null) expect(outcomes[0]).toBeTypeOf('string');
      else expect(outcomes[0]).toEqual(expected);
    });
  });

  it('noise is refused and nothing else is thrown', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(3_000, 500, (random) => {
      const given = { ...soundCase(random), body: randomBytesOf(random, randomBelow(random, 200)) };
      expect(decode(random, given, 50)).toBeTypeOf('string');
    });
  });
});
