// What keeps a comparison going, whatever is in the database. Rows are not believed to be what a
// gateway writes: tables may be gone, pages torn, and values of any type and size. Invariant:
// whatever cannot be read or compared is told once, and all else is compared all the same.
import type { Reader } from '../../core/database.ts';
import type { Difference } from './record-fields.ts';

type Tell = (difference: Difference) => void;

/** Returns what went wrong, on one line. */
export function messageOfError(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.trim().replaceAll(/\s*\n\s*/g, ': ') || 'for an unknown reason';
}

/**
 * Runs work that can fail because of what is stored. False means that it failed and that the
 * failure was told.
 */
export async function guarded(tell: Tell, where: string, work: () => unknown): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    tell({ where, what: `it could not be compared: ${messageOfError(error)}` });
    return false;
  }
}

/** Gives nothing where the database cannot be read, and tells each reason once. */
export function tellingReader(read: Reader, tell: Tell): Reader {
  const told = new Set<string>();
  const failed = (error: unknown): void => {
    const what = `it could not be read: ${messageOfError(error)}`;
    if (told.has(what)) return;
    told.add(what);
    tell({ where: 'the database', what });
  };
  return {
    get: async (sql, ...values) => {
      try {
        return await read.get(sql, ...values);
      } catch (error) {
        failed(error);
        return undefined;
      }
    },
    all: async (sql, ...values) => {
      try {
        return await read.all(sql, ...values);
      } catch (error) {
        failed(error);
        return [];
      }
    },
  };
}
