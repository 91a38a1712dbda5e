// Tags at random: a document and a header of the same tags are read alike, and what is damaged
// gives other tags or a Refusal, and never anything else.
import { describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { renderXml } from '#bursar/gateway/http/xml.js';
import { parseTagging, readTags } from '#bursar/gateway/s3/objects/object-attributes.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

type Random = () => number;
type Pair = readonly [string, string];

const letters = ['a', 'Z', '0', 'é', 'ж', '漢', ' ', '_', '.', ':', '/', '=', '+', '-', '@'];
const others = ['&', '<', ';', '"', '\n', '\u0001', '🙂', '%', ']]>'];

function text(random: Random, known: readonly string[]): string {
  return Array.from({ length: randomBelow(random, 6) }, () => randomOf(random, known)).join('');
}

/** Up to ten tags whose keys differ. */
function tags(random: Random, known: readonly string[]): Pair[] {
  return Array.from({ length: randomBelow(random, 11) }, (_, i) => [
    `${i}${text(random, known)}`,
    text(random, known),
  ]);
}

function documentOf(pairs: readonly Pair[]): string {
  return renderXml('Tagging', {
    TagSet: { Tag: pairs.map(([Key, Value]) => ({ Key, Value })) },
  });
}

function headerOf(pairs: readonly Pair[]): Parameters<typeof readTags>[0] {
  const text = pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');
  return { headers: { 'x-amz-tagging': text } } as unknown as Parameters<typeof readTags>[0];
}

/** What was read, or that it was refused. */
function outcomeOf(read: () => unknown): unknown {
  try {
    return read();
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
}

describe('tags', () => {
  it(
    'that AWS allows are read as they were written, from a document and from a header',
    () =>
      fuzz(1, 2000, (random) => {
        const given = tags(random, letters);
        expect(parseTagging(Buffer.from(documentOf(given)))).toEqual(given);
        expect(readTags(headerOf(given))).toEqual(given);
      }),
    fuzzTimeoutMs,
  );

  it(
    'that it does not are refused alike in both',
    () =>
      fuzz(10_000, 2000, (random) => {
        const given = tags(random, [...letters, ...others]);
        const read = outcomeOf(() => parseTagging(Buffer.from(documentOf(given))));
        expect(outcomeOf(() => readTags(headerOf(given)))).toEqual(read);
        const fits = given.flat().every((one) => !others.some((other) => one.includes(other)));
        expect(read).toEqual(fits ? given : 'InvalidTag');
      }),
    fuzzTimeoutMs,
  );

  it(
    'in a damaged document are refused, if they are not others',
    () =>
      fuzz(20_000, 3000, (random) => {
        const bytes = Buffer.from(documentOf(tags(random, letters)));
        for (let i = 1 + randomBelow(random, 4); i > 0; i--) {
          bytes[randomBelow(random, bytes.length)] = randomBelow(random, 256);
        }
        const cut = bytes.subarray(0, randomBelow(random, bytes.length + 1));
        for (const one of [bytes, cut]) {
          const read = outcomeOf(() => parseTagging(one));
          if (Array.isArray(read)) expect(read.length).toBeLessThanOrEqual(10);
          else expect(read).toMatch(/^(MalformedXML|InvalidTag)$/);
        }
      }),
    fuzzTimeoutMs,
  );
});
