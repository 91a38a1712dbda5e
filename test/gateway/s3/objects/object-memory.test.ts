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

function keep(memory: ObjectMemory, key: string, sizeBytes = KiB): Mark {
  const mark = memory.mark(1, key);
  if (!mark) throw new Error('it keeps nothing');
  memory.keep(mark, makeObject(key, sizeBytes));
  return mark;
}

it('gives what it keeps until that has changed', () => {
  const { marks, change } = makeMarks();
  const memory = new ObjectMemory(marks, 1024 * KiB);
  const mark = keep(memory, 'a');
  expect(memory.find(1, 'a')?.body.toString()).toBe('a'.repeat(KiB));
  expect(memory.find(2, 'a')).toBeUndefined();
  change(mark);
  expect(memory.find(1, 'a')).toBeUndefined();
  expect([memory.entries, memory.bytes]).toEqual([0, 0]);
  expect([memory.hits, memory.misses]).toEqual([1, 2]);
});

it('does not keep what changed while it was read', () => {
  const { marks, change } = makeMarks();
  const memory = new ObjectMemory(marks, 1024 * KiB);
  const mark = memory.mark(1, 'a') as Mark;
  change(mark);
  memory.keep(mark, makeObject('a', KiB));
  expect(memory.find(1, 'a')).toBeUndefined();
});

it('stays within its bound, and lets go of what is not used first', () => {
  const { marks } = makeMarks();
  const memory = new ObjectMemory(marks, 256 * KiB);
  keep(memory, 'often');
  for (let i = 0; i < 10_000; i++) {
    keep(memory, `key-${i}`, (i % 15) * KiB);
    expect(memory.bytes).toBeLessThanOrEqual(256 * KiB);
    expect(memory.find(1, 'often')).toBeDefined();
  }
  expect(memory.entries).toBeGreaterThan(10);
});

it('keeps nothing that is large beside its bound, and nothing at all without room', () => {
  const { marks } = makeMarks();
  const memory = new ObjectMemory(marks, 256 * KiB);
  keep(memory, 'large', 17 * KiB);
  expect(memory.entries).toBe(0);
  expect(new ObjectMemory(marks, 0).mark(1, 'a')).toBeNull();
});
