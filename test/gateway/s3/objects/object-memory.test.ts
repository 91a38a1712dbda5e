// The memory of small objects: what it gives, and that it stays within its bound.
import { expect, it } from 'vitest';
import type { Mark, VersionMarks } from '#bursar/catalog/version-marks.js';
import type { Version } from '#bursar/catalog/versions.js';
import { ObjectMemory } from '#bursar/gateway/s3/objects/object-memory.js';

const KiB = 1024;

/** Marks of keys, of which a test says when they change. */
function makeMarks() {
  const changed = new Set<Mark>();
  const marks: Pick<VersionMarks, 'take' | 'holds'> = {
    take: () => ({ word: 0, value: 0 }),
    holds: (mark) => !changed.has(mark),
  };
  return { marks: marks as VersionMarks, change: (mark: Mark) => changed.add(mark) };
}

function makeObject(key: string, sizeBytes: number) {
  const manifest = Buffer.alloc(36);
  const version = { bucketId: 1, key, manifest, attributes: '{}' } as unknown as Version;
  const body = Buffer.alloc(sizeBytes, key);
  return { version, attributes: { headers: {}, metadata: {} }, sha256: undefined, body };
}

const nameOf = (key: string, at?: number) => ({ bucketId: 1, key, at });

function keep(memory: ObjectMemory, key: string, sizeBytes = KiB, at?: number): Mark {
  const name = nameOf(key, at);
  const mark = memory.mark(name);
  if (!mark) throw new Error('it keeps nothing');
  memory.keep(mark, name, makeObject(key, sizeBytes));
  return mark;
}

it('gives what it keeps until that has changed', () => {
  const { marks, change } = makeMarks();
  const memory = new ObjectMemory(marks, 1024 * KiB);
  const mark = keep(memory, 'a');
  expect(memory.find(nameOf('a'))?.body.toString()).toBe('a'.repeat(KiB));
  expect(memory.find({ ...nameOf('a'), bucketId: 2 })).toBeUndefined();
  change(mark);
  expect(memory.find(nameOf('a'))).toBeUndefined();
  expect([memory.entries, memory.bytes]).toEqual([0, 0]);
  expect([memory.hits, memory.misses]).toEqual([1, 2]);
});

it('tells a key as it is from what it was at each snapshot', () => {
  const { marks } = makeMarks();
  const memory = new ObjectMemory(marks, 1024 * KiB);
  keep(memory, 'a', 1);
  keep(memory, 'a', 2, 7);
  const sizeAt = (at?: number) => memory.find(nameOf('a', at))?.body.length;
  expect([sizeAt(), sizeAt(7), sizeAt(8)]).toEqual([1, 2, undefined]);
});

it('does not keep what changed while it was read', () => {
  const { marks, change } = makeMarks();
  const memory = new ObjectMemory(marks, 1024 * KiB);
  const mark = memory.mark(nameOf('a')) as Mark;
  change(mark);
  memory.keep(mark, nameOf('a'), makeObject('a', KiB));
  expect(memory.find(nameOf('a'))).toBeUndefined();
});

it('stays within its bound, and lets go of what is not used first', () => {
  const { marks } = makeMarks();
  const memory = new ObjectMemory(marks, 256 * KiB);
  keep(memory, 'often');
  for (let i = 0; i < 10_000; i++) {
    keep(memory, `key-${i}`, (i % 15) * KiB);
    expect(memory.bytes).toBeLessThanOrEqual(256 * KiB);
    expect(memory.find(nameOf('often'))).toBeDefined();
  }
  expect(memory.entries).toBeGreaterThan(10);
});

it('keeps nothing that is large beside its bound, and nothing at all without room', () => {
  const { marks } = makeMarks();
  const memory = new ObjectMemory(marks, 256 * KiB);
  keep(memory, 'large', 17 * KiB);
  expect(memory.entries).toBe(0);
  expect(new ObjectMemory(marks, 0).mark(nameOf('a'))).toBeNull();
});
