// Pairs of successive writes and reads, each of another object, as the studies had them: whether
// the second of two is like the first says whether slowness is the server's or the way's.
// Invariant: what is read back is what was written, byte for byte, and what was written is removed.
import { randomInt } from 'node:crypto';
import type { Series } from '../sample.ts';
import type { ProbeLine } from './probe-line.ts';
import type { ProbeObject } from './probe-objects.ts';
import type { SeriesContext } from './series-context.ts';
import { attempt, type Measured, measure, type Tries } from './transfer.ts';

/** Pair ids are whole numbers that JSON keeps. */
const pairIdMax = 2 ** 48 - 1;

/** A pair of writes, and a pair of reads of what they wrote. Rejects as `measure` does. */
export async function measurePairs(
  context: SeriesContext,
  line: ProbeLine,
  { series, sizeBytes }: { series: Series; sizeBytes: number },
): Promise<void> {
  const written: { object: ProbeObject; tries: Tries }[] = [];
  try {
    const ids = { write: randomInt(pairIdMax), read: randomInt(pairIdMax) };
    for (const of of [1, 2] as const) {
      const object = context.objects.next();
      const measured = { series, sizeBytes, pair: { id: ids.write, of } };
      written.push({ object, tries: await write(context, line, object, measured) });
    }
    const isThere = written.every(({ tries }) => tries.error === null);
    // What was not written cannot be read, and says nothing of reading.
    if (!isThere) return;
    for (const [i, { object }] of written.entries()) {
      const of = i === 0 ? 1 : 2;
      await read(context, line, object, { series, sizeBytes, pair: { id: ids.read, of } });
    }
  } finally {
    for (const { object, tries } of written) await context.objects.remove(object.key, tries.answer);
  }
}

export function write(
  context: SeriesContext,
  line: ProbeLine,
  { key, number }: ProbeObject,
  measured: Omit<Measured, 'kind'>,
): Promise<Tries> {
  const { sizeBytes } = measured;
  return measure(context, line, { kind: 'write', ...measured }, () =>
    attempt(context, line, {
      work: { puts: 1, bytesIn: sizeBytes },
      exchange: () => ({
        method: 'PUT',
        key,
        sizeBytes,
        body: context.content.body(number, 0, sizeBytes),
        answerBytesMax: 0,
      }),
    }),
  );
}

export function read(
  context: SeriesContext,
  line: ProbeLine,
  { key, number }: ProbeObject,
  measured: Omit<Measured, 'kind'>,
): Promise<Tries> {
  const { sizeBytes } = measured;
  return measure(context, line, { kind: 'read', ...measured }, () =>
    attempt(context, line, {
      work: { gets: 1, bytesOut: sizeBytes },
      exchange: () => {
        let offset = 0;
        const onPiece = (piece: Buffer): boolean => {
          const isSame = context.content.matches(number, offset, piece);
          offset += piece.length;
          return isSame;
        };
        return { method: 'GET', key, onPiece, answerBytesMax: sizeBytes };
      },
      check: ({ bodyBytes }) => {
        if (bodyBytes !== sizeBytes) throw new Error('too few bytes came');
      },
    }),
  );
}
