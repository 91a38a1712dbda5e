// A grant as it is kept in memory: four numbers of shared parts, and its name and prefix.
// Invariant: what is read back is the rule that `compileGrant` makes of the grant.
//
//   u32 subjects | u32 actions | u32 place | u32 conditions | u8 n | u16 m | n name | m prefix
import type { ActionSet } from './actions.ts';
import type { Condition } from './conditions.ts';
import { type Grant, grantParts } from './grant.ts';
import type { Effect, PlaceResource, Rule, Subjects } from './rule.ts';

const partOffsets = [0, 4, 8, 12] as const;
const nameOffset = 19;

/** The bytes of a grant. They hold their parts until `releaseParts`. */
export function writeGrant(tenant: string, grant: Grant, parts: SharedParts): Buffer {
  const { name } = grant;
  const prefix = grant.key ?? grant.prefix ?? '';
  const prefixBytes = Buffer.byteLength(prefix);
  const bytes = Buffer.allocUnsafe(nameOffset + name.length + prefixBytes);
  const { subjects, actions, place, conditions } = grantParts(tenant, grant);
  for (const [i, part] of [subjects, actions, place, conditions].entries()) {
    bytes.writeUInt32LE(parts.hold(part), 4 * i);
  }
  bytes.writeUInt8(name.length, 16);
  bytes.writeUInt16LE(prefixBytes, 17);
  bytes.write(name, nameOffset, 'latin1');
  bytes.write(prefix, nameOffset + name.length);
  return bytes;
}

/** For a second copy of the bytes. */
export function holdParts(bytes: Buffer, parts: SharedParts): void {
  for (const offset of partOffsets) parts.holdAgain(bytes.readUInt32LE(offset));
}

export function releaseParts(bytes: Buffer, at: number, parts: SharedParts): void {
  for (const offset of partOffsets) parts.release(bytes.readUInt32LE(at + offset));
}

/** Reads only what is asked for: most grants that are looked at are not the one. */
export class StoredGrant implements Rule {
  readonly source = 'grant';
  readonly #bytes: Buffer;
  readonly #at: number;
  readonly #parts: SharedParts;

  constructor(bytes: Buffer, at: number, parts: SharedParts) {
    this.#bytes = bytes;
    this.#at = at;
    this.#parts = parts;
  }

  get name(): string {
    return this.#bytes.toString('latin1', this.#nameAt, this.#prefixAt);
  }

  get subjects(): Subjects {
    return this.#part(0) as Subjects;
  }

  get effect(): Effect {
    return (this.#part(4) as { effect: Effect }).effect;
  }

  get actions(): ActionSet {
    return (this.#part(4) as { actions: ActionSet }).actions;
  }

  get resource(): PlaceResource {
    const { form, tenant, bucket } = this.#part(8) as PlaceResource;
    const end = this.#prefixAt + this.#bytes.readUInt16LE(this.#at + 17);
    return { form, tenant, bucket, prefix: this.#bytes.toString('utf8', this.#prefixAt, end) };
  }

  get conditions(): readonly Condition[] {
    return this.#part(12) as readonly Condition[];
  }

  get #nameAt(): number {
    return this.#at + nameOffset;
  }

  get #prefixAt(): number {
    return this.#nameAt + this.#bytes.readUInt8(this.#at + 16);
  }

  #part(offset: number): unknown {
    return this.#parts.get(this.#bytes.readUInt32LE(this.#at + offset));
  }
}

// Records of bytes by the hash of what they are for, any number of one hash. A million of them are
// a few hundred buffers: nothing that the garbage collector would have to walk through. Invariant:
// records of other hashes are never given; a record's bytes never change, and a table that grows
// copies only one of its small parts.

const shardCount = 256;
const headBytes = 6;

/** Where a record is. */
export type UseRecord = (bytes: Buffer, at: number) => void;

export class RecordTable {
  readonly #shards = Array.from({ length: shardCount }, () => new Shard());

  /** `record` has less than 64 KiB. */
  add(hash: number, record: Uint8Array): void {
    this.#shardOf(hash).add(hash, record);
  }

  forEach(hash: number, use: UseRecord): void {
    this.#shardOf(hash).forEach(hash, use);
  }

  /** What the table takes of memory, off the heap of JavaScript. */
  get allocatedBytes(): number {
    return this.#shards.reduce((sum, shard) => sum + shard.allocatedBytes, 0);
  }

  count(hash: number): number {
    let count = 0;
    this.forEach(hash, () => {
      count += 1;
    });
    return count;
  }

  /** Removes the first of these that is meant. Returns whether there was one. */
  remove(hash: number, isMeant: (bytes: Buffer, at: number) => boolean): boolean {
    return this.#shardOf(hash).remove(hash, isMeant);
  }

  /** Removes and returns all of a hash. */
  takeAll(hash: number): Buffer[] {
    const records: Buffer[] = [];
    this.forEach(hash, (bytes, at) => {
      records.push(Buffer.from(bytes.subarray(at, at + bytes.readUInt16LE(at - 2))));
    });
    while (this.remove(hash, () => true));
    return records;
  }

  #shardOf(hash: number): Shard {
    return this.#shards[hash & (shardCount - 1)] as Shard;
  }
}

const removed = -1;

/** A part of the table: open addressing with linear probing, over records that lie end to end. */
class Shard {
  /** 0: never used. Else one more than where the record begins, or `removed`. */
  #slots = new Int32Array(8);
  #bytes = Buffer.allocUnsafeSlow(0);
  #usedSlots = 0;
  #usedBytes = 0;

  get allocatedBytes(): number {
    return this.#slots.byteLength + this.#bytes.length;
  }

  add(hash: number, record: Uint8Array): void {
    const sizeBytes = headBytes + record.length;
    const isFull = 4 * (this.#usedSlots + 1) > 3 * this.#slots.length;
    if (isFull || this.#usedBytes + sizeBytes > this.#bytes.length) this.#rebuild(sizeBytes);
    const at = this.#usedBytes;
    this.#bytes.writeInt32LE(hash, at);
    this.#bytes.writeUInt16LE(record.length, at + 4);
    this.#bytes.set(record, at + headBytes);
    this.#place(hash, at, sizeBytes);
  }

  forEach(hash: number, use: UseRecord): void {
    for (let slot = this.#home(hash); ; slot = this.#after(slot)) {
      const start = this.#slots[slot] as number;
      if (start === 0) return;
      if (start === removed || this.#bytes.readInt32LE(start - 1) !== hash) continue;
      use(this.#bytes, start - 1 + headBytes);
    }
  }

  remove(hash: number, isMeant: (bytes: Buffer, at: number) => boolean): boolean {
    for (let slot = this.#home(hash); ; slot = this.#after(slot)) {
      const start = this.#slots[slot] as number;
      if (start === 0) return false;
      if (start === removed || this.#bytes.readInt32LE(start - 1) !== hash) continue;
      if (!isMeant(this.#bytes, start - 1 + headBytes)) continue;
      this.#slots[slot] = removed;
      return true;
    }
  }

  /** Writes where a record at the end of the bytes is into the first slot that is free for it. */
  #place(hash: number, at: number, sizeBytes: number): void {
    let slot = this.#home(hash);
    while (this.#slots[slot] !== 0) slot = this.#after(slot);
    this.#slots[slot] = at + 1;
    this.#usedSlots += 1;
    this.#usedBytes += sizeBytes;
  }

  /** Copies what is not removed, into as much room as that and `moreBytes` need. */
  #rebuild(moreBytes: number): void {
    const bytes = this.#bytes;
    const starts = this.#slots.filter((start) => start > 0);
    const liveBytes = starts.reduce((sum, start) => sum + sizeAt(bytes, start - 1), 0);
    const slotsMin = 2 * (starts.length + 1);
    this.#slots = new Int32Array(2 ** Math.max(3, Math.ceil(Math.log2(slotsMin))));
    this.#bytes = Buffer.allocUnsafeSlow(Math.ceil(1.25 * (liveBytes + moreBytes)));
    this.#usedSlots = 0;
    this.#usedBytes = 0;
    for (const start of starts) {
      const at = start - 1;
      const sizeBytes = sizeAt(bytes, at);
      bytes.copy(this.#bytes, this.#usedBytes, at, at + sizeBytes);
      this.#place(bytes.readInt32LE(at), this.#usedBytes, sizeBytes);
    }
  }

  /** The lower byte of the hash chose this shard; the others choose the slot. */
  #home(hash: number): number {
    return (hash >>> 8) & (this.#slots.length - 1);
  }

  #after(slot: number): number {
    return (slot + 1) & (this.#slots.length - 1);
  }
}

function sizeAt(bytes: Buffer, at: number): number {
  return headBytes + bytes.readUInt16LE(at + 4);
}

// Parts that many grants have in common, each kept once and known by a small number. Invariant: a
// part is kept exactly as long as somebody holds its number; then the number is given anew.

/** A part by its name: two of one name are equal. */
export interface Part<T> {
  name: string;
  make: () => T;
}

interface Kept {
  name: string;
  id: number;
  value: unknown;
  holders: number;
}

export class SharedParts {
  readonly #byName = new Map<string, Kept>();
  readonly #byId: (Kept | undefined)[] = [];
  readonly #freeIds: number[] = [];

  /** How many are kept. */
  get count(): number {
    return this.#byName.size;
  }

  /** Holds a part, which is made if it is not kept yet. Returns its number. */
  hold({ name, make }: Part<unknown>): number {
    let kept = this.#byName.get(name);
    if (!kept) {
      const value = make();
      kept = { name, id: this.#freeIds.pop() ?? this.#byId.length, value, holders: 0 };
      this.#byName.set(name, kept);
      this.#byId[kept.id] = kept;
    }
    kept.holders += 1;
    return kept.id;
  }

  /** Holds once more what is held. */
  holdAgain(id: number): void {
    this.#kept(id).holders += 1;
  }

  /** Gives up what was held. */
  release(id: number): void {
    const kept = this.#kept(id);
    kept.holders -= 1;
    if (kept.holders > 0) return;
    this.#byName.delete(kept.name);
    this.#byId[id] = undefined;
    this.#freeIds.push(id);
  }

  get(id: number): unknown {
    return this.#kept(id).value;
  }

  #kept(id: number): Kept {
    const kept = this.#byId[id];
    if (!kept) throw new Error('a part that nobody holds was asked for');
    return kept;
  }
}
