// Tells whether a read failed because of the one object or because of the server. Invariant:
// whoever may write to the bucket can make a single object unreadable (another storage class, an
// encryption key of his own, a policy on its name). Such an object counts as damaged, and the store
// does not count as unavailable: those who read many objects report it and go on with the others.
import { IntegrityError } from '../../../core/errors.ts';
import { AttemptFailure } from '../attempt-failure.ts';
import { refusalOf } from '../breaker.ts';
import type { Connection } from './connection.ts';

/** The owner's mark, which every store has: a server that gives it can serve objects. */
const probedName = 'owner';
/**
 * What S3 says of an object in an archive class, and of one under a key that is not named, not
 * there or not ours. Source: "Error responses" of the Amazon S3 API reference.
 */
const ofOneObject = /^(InvalidObjectState|InvalidRequest|InvalidArgument|AccessDenied|KMS\..+)$/;

export interface ReadObject {
  /** Relative to the store's prefix. */
  name: string;
  /** The number of the store, for errors. */
  store: number;
  signal?: AbortSignal | undefined;
  /** It is in an archive class on purpose: it may have to be restored, and is not damaged. */
  isArchived?: boolean;
}

/**
 * Does what `Connection.persist` does, for a GET of one object. Throws IntegrityError when the
 * server twice refuses this object and serves others: once is not enough, since not all servers of
 * a store know at the same moment what a key may do. Nothing is said to be missing before the place
 * was found to be ours.
 */
export async function persistRead<T>(
  connection: Connection,
  object: ReadObject,
  attempt: (earlierTries: number) => Promise<T>,
): Promise<T> {
  const { store, signal, isArchived } = object;
  for (let isSecond = false; ; isSecond = true) {
    try {
      return await connection.retry(attempt, signal);
    } catch (error) {
      if (error instanceof IntegrityError) {
        if (error.store === 0) error.store = store;
        throw await believed(connection, object, error);
      }
      if (!(error instanceof AttemptFailure)) throw error;
      if (isArchived && error.code === 'InvalidObjectState') throw refusalOf(error);
      const isOfOne = ofOneObject.test(error.code ?? '') && (await servesOthers(connection));
      if (!isOfOne) throw refusalOf(error);
      if (isSecond) throw await believed(connection, object, refusedAlone(object, error));
    }
  }
}

function refusedAlone({ name, store }: ReadObject, cause: AttemptFailure): IntegrityError {
  const message = `the store refuses ${name} alone: ${cause.message}`;
  return new IntegrityError(message, { kind: 'missing', store, cause, isRefused: true });
}

/** Gives the error, unless it says that something is missing in a place that is not ours. */
async function believed(
  connection: Connection,
  { name }: ReadObject,
  error: IntegrityError,
): Promise<IntegrityError> {
  if (error.kind === 'missing' && name !== probedName) await connection.confirmPlace();
  return error;
}

async function servesOthers(connection: Connection): Promise<boolean> {
  try {
    const { status } = await connection.exchange({ method: 'HEAD', name: probedName });
    return status < 300;
  } catch {
    return false;
  }
}
