// The disk's room: promised before a body moves, and kept from nobody who holds less; the same for
// bodies that come to the deciding thread and to another.
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { SharedCount } from '#bursar/core/shared-count.js';
import { CopyMemory } from '#bursar/quota/copy-memory.js';
import { type BodyRooms, DiskRoom } from '#bursar/quota/disk-room.js';
import { type DecidingRooms, RemoteRooms, RoomDesk } from '#bursar/quota/remote-rooms.js';

const MiB = 1024 * 1024;
const refused = (code: string) => expect.objectContaining({ code, status: 503 });

/** Where bodies come in. */
type End = (deciding: DiskRoom, cameBytes: SharedArrayBuffer) => BodyRooms;

/** Another thread's; what it says is copied, and comes a moment later. */
function makeRemote(diskRoom: DiskRoom, cameBytes: SharedArrayBuffer): RemoteRooms {
  return connect({ diskRoom, copyMemory: new CopyMemory() }, cameBytes);
}

function connect(rooms: DecidingRooms, cameBytes: SharedArrayBuffer): RemoteRooms {
  const desk = new RoomDesk(rooms);
  const later = async <T>(answer: () => T) => {
    await null;
    return answer();
  };
  return new RemoteRooms({
    ask: (question) => {
      const told = structuredClone(question);
      return later(() => desk.answer(told));
    },
    close: (room) => desk.close(room),
    cameBytes,
    own: rooms.diskRoom,
    smallBytesMax: 0,
  });
}

/** A disk on which what arrives takes room. */
function makeDisk(end: End, sizeBytes: number) {
  const disk = { freeBytes: sizeBytes, nowMs: 0 };
  const cameBytes = SharedCount.sharedMemory();
  const room = new DiskRoom(
    () => disk.freeBytes,
    () => disk.nowMs,
    cameBytes,
  );
  return { disk, room, cameBytes, open: openerOf(end(room, cameBytes)) };
}

function openerOf(rooms: BodyRooms) {
  return async (principal: string, bytes: number) => {
    const tenant = principal.split('/')[0] as string;
    const body = await rooms.open({ tenant, principal, bytes });
    if (!body) throw new Error('a body of nothing');
    return { arrive: async (bytes: number) => body.arrive(bytes), close: () => body.close() };
  };
}

describe('room for a body', () => {
  describe('that comes to the deciding thread', () => keepsRoom((room) => room));
  describe('that comes to another', () => keepsRoom(makeRemote));
});

function keepsRoom(end: End): void {
  it('is refused when the disk has none for it beside the others', async () => {
    const { room, open } = makeDisk(end, 100);
    const first = await open('cms/alice', 60);
    await expect(open('atlas/bob', 61)).rejects.toThrow('no room');
    await open('atlas/bob', 40);
    expect([room.freeBytes, room.heldBytes]).toEqual([100, 100]);
    first.close();
    first.close();
    expect(room.heldBytes).toBe(40);
  });

  it('is of what the disk says now, once bodies came whole that it had not shown', async () => {
    const disk = { freeBytes: 48 * MiB, shownBytes: 48 * MiB };
    const cameBytes = SharedCount.sharedMemory();
    const now = () => 0;
    const room = new DiskRoom(
      (isFresh) => {
        if (isFresh) disk.shownBytes = disk.freeBytes;
        return disk.shownBytes;
      },
      now,
      cameBytes,
    );
    const open = openerOf(end(room, cameBytes));
    const body = await open('cms/alice', 40 * MiB);
    await body.arrive(40 * MiB);
    disk.freeBytes = 8 * MiB;
    body.close();
    await expect(open('cms/alice', 9 * MiB)).rejects.toThrow('no room');
    await open('cms/alice', 8 * MiB);
  });

  it('that was refused sets nothing aside', async () => {
    const { room, open } = makeDisk(end, 100);
    await expect(open('cms/alice', 101)).rejects.toThrow('no room');
    expect(room.heldBytes).toBe(0);
    await open('cms/alice', 100);
  });

  it('of no bytes is never refused: a full disk can still be read and emptied', async () => {
    const { room, open } = makeDisk(end, 0);
    expect(room.open({ tenant: 'cms', principal: 'cms/alice', bytes: 0 })).toBeNull();
    await expect(open('cms/alice', 1)).rejects.toThrow('no room');
  });

  it('counts what has come once, on the disk or before the disk shows it', async () => {
    const { disk, room, open } = makeDisk(end, 100);
    const body = await open('cms/alice', 60);
    await body.arrive(50);
    await expect(open('cms/alice', 41)).rejects.toThrow(refused('SlowDown'));
    disk.freeBytes = 50;
    expect(room.heldBytes).toBe(10);
    const second = await open('cms/alice', 40);
    await expect(open('cms/alice', 1)).rejects.toThrow(refused('SlowDown'));
    await body.arrive(10);
    disk.freeBytes = 40;
    body.close();
    await second.arrive(40);
    disk.freeBytes = 0;
    second.close();
    await expect(open('cms/alice', 1)).rejects.toThrow(refused('ServiceUnavailable'));
  });

  it('sees the disk shrink', async () => {
    const { disk, open } = makeDisk(end, 100);
    await open('cms/alice', 50);
    disk.freeBytes = 60;
    await expect(open('cms/alice', 20)).rejects.toThrow(refused('SlowDown'));
    await open('cms/alice', 10);
  });

  it('goes to a tenant that has less; the body that it was promised goes on', async () => {
    const { disk, room, open } = makeDisk(end, 100);
    const names = Array.from({ length: 10 }, (_, i) => `evil/mallory${i}`);
    const slow = await Promise.all(names.map((name) => open(name, 10)));
    const other = await open('atlas/bob', 50);
    expect(room.heldBytes).toBe(100);
    for (const body of slow) await body.arrive(4);
    await other.arrive(50);
    disk.freeBytes = 10;
    for (const body of slow) await body.arrive(1);
    disk.freeBytes = 0;
    await expect(slow[0]?.arrive(1)).rejects.toThrow(refused('SlowDown'));
  });

  it('is promised for long only to what comes at a pace', async () => {
    const { disk, room, open } = makeDisk(end, 100_000_000);
    const slow = await open('cms/alice', 50_000_000);
    const fast = await open('cms/alice', 50_000_000);
    disk.nowMs = 20_000;
    await slow.arrive(20);
    await fast.arrive(10_000_000);
    disk.freeBytes -= 10_000_020;
    const next = await open('cms/alice', 40_000_000);
    // An hour of a byte a second.
    expect(room.heldBytes).toBe(3600 + 40_000_000 + 40_000_000);
    next.close();
    await slow.arrive(5000);
  });
}

describe('bodies of several threads', () => {
  const makeThreads = (sizeBytes: number, count: number) => {
    const ends: BodyRooms[] = [];
    const made = makeDisk((room, cameBytes) => {
      for (let i = 0; i < count; i++) ends.push(makeRemote(room, cameBytes));
      return room;
    }, sizeBytes);
    return { ...made, opens: ends.map(openerOf) };
  };

  it('are promised no more than the disk has, all together', async () => {
    const { room, opens } = makeThreads(100, 3);
    const asked = opens.flatMap((open) =>
      Array.from({ length: 20 }, (_, i) => open(`cms/alice${i}`, 7).catch(() => null)),
    );
    const bodies = (await Promise.all(asked)).filter((body) => body !== null);
    expect(bodies).toHaveLength(14);
    expect(room.heldBytes).toBe(98);
    for (const body of bodies) body.close();
    expect(room.heldBytes).toBe(0);
  });

  it('have their promises taken back for a tenant that comes to another thread', async () => {
    const { disk, room, opens } = makeThreads(100, 2);
    const [one, other] = opens as [(typeof opens)[0], (typeof opens)[0]];
    const slow = await Promise.all(Array.from({ length: 10 }, (_, i) => one(`evil/m${i}`, 10)));
    for (const body of slow) await body.arrive(1);
    const bob = await other('atlas/bob', 50);
    expect(room.heldBytes).toBe(90);
    await bob.arrive(50);
    disk.freeBytes = 40;
    // They go on as long as there is room, and no longer.
    for (const body of slow) await body.arrive(4);
    disk.freeBytes = 0;
    const all = await Promise.allSettled(slow.map((body) => body.arrive(6)));
    expect(all.map(({ status }) => status)).toContain('rejected');
    expect(room.heldBytes).toBe(0);
  });

  it('store no more than the disk has, however fast they come and promises go', async () => {
    const [sizeBytes, bytes] = [64 * MiB, 4 * MiB];
    const { room, cameBytes } = makeDisk((room) => room, sizeBytes);
    const rooms = { diskRoom: room, copyMemory: new CopyMemory() };
    const gate = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
    // Many others are promised room for a moment, which is taken back from bodies that are coming.
    let others = 0;
    const crowd = setInterval(() => {
      const passing = Array.from({ length: 10 }, () => {
        const tenant = `other${others++}`;
        return room.promise({ tenant, principal: tenant, bytes: MiB }, new SharedCount());
      });
      for (const one of passing) if (typeof one !== 'string') one.close();
    });
    const all = [0, 1, 2].map((i) => {
      const told = { tenant: `t${i}`, bodies: 8, bytes, pieceBytes: 1024, cameBytes, gate };
      const workerData = { ...told, threads: 3 };
      const worker = new Worker(join(import.meta.dirname, 'room-hammer.mjs'), { workerData });
      const desk = new RoomDesk(rooms);
      return new Promise<number>((resolve, reject) => {
        worker.on('error', reject);
        worker.on('message', ({ question, stored }) => {
          if (question) worker.postMessage(desk.answer(question));
          else resolve(stored);
        });
      });
    });
    const stored = await Promise.all(all);
    clearInterval(crowd);
    const sum = stored.reduce((sum, bytes) => sum + bytes, 0);
    expect(sum).toBe(new SharedCount(cameBytes).value);
    expect(sum).toBeGreaterThan(sizeBytes / 2);
    expect(sum + room.heldBytes).toBeLessThanOrEqual(sizeBytes);
  });

  it('have the memory of copies together', async () => {
    const desks = { diskRoom: makeDisk((room) => room, 0).room, copyMemory: new CopyMemory() };
    const threads = [1, 2, 3].map(() => connect(desks, SharedCount.sharedMemory()));
    const holdAll = (name: string) =>
      Promise.all(
        threads.flatMap((rooms) =>
          Array.from({ length: 10 }, () => {
            const wanted = { tenant: name, principal: `${name}/alice`, bytes: 4 * MiB };
            return rooms.hold(wanted).catch((error) => {
              expect(error).toEqual(refused('SlowDown'));
              return null;
            });
          }),
        ),
      );
    const copies = (await holdAll('cms')).filter((copy) => copy !== null);
    // Half of 64 MiB, since somebody else might come.
    expect(copies).toHaveLength(8);
    for (const copy of copies) copy.close();
    expect((await holdAll('atlas')).filter((copy) => copy !== null)).toHaveLength(8);
  });
});
