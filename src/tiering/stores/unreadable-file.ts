// When a file that the system will not read counts as damaged: a disk can lose one file and have
// all others. Before that it is asked for again, and another file is read.
import { IntegrityError } from '../../core/errors.ts';
import type { FailureCause } from './attempt-failure.ts';
import type { StoreMeter } from './store-meter.ts';

/** How often a file is asked for. */
const readTries = 2;

const causes = new Map<string, FailureCause>([
  ...['ENOENT', 'ENOTDIR', 'ESTALE', 'ENOTCONN', 'EHOSTDOWN', 'ENXIO', 'ENODEV'].map(
    (code) => [code, 'unreachable'] as const,
  ),
  ...['EACCES', 'EPERM', 'EROFS'].map((code) => [code, 'denied'] as const),
  ...['ENOSPC', 'EDQUOT'].map((code) => [code, 'full'] as const),
  ...['EMFILE', 'ENFILE'].map((code) => [code, 'no-descriptors'] as const),
]);

/** What the system's error says of a file's folder; `io`: it may be the file's own. errno(3). */
export function causeOf(code: string | undefined): FailureCause {
  return causes.get(code ?? '') ?? 'io';
}

export interface FileRead {
  /** Of the file, for errors. */
  name: string;
  /** The number of the store. */
  store: number;
  meter: StoreMeter;
  /** The system's failure, where it may be of this file alone. */
  failureOfOne: (error: unknown) => Error | null;
  servesOthers: () => Promise<boolean>;
}

/** Rejects with what `read` rejects with, or with IntegrityError where the file is unreadable. */
export async function readFileOfStore<T>(
  { name, store, meter, failureOfOne, servesOthers }: FileRead,
  read: () => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await read();
    } catch (error) {
      const cause = failureOfOne(error);
      if (!cause || !(await servesOthers())) throw error;
      const message = `${name} cannot be read alone: ${cause.message}`;
      if (tries < readTries) meter.retried('io');
      else throw new IntegrityError(message, { kind: 'missing', store, cause, isRefused: true });
    }
  }
}
