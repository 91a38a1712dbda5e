// The disk's room: promised before a body moves, and kept from nobody who holds less.
import { describe, expect, it } from 'vitest';
import { DiskRoom } from '#bursar/quota/disk-room.js';

const refused = (code: string) => expect.objectContaining({ code, status: 503 });

/** A disk on which what arrives takes room. */
function makeDisk(sizeBytes: number) {
  const disk = { freeBytes: sizeBytes, nowMs: 0 };
  const room = new DiskRoom(
    () => disk.freeBytes,
    () => disk.nowMs,
  );
  const open = (who: string, bytes: number) => {
    const body = room.open(who.split('/')[0] as string, who, bytes);
    if (!body) throw new Error('a body of nothing');
    return body;
  };
  return { disk, room, open };
}

describe('room for a body', () => {
  it('is refused when the disk has none for it beside the others', () => {
    const { room, open } = makeDisk(100);
    const first = open('cms/alice', 60);
    expect(() => open('atlas/bob', 61)).toThrow('no room');
    open('atlas/bob', 40);
    expect([room.freeBytes, room.heldBytes]).toEqual([100, 100]);
    first.close();
    first.close();
    expect(room.heldBytes).toBe(40);
  });

  it('is of what the disk says now, once bodies have come whole that it had not shown', () => {
    const MiB = 1024 * 1024;
    const disk = { freeBytes: 48 * MiB, shownBytes: 48 * MiB };
    const room = new DiskRoom((isFresh) => {
      if (isFresh) disk.shownBytes = disk.freeBytes;
      return disk.shownBytes;
    });
    const body = room.open('cms', 'cms/alice', 40 * MiB);
    body?.arrive(40 * MiB);
    disk.freeBytes = 8 * MiB;
    body?.close();
    expect(() => room.open('cms', 'cms/alice', 9 * MiB)).toThrow('no room');
    expect(room.open('cms', 'cms/alice', 8 * MiB)).not.toBeNull();
  });

  it('that was refused sets nothing aside', () => {
    const { room, open } = makeDisk(100);
    expect(() => open('cms/alice', 101)).toThrow('no room');
    expect(room.heldBytes).toBe(0);
    open('cms/alice', 100);
  });

  it('of no bytes is never refused: a full disk can still be read and emptied', () => {
    const { room, open } = makeDisk(0);
    expect(room.open('cms', 'cms/alice', 0)).toBeNull();
    expect(() => open('cms/alice', 1)).toThrow('no room');
  });

  it('counts what has come once, on the disk or before the disk shows it', () => {
    const { disk, room, open } = makeDisk(100);
    const body = open('cms/alice', 60);
    body.arrive(50);
    expect(() => open('cms/alice', 41)).toThrow(refused('SlowDown'));
    disk.freeBytes = 50;
    expect(room.heldBytes).toBe(10);
    const second = open('cms/alice', 40);
    expect(() => open('cms/alice', 1)).toThrow(refused('SlowDown'));
    body.arrive(10);
    disk.freeBytes = 40;
    body.close();
    second.arrive(40);
    disk.freeBytes = 0;
    second.close();
    expect(() => open('cms/alice', 1)).toThrow(refused('ServiceUnavailable'));
  });

  it('sees the disk shrink', () => {
    const { disk, open } = makeDisk(100);
    open('cms/alice', 50);
    disk.freeBytes = 60;
    expect(() => open('cms/alice', 20)).toThrow(refused('SlowDown'));
    open('cms/alice', 10);
  });

  it('goes to a tenant that has less; the body that it was promised goes on', () => {
    const { disk, room, open } = makeDisk(100);
    const slow = Array.from({ length: 10 }, (_, i) => open(`evil/mallory${i}`, 10));
    const other = open('atlas/bob', 50);
    expect(room.heldBytes).toBe(100);
    for (const body of slow) body.arrive(4);
    other.arrive(50);
    disk.freeBytes = 10;
    for (const body of slow) body.arrive(1);
    disk.freeBytes = 0;
    expect(() => slow[0]?.arrive(1)).toThrow(refused('SlowDown'));
  });

  it('is promised for long only to what comes at a pace', () => {
    const { disk, room, open } = makeDisk(100_000_000);
    const slow = open('cms/alice', 50_000_000);
    const fast = open('cms/alice', 50_000_000);
    disk.nowMs = 20_000;
    slow.arrive(20);
    fast.arrive(10_000_000);
    disk.freeBytes -= 10_000_020;
    const next = open('cms/alice', 40_000_000);
    // An hour of a byte a second.
    expect(room.heldBytes).toBe(3600 + 40_000_000 + 40_000_000);
    next.close();
    slow.arrive(5000);
  });
});
