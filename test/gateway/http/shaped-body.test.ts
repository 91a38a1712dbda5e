// Bodies that move in turns: what moves between two waits, and that nothing is lost or doubled.
import { describe, expect, it } from 'vitest';
import type { ExtentRun } from '#bursar/core/manifest.js';
import { readInTurns, ShapedIntake, sendInTurns } from '#bursar/gateway/http/shaped-body.js';
import { Rates } from '#bursar/quota/rates.js';

const KiB = 1024;
const MiB = 1024 * KiB;

/** A stream that never waits, and the turns that it was asked for. */
function watchedStream(bytesPerSecond: number) {
  const rates = new Rates();
  rates.setLimits('a', { rate: { bytes: bytesPerSecond } });
  const stream = rates.openStream(['a']);
  if (!stream) throw new Error('nothing shapes it');
  const turns: number[] = [];
  stream.pass = (bytes) => {
    turns.push(bytes);
    return null;
  };
  return { stream, turns };
}

const run = (offset: number, length: number): ExtentRun => ({
  ...{ id: Buffer.alloc(16), store: 1, algorithm: 1, epoch: 1, trailerBytes: 0 },
  ...{ extentBytes: 16 * MiB, offset, length },
});

async function readAll(bytesPerSecond: number, runs: ExtentRun[]) {
  const { stream, turns } = watchedStream(bytesPerSecond);
  const asked: { turn: number; runs: readonly ExtentRun[] }[] = [];
  async function* read(some: readonly ExtentRun[]) {
    asked.push({ turn: turns.length, runs: some });
    yield Buffer.alloc(0);
  }
  for await (const _ of readInTurns(stream, runs, read)) {
    // Only what was asked for matters.
  }
  return { turns, asked };
}

describe('a download in turns', () => {
  it('asks for a stretch only after its turn, and for each byte once', async () => {
    const runs = [run(100, 16 * MiB - 100), run(0, 5 * MiB + 7)];
    for (const rate of [1000, 2 * MiB, 100 * MiB]) {
      const { turns, asked } = await readAll(rate, runs);
      expect(asked.map(({ turn }) => turn)).toEqual(turns.map((_, i) => i + 1));
      const spans = asked.flatMap(({ runs: some }) => some.map((r) => [r.offset, r.length]));
      const total = spans.reduce((sum, [, length]) => sum + (length ?? 0), 0);
      expect(total).toBe(21 * MiB + 7 - 100);
      expect(turns.reduce((sum, bytes) => sum + bytes, 0)).toBe(total);
    }
  });

  it('takes whole chunks at a time, more of them at a higher rate', async () => {
    const runs = [run(100, 16 * MiB - 100)];
    const slow = await readAll(1000, runs);
    expect(slow.turns[0]).toBe(256 * KiB - 100);
    expect(new Set(slow.turns.slice(1))).toEqual(new Set([256 * KiB]));
    const fast = await readAll(8 * MiB, runs);
    expect(fast.turns.slice(1, -1).every((bytes) => bytes === 2 * MiB)).toBe(true);
  });

  it('gives what is in memory in small pieces, all of it', async () => {
    const { stream, turns } = watchedStream(64 * KiB);
    const bytes = Buffer.from(Array.from({ length: 10_000 }, (_, i) => i % 251));
    const pieces: Buffer[] = [];
    for await (const piece of sendInTurns(stream, bytes)) pieces.push(piece);
    expect(Buffer.concat(pieces).equals(bytes)).toBe(true);
    expect(turns).toEqual([4096, 4096, 1808]);
  });
});

describe('an upload in turns', () => {
  async function upload(pieces: Buffer[], wireBytesOf = (piece: Buffer) => piece.length) {
    const { stream, turns } = watchedStream(1000);
    const written: Buffer[] = [];
    /** How much was written at each turn. */
    const at: number[] = [];
    const pass = stream.pass;
    const count = () => written.reduce((sum, { length }) => sum + length, 0);
    stream.pass = (bytes) => {
      at.push(count());
      return pass(bytes);
    };
    const intake = new ShapedIntake(stream, (data) => {
      written.push(data);
      return null;
    });
    for (const piece of pieces) {
      intake.count(wireBytesOf(piece));
      await intake.after(intake.write(piece));
    }
    await intake.finish();
    return { turns, at, written: Buffer.concat(written) };
  }

  it('waits where a chunk is full, and at the end, and writes each byte once', async () => {
    const body = Buffer.from(Array.from({ length: 600_000 }, (_, i) => i % 251));
    const ends = [0, 65_536, 131_072, 431_072, 431_073, 531_073, 600_000];
    const pieces = ends.slice(1).map((end, i) => body.subarray(ends[i], end));
    const { turns, at, written } = await upload(pieces);
    expect(written.equals(body)).toBe(true);
    expect(at).toEqual([256 * KiB, 512 * KiB, 600_000]);
    expect(turns.reduce((sum, bytes) => sum + bytes, 0)).toBe(600_000);
  });

  it('waits for frames that are much larger than what they carry', async () => {
    const pieces = Array.from({ length: 100 }, () => Buffer.alloc(10));
    const { turns } = await upload(pieces, () => 60 * KiB);
    expect(turns.length).toBeGreaterThan(9);
    expect(Math.max(...turns)).toBeLessThanOrEqual(600 * KiB);
    expect(turns.reduce((sum, bytes) => sum + bytes, 0)).toBe(100 * 60 * KiB);
  });
});
