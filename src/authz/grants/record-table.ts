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
