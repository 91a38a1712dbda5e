// The disk's room: what is set aside counts until it is given back.
import { describe, expect, it } from 'vitest';
import { DiskRoom } from '#bursar/quota/disk-room.js';

describe('room for a body', () => {
  it('is refused when the disk has none for it beside the others', () => {
    const room = new DiskRoom(() => 100);
    const give = room.take('cms/alice', 60);
    expect(() => room.take('cms/bob', 41)).toThrow('no room');
    room.take('cms/bob', 40);
    expect([room.freeBytes, room.heldBytes]).toEqual([100, 100]);
    give();
    expect(room.heldBytes).toBe(40);
    room.take('atlas/carol', 60);
  });

  it('that was refused sets nothing aside', () => {
    const room = new DiskRoom(() => 100);
    expect(() => room.take('cms/alice', 101)).toThrow('no room');
    room.take('cms/alice', 100);
  });

  it('of no bytes is never refused: a full disk can still be read and emptied', () => {
    const room = new DiskRoom(() => 0);
    room.take('cms/alice', 0)();
    expect(() => room.take('cms/alice', 1)).toThrow('no room');
  });

  it('sees the disk shrink', () => {
    let freeBytes = 100;
    const room = new DiskRoom(() => freeBytes);
    room.take('cms/alice', 50);
    freeBytes = 60;
    expect(() => room.take('cms/bob', 20)).toThrow('no room');
    room.take('cms/bob', 10);
  });

  it('is refused to a principal who holds half of what the others leave, and to nobody else', () => {
    const GiB = 2 ** 30;
    const room = new DiskRoom(() => 100 * GiB);
    const take = (who: string) => room.take(who, 5 * GiB);
    const stalled = Array.from({ length: 10 }, () => take('evil/mallory'));
    expect(() => take('evil/mallory')).toThrow(
      expect.objectContaining({ code: 'SlowDown', status: 503 }),
    );
    for (let i = 0; i < 5; i++) take('cms/alice');
    expect(() => take('cms/alice')).toThrow(expect.objectContaining({ code: 'SlowDown' }));
    take('atlas/bob');
    // What nobody may store at once is not refused as too much at once.
    expect(() => room.take('atlas/carol', 80 * GiB)).toThrow('no room');
    for (const give of stalled) give();
    take('evil/mallory')();
  });
});
