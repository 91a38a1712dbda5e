// States of a stopped gateway and of its store's bucket, of which the newest one is there, and
// parts of an older one that are put back: files, the bucket, rows.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { RebuildRig } from './rebuild-rig.ts';

/** `lately`: between the two, and nearer to now. */
export type When = 'then' | 'lately' | 'now';

export class KeptStates {
  readonly #rig: RebuildRig;
  readonly #kept = mkdtempSync(join(tmpdir(), 'bursar-states-'));

  constructor(rig: RebuildRig) {
    this.#rig = rig;
  }

  keep(when: When): void {
    for (const [i, folder] of this.#folders.entries()) copy(folder, this.#at(when, i));
  }

  bringNowBack(): void {
    for (const [i, folder] of this.#folders.entries()) copy(this.#at('now', i), folder);
  }

  /** Entries of the data folder by name, as they were then. */
  putFilesBack(isWanted: (name: string) => boolean, when: When = 'then'): void {
    const { dataDir } = this.#rig;
    const then = this.#at(when, 0);
    for (const name of readdirSync(dataDir).filter(isWanted)) {
      rmSync(join(dataDir, name), { recursive: true });
    }
    for (const name of readdirSync(then).filter(isWanted)) {
      copy(join(then, name), join(dataDir, name));
    }
  }

  putBucketBack(): void {
    copy(this.#at('then', 1), this.#folders[1] as string);
  }

  /** Rows as they were then, in the place of those of today; `where`: SQL. */
  putRowsBack(tables: readonly string[], where = 'true'): void {
    const db = new Database(join(this.#rig.dataDir, 'bursar.db'));
    db.pragma('foreign_keys = OFF');
    db.exec(`ATTACH '${join(this.#at('then', 0), 'bursar.db')}' AS older`);
    for (const table of tables) {
      db.exec(`DELETE FROM main.${table} WHERE ${where}`);
      db.exec(`INSERT INTO main.${table} SELECT * FROM older.${table} WHERE ${where}`);
    }
    db.close();
  }

  remove(): void {
    rmSync(this.#kept, { recursive: true });
  }

  get #folders(): string[] {
    return [this.#rig.dataDir, join(this.#rig.backend.dataDir, 'backend')];
  }

  #at(when: string, folder: number): string {
    return join(this.#kept, `${when}-${folder}`);
  }
}

/** With extended attributes, where the backend keeps what it knows of objects. */
function copy(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true });
  execFileSync('cp', ['-a', from, to]);
}
