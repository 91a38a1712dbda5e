// A file that may be deleted, or replaced by another, while it is open.
import { statSync } from 'node:fs';

export class WatchedFile {
  readonly #path: string;
  readonly #inode: number | undefined;

  /** The file as it is now. */
  constructor(path: string) {
    this.#path = path;
    this.#inode = inodeOf(path);
  }

  /** Is another one there, or none? */
  isOther(): boolean {
    const inode = inodeOf(this.#path);
    return inode === undefined || inode !== this.#inode;
  }
}

function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino;
}
