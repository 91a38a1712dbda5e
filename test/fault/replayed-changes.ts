// What a bucket has by the events that a subscriber was told, read from a file with one event a
// line. Each look goes on where the last one ended, so that files of a gigabyte can be looked at.
import { closeSync, openSync, readSync } from 'node:fs';

interface Told {
  eventName: string;
  s3: { object: { key: string; versionId: string; eTag?: string; sequencer: string } };
}

const pieceBytes = 8 * 1024 * 1024;

export class ReplayedChanges {
  /** ETags of versions, by key and version; of delete markers `marker`. */
  readonly versions = new Map<string, string>();
  /** Whether each event was later than all before it, or came again. */
  isOrdered = true;
  readonly #path: string;
  readonly #seen = new Set<number>();
  #newest = -1;
  #offset = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** Different events so far. */
  get count(): number {
    return this.#seen.size;
  }

  /** Reads the whole lines that were written since. */
  readOn(): this {
    const file = openSync(this.#path, 'r');
    const piece = Buffer.alloc(pieceBytes);
    for (;;) {
      const read = readSync(file, piece, 0, pieceBytes, this.#offset);
      const end = piece.subarray(0, read).lastIndexOf('\n') + 1;
      if (end === 0) break;
      this.#offset += end;
      for (const line of piece.toString('utf8', 0, end).split('\n')) this.#take(line);
    }
    closeSync(file);
    return this;
  }

  #take(line: string): void {
    // A kill can cut a line, which comes again whole, behind what is left of it.
    const begin = line.lastIndexOf('{"eventVersion"');
    if (begin < 0 || !line.endsWith('}')) return;
    const { eventName, s3 } = JSON.parse(line.slice(begin)) as Told;
    const { key, versionId, eTag, sequencer } = s3.object;
    const index = Number.parseInt(sequencer, 16);
    this.isOrdered &&= index > this.#newest || this.#seen.has(index);
    this.#seen.add(index);
    this.#newest = index;
    const id = `${key} ${versionId}`;
    if (eventName === 'ObjectRemoved:Delete') this.versions.delete(id);
    else this.versions.set(id, eTag ?? 'marker');
  }
}
