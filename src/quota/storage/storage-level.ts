// What a bucket keeps in one class, and what it owes for the time that it kept it; pure arithmetic.
// Invariants: what is due was kept in one month under one price book, so that it has one price; and
// each byte-millisecond is due once, however often what is kept changes (docs/admin/charges.md).
import { monthAt } from '../prices/storage-accrual.ts';

/** What was kept from `sinceMs` until the next one begins, or the level ends. */
export interface Due {
  /** Name of the price book that was in force. */
  readonly book: string;
  readonly sinceMs: number;
  byteMs: bigint;
}

export interface StorageLevel {
  /**
   * The bytes that are kept now: objects with the size they are billed for, and parts of uploads.
   */
  billedBytes: bigint;
  /** The time up to which it has accrued. */
  atMs: number;
  /** In order of time, and never empty: the last one goes on. */
  due: Due[];
  /** When the last of them ends. */
  dueEndMs: number;
}

/** How the price books of one market follow each other. */
export interface BookOrder {
  /** When a book in force is followed by another; Infinity: no later one is known. */
  endMs(book: string, sinceMs: number): number;
  /** The book that is in force from then on. */
  nextOf(book: string, timeMs: number): string;
}

export function openLevel(book: string, timeMs: number, order: BookOrder): StorageLevel {
  const level = { billedBytes: 0n, atMs: timeMs, due: [], dueEndMs: timeMs };
  beginDue(level, book, order);
  return level;
}

/** Begins another due, at the time until which the level has accrued. */
export function beginDue(level: StorageLevel, book: string, order: BookOrder): void {
  const sinceMs = level.atMs;
  level.due.push({ book, sinceMs, byteMs: 0n });
  level.dueEndMs = endOfDue({ book, sinceMs }, order);
}

export function endOfDue({ book, sinceMs }: Omit<Due, 'byteMs'>, order: BookOrder): number {
  return Math.min(monthAt(sinceMs).endMs, order.endMs(book, sinceMs));
}

export function bookOf({ due }: StorageLevel): string {
  return (due[due.length - 1] as Due).book;
}

/** Adds what was kept until `timeMs`. A clock that is set back adds nothing. */
export function accrue(level: StorageLevel, timeMs: number, order: BookOrder): void {
  while (level.atMs < timeMs) {
    if (level.atMs >= level.dueEndMs) {
      beginDue(level, order.nextOf(bookOf(level), level.atMs), order);
    }
    const endMs = Math.min(level.dueEndMs, timeMs);
    const last = level.due[level.due.length - 1] as Due;
    last.byteMs += level.billedBytes * BigInt(endMs - level.atMs);
    level.atMs = endMs;
  }
}

/** Adds to what is kept, or removes some. It may become negative where rows are damaged. */
export function changeLevel(level: StorageLevel, bytes: number): void {
  const billedBytes = level.billedBytes + BigInt(bytes);
  level.billedBytes = billedBytes < 0n ? 0n : billedBytes;
}

/** A part of what was due, to be charged. */
export interface Accrued {
  readonly book: string;
  readonly fromMs: number;
  readonly toMs: number;
  readonly byteMs: bigint;
}

/** Takes what is due, and goes on under `book`. */
export function takeDue(level: StorageLevel, book: string, order: BookOrder): Accrued[] {
  const { due, atMs } = level;
  level.due = [];
  beginDue(level, book, order);
  return due
    .map(({ book: name, sinceMs: fromMs, byteMs }, i) => {
      return { book: name, fromMs, toMs: due[i + 1]?.sinceMs ?? atMs, byteMs };
    })
    .filter(({ byteMs }) => byteMs > 0n);
}
