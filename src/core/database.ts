// The one place that knows better-sqlite3. Rooms write their SQL against the asynchronous `Tx`, so
// that the same code can run on a database server; on SQLite each call completes before it returns.
import { closeSync, fdatasyncSync, fsyncSync, openSync, rmSync } from 'node:fs';
import Sqlite from 'better-sqlite3';
import { monotonicMs } from './clock.ts';
import { atEnd } from './closing.ts';

// Before Node-API 10 the library's module takes the process down instead of saying so.
if (Number(process.versions.napi) < 10) {
  throw new Error(`Bursar needs Node 22.14 or newer: this is ${process.version}`);
}

export type SqlValue = string | number | bigint | null | Uint8Array;

/** Reads. `sql` must be a constant text: statements are prepared once per text and kept. */
export interface Reader {
  get<R>(sql: string, ...values: SqlValue[]): Promise<R | undefined>;
  all<R>(sql: string, ...values: SqlValue[]): Promise<R[]>;
  /**
   * Of a connection that verifies what it reads: the same, without the rows that are not authentic.
   */
  sparing?: Reader;
  /**
   * Of a connection that writes: who tells which rows are authentic (core/seals/verified-rows.ts).
   */
  rows?: VerifiesRows;
}

export interface VerifiesRows {
  /** Throws UnsealedRow unless the row of a sealed table is what was sealed. */
  verify(table: string, row: Readonly<Record<string, unknown>>): Promise<void>;
  /**
   * Throws UnsealedRow unless all rows of a sealed table, called `t`, of which `where` holds are
   * that.
   */
  verifyWhere(table: string, where: string, ...values: SqlValue[]): Promise<void>;
  /** Does this, which throws UnsealedRow, unless it was done since another connection wrote. */
  verifyOnce(what: string, verify: () => Promise<void>): Promise<void>;
}

/** Reads and writes inside one transaction. */
export interface Tx extends Reader {
  run(sql: string, ...values: SqlValue[]): Promise<{ changes: number; insertedId: number }>;
}

export interface OpenDatabase extends Disposable {
  tx: Tx;
  /** Runs several statements of schema or control SQL. */
  exec(sql: string): void;
  /**
   * Ends a transaction without a trace, unless SQLite has done so by itself: a full disk makes it.
   */
  rollback(): void;
  /** A function that statements of this connection may call. What it throws is what they throw. */
  define(name: string, compute: (...values: SqlValue[]) => SqlValue): void;
  /** Statements are prepared again, after what their names stand for has changed. */
  prepareAgain(): void;
  /** Changes when another connection has written to the file, and never by what this one writes. */
  dataVersion(): number;
  /** The schema version of the file; 0 for a new one. */
  userVersion(): number;
  /**
   * Takes pages as they were before out of SQLite's log, where they stay until it begins anew.
   * False: somebody read all the time, `waitMsMax`, and they are still there. Throws SQLite's
   * error.
   */
  emptyLog(waitMsMax: number): boolean;
  close(): void;
}

export interface DatabaseOptions {
  readonly: boolean;
  /** Page cache, KiB. */
  cacheKib: number;
  /**
   * All that is in it can be made again from elsewhere: it is consistent after a power cut, but may
   * lack what was committed last. What is deleted is overwritten.
   */
  isDerived?: boolean;
  /** Nobody reads the file after this connection: nothing is done for it to survive a crash. */
  isScratch?: boolean;
}

/** How long one waits for another who writes. */
const busyMsMax = 10_000;
/** Beyond this much of the file readers copy pages again. */
const mappedBytesMax = 256 * 1024 * 1024;
/** Pages that a copy takes between two reports of its progress: 64 MiB. */
const copiedPagesMax = 4096;

/**
 * Opens a SQLite file in WAL mode with synchronous=FULL: a committed transaction survives a power
 * cut, unless the file is derived or scratch. Throws when it cannot be opened or is no database.
 */
export function openDatabase(path: string, options: DatabaseOptions): OpenDatabase {
  const db = new Sqlite(path, { readonly: options.readonly, timeout: busyMsMax });
  if (!options.readonly && options.isDerived) {
    db.pragma('journal_mode = WAL');
    db.pragma('synchronous = NORMAL');
    db.pragma('secure_delete = ON');
    // Pages that change again and again are brought to the file once.
    db.pragma('wal_autocheckpoint = 8192');
  } else if (!options.readonly && options.isScratch) {
    db.pragma('journal_mode = MEMORY');
    db.pragma('synchronous = OFF');
  } else if (!options.readonly) {
    // A small object and its tag fit one page, so that reading one does not follow a chain of them.
    // Takes effect in a new file only.
    db.pragma('page_size = 16384');
    db.pragma('journal_mode = WAL');
    db.pragma('synchronous = FULL');
    db.pragma('foreign_keys = ON');
    // Where a page is written anyway, nothing stays in it of what it does not hold any more.
    db.pragma('secure_delete = FAST');
    // A checkpoint stops the writer; a longer log makes it rarer and folds repeated page writes.
    db.pragma('wal_autocheckpoint = 8192');
  }
  // A reader's own cache is void after each commit of the writer; the mapped file is not.
  if (options.readonly) db.pragma(`mmap_size = ${mappedBytesMax}`);
  db.pragma(`cache_size = -${options.cacheKib}`);
  db.pragma('temp_store = MEMORY');

  const statements = new Map<string, Sqlite.Statement>();
  const prepared = (sql: string): Sqlite.Statement => {
    let statement = statements.get(sql);
    if (!statement) {
      // SQLite, as better-sqlite3 builds it, prepares a statement again whenever a value is bound
      // on which its plan may depend: ten times what most of them take. No plan depends on a value
      // with a plus sign, which changes nothing of it.
      statement = db.prepare(sql.replaceAll('?', '+?'));
      statements.set(sql, statement);
    }
    return statement;
  };

  return {
    tx: {
      get: async <R>(sql: string, ...values: SqlValue[]) =>
        prepared(sql).get(...values) as R | undefined,
      all: async <R>(sql: string, ...values: SqlValue[]) => prepared(sql).all(...values) as R[],
      run: async (sql, ...values) => {
        const { changes, lastInsertRowid } = prepared(sql).run(...values);
        return { changes, insertedId: Number(lastInsertRowid) };
      },
    },
    exec: (sql) => void db.exec(sql),
    rollback: () => {
      if (db.inTransaction) db.exec('ROLLBACK');
    },
    define: (name, compute) => void db.function(name, { varargs: true }, compute),
    prepareAgain: () => statements.clear(),
    dataVersion: () => db.pragma('data_version', { simple: true }) as number,
    userVersion: () => db.pragma('user_version', { simple: true }) as number,
    emptyLog: (waitMsMax) => {
      db.pragma(`busy_timeout = ${waitMsMax}`);
      try {
        const [outcome] = db.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
        return outcome?.busy === 0;
      } finally {
        db.pragma(`busy_timeout = ${busyMsMax}`);
      }
    },
    close: () => void db.close(),
    [Symbol.dispose]: () => void db.close(),
  };
}

/**
 * Takes an exclusive lock that the operating system gives back when the process ends, however it
 * ends: an open exclusive transaction on a file of its own. Returns what releases it, or undefined
 * when another process holds it. Throws when the file cannot be opened. Nothing is ever written to
 * the file, so that no journal is left behind by a killed process.
 */
export function acquireLock(path: string): (() => void) | undefined {
  const db = new Sqlite(path, { timeout: 0 });
  try {
    db.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    db.close();
    if ((error as { code?: string }).code === 'SQLITE_BUSY') return undefined;
    throw error;
  }
  return () => void db.close();
}

/**
 * Copies a database, with what is in its write-ahead log, to a new file, and checks every page of
 * the copy. Gives what SQLite finds wrong with it; empty: nothing. The copy is one file, without a
 * log of its own, and has reached the disk. Throws the system's error, or SQLite's, when it cannot
 * be made.
 */
export async function copyDatabase(
  from: string,
  to: string,
  onProgress: (pagesDone: number, pagesTotal: number) => void,
): Promise<string[]> {
  const source = new Sqlite(from, { readonly: true, timeout: busyMsMax });
  using _source = atEnd(() => source.close());
  await source.backup(to, {
    progress: ({ totalPages, remainingPages }) => {
      onProgress(totalPages - remainingPages, totalPages);
      return copiedPagesMax;
    },
  });
  const copy = new Sqlite(to);
  try {
    copy.pragma('journal_mode = DELETE');
    return findDamage(copy);
  } finally {
    copy.close();
    const file = openSync(to, 'r');
    fsyncSync(file);
    closeSync(file);
  }
}

/**
 * Copies a database that others write meanwhile, as it is when the copy is begun, at no more than
 * so many bytes a second, to a new file that reaches the disk on the way. It takes the thread for
 * up to 50 ms at a time. Writes of others go on in SQLite's log until then. Throws SQLite's error.
 */
export async function copyWhileServed(
  from: string,
  to: string,
  options: { bytesPerSecond: number; onProgress: (bytesDone: number, bytesTotal: number) => void },
): Promise<void> {
  const source = new Sqlite(from, { readonly: true, timeout: busyMsMax });
  let file: number | undefined;
  using _source = atEnd(() => source.close());
  try {
    const pageBytes = source.pragma('page_size', { simple: true }) as number;
    // Outside a transaction, a copy would begin anew with each commit of the writer.
    source.exec('BEGIN');
    source.prepare('SELECT count(*) FROM sqlite_schema').get();
    const stepBytes = Math.min(pacedBytes, options.bytesPerSecond / 10);
    const pages = Math.max(1, Math.floor(stepBytes / pageBytes));
    const pace = new BlockingPace(options.bytesPerSecond);
    let [done, synced] = [0, 0];
    await source.backup(to, {
      progress: ({ totalPages, remainingPages }) => {
        done = (totalPages - remainingPages) * pageBytes;
        if (done - synced >= syncedBytes) {
          file ??= openSync(to, 'r+');
          fdatasyncSync(file);
          synced = done;
        }
        options.onProgress(done, totalPages * pageBytes);
        // A copy that is told zero pages asks again later.
        return pace.waitFor(done) ? pages : 0;
      },
    });
    source.exec('COMMIT');
    file ??= openSync(to, 'r+');
    fsyncSync(file);
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/**
 * Brings what is in SQLite's log into the database, so that the writer need not stop for that.
 * Nobody waits for it. Throws SQLite's error.
 */
export function checkpointPassively(path: string): void {
  const writer = new Sqlite(path, { timeout: busyMsMax });
  using _writer = atEnd(() => writer.close());
  writer.pragma('wal_checkpoint(PASSIVE)');
}

/** Between two pauses of a copy at most, and between two times that it is brought to the disk. */
const pacedBytes = 1024 * 1024;
const syncedBytes = 8 * 1024 * 1024;

/** Keeps work on one thread at a rate, by stopping the thread. */
export class BlockingPace {
  readonly #bytesPerSecond: number;
  readonly #begunMs = monotonicMs();
  readonly #cell = new Int32Array(new SharedArrayBuffer(4));

  constructor(bytesPerSecond: number) {
    this.#bytesPerSecond = bytesPerSecond;
  }

  /**
   * Returns when so many bytes may be done since the beginning, or 50 ms later: whether they may.
   */
  waitFor(bytes: number): boolean {
    const dueMs = (bytes / this.#bytesPerSecond) * 1000;
    const waitMs = dueMs - (monotonicMs() - this.#begunMs);
    if (waitMs > 0) Atomics.wait(this.#cell, 0, 0, Math.min(50, waitMs));
    return waitMs <= 50;
  }
}

/** Reads all of the file; what is wrong with its pages, indexes and references. */
export function checkDatabase(path: string): string[] {
  const db = new Sqlite(path, { readonly: true, timeout: busyMsMax });
  using _db = atEnd(() => db.close());
  return findDamage(db);
}

function findDamage(db: Sqlite.Database): string[] {
  const pages = db.pragma('integrity_check') as { integrity_check: string }[];
  const references = db.pragma('foreign_key_check') as { table: string; parent: string }[];
  return [
    ...pages.map((row) => row.integrity_check).filter((text) => text !== 'ok'),
    ...references.map(({ table, parent }) => `a row of ${table} names none of ${parent}`),
  ];
}

/** Removes a database that nobody has open, with its log, where they are there. */
export function removeDatabase(path: string): void {
  for (const end of ['', '-wal', '-shm']) rmSync(`${path}${end}`, { force: true });
}
