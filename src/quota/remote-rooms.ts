// The disk's room, and the memory of copies, for bodies that come to other threads than the one
// that decides. Each asks that one by a message before the body moves, and tells it when the body
// has come; between the two only where what comes is not promised any more. Invariant: what a
// thread asks and tells of a body reaches the deciding one in order. Bodies that go into the
// database are small, and many: each thread looks by itself whether the disk has room for those.
import { Refusal } from '../core/errors.ts';
import type { ClaimOutcome } from '../core/fair-share.ts';
import { SharedCount } from '../core/shared-count.ts';
import type { CopyMemories, CopyMemory, HeldMemory } from './copy-memory.ts';
import {
  BodyRoom,
  type BodyRooms,
  type DiskPromise,
  type DiskRoom,
  refusalOf,
  type WantedRoom,
} from './disk-room.ts';

/** What is asked of the deciding thread; `room`: a number that the asking one has chosen. */
export type RoomQuestion =
  /** Is there room on the disk? `spare`: a `SharedCount` of what is promised and has not come. */
  | { room: number; onDisk: WantedRoom; spare: SharedArrayBuffer }
  /** So many bytes have come that are not promised: may they stay? */
  | { room: number; lackingBytes: number }
  /** Is there memory for a copy? */
  | { room: number; inMemory: WantedRoom };

export interface RemoteRoomsOptions {
  ask: (question: RoomQuestion) => Promise<ClaimOutcome>;
  /** Nothing more comes there. */
  close: (room: number) => void;
  /** A `SharedCount` of what comes to all threads. */
  cameBytes: SharedArrayBuffer;
  /** For bodies of at most `smallBytesMax`. */
  own: BodyRooms;
  smallBytesMax: number;
}

/** The end of a thread that does not decide. */
export class RemoteRooms implements BodyRooms, CopyMemories {
  readonly #options: RemoteRoomsOptions;
  readonly #cameBytes: SharedCount;
  #opened = 0;

  constructor(options: RemoteRoomsOptions) {
    this.#options = options;
    this.#cameBytes = new SharedCount(options.cameBytes);
  }

  open(wanted: WantedRoom): Promise<BodyRoom | null> | BodyRoom | null {
    const { own, smallBytesMax } = this.#options;
    return wanted.bytes <= smallBytesMax ? own.open(wanted) : this.#open(wanted);
  }

  async hold(inMemory: WantedRoom): Promise<HeldMemory> {
    const { ask, close } = this.#options;
    const room = this.#number();
    const outcome = await ask({ room, inMemory });
    if (outcome !== 'taken') throw new Refusal('SlowDown');
    return { close: () => close(room) };
  }

  async #open(onDisk: WantedRoom): Promise<BodyRoom> {
    const { ask, close } = this.#options;
    const room = this.#number();
    const spare = SharedCount.sharedMemory();
    const outcome = await ask({ room, onDisk, spare });
    if (outcome !== 'taken') throw refusalOf(outcome);
    return new BodyRoom(new SharedCount(spare), this.#cameBytes, {
      cover: (lackingBytes) => ask({ room, lackingBytes }),
      close: () => close(room),
    });
  }

  #number(): number {
    this.#opened += 1;
    return this.#opened;
  }
}

export interface DecidingRooms {
  diskRoom: DiskRoom;
  copyMemory: CopyMemory;
}

/** What one such thread has, at the deciding one. */
export class RoomDesk {
  readonly #rooms: DecidingRooms;
  readonly #promises = new Map<number, DiskPromise>();
  readonly #copies = new Map<number, HeldMemory>();

  constructor(rooms: DecidingRooms) {
    this.#rooms = rooms;
  }

  answer(question: RoomQuestion): ClaimOutcome {
    const { room } = question;
    if ('lackingBytes' in question) {
      return this.#promises.get(room)?.cover(question.lackingBytes) ?? 'noRoom';
    }
    const { diskRoom, copyMemory } = this.#rooms;
    if ('inMemory' in question) {
      const claim = copyMemory.claim(question.inMemory);
      if (!claim) return 'tooMuch';
      this.#copies.set(room, claim);
      return 'taken';
    }
    const promised = diskRoom.promise(question.onDisk, new SharedCount(question.spare));
    if (typeof promised === 'string') return promised;
    this.#promises.set(room, promised);
    return 'taken';
  }

  /** Calling it twice is harmless. */
  close(room: number): void {
    for (const all of [this.#promises, this.#copies]) {
      all.get(room)?.close();
      all.delete(room);
    }
  }
}
