// Extents that an S3 server keeps in an archive class: how they are, which a HEAD tells without
// reading them, and RestoreObject, which asks for them. Invariant: what is asked for twice does no
// harm, so whoever does not know whether it has asked asks again.
// Specification: RestoreObject and HeadObject of the Amazon S3 API reference.
import { isArchiveClass } from '../../../core/aws-classes.ts';
import { AttemptFailure } from '../attempt-failure.ts';
import type { ArchiveCalls, ArchivedExtent, RecallTerms } from '../store.ts';
import type { Connection } from './connection.ts';

/** More days than S3 takes are as many as it takes. */
const daysMax = 2 ** 31 - 1;

export class S3Archive implements ArchiveCalls {
  readonly #connection: Connection;
  readonly #nameOf: (id: Buffer) => string;

  constructor(connection: Connection, nameOf: (id: Buffer) => string) {
    this.#connection = connection;
    this.#nameOf = nameOf;
  }

  look(id: Buffer): Promise<ArchivedExtent | undefined> {
    const name = this.#nameOf(id);
    return this.#connection.persist(async () => {
      const { status, headers } = await this.#connection.exchange({ method: 'HEAD', name });
      if (status === 404) {
        // Nothing is missing in a place that is not ours.
        await this.#connection.confirmPlace();
        return undefined;
      }
      const sizeBytes = Number(headers['content-length'] ?? Number.NaN);
      if (!Number.isSafeInteger(sizeBytes)) {
        throw new AttemptFailure('wrong-length', `a HEAD of ${name} without a length`);
      }
      return { sizeBytes, state: stateOf(headers) };
    });
  }

  async recall(id: Buffer, { days, tier }: RecallTerms): Promise<void> {
    const name = this.#nameOf(id);
    const document =
      '<RestoreRequest xmlns="http://s3.amazonaws.com/doc/2006-03-01/">' +
      `<Days>${Math.min(days, daysMax)}</Days>` +
      `<GlacierJobParameters><Tier>${tier}</Tier></GlacierJobParameters></RestoreRequest>`;
    const pieces = [Buffer.from(document)];
    const headers = { 'content-type': 'application/xml' };
    await this.#connection.persist(async () => {
      const request = { method: 'POST', name, query: 'restore', headers, pieces } as const;
      const { status } = await this.#connection.exchange(request).catch(underWay);
      if (status === 404) throw new AttemptFailure('unfit', `${name} is not there to be restored`);
    });
  }
}

/** What is on its way already is what was asked for. */
function underWay(error: unknown): { status: number } {
  if (error instanceof AttemptFailure && error.code === 'RestoreAlreadyInProgress') {
    return { status: 202 };
  }
  throw error;
}

function stateOf(headers: Record<string, string | string[] | undefined>): ArchivedExtent['state'] {
  const restore = headers['x-amz-restore'];
  if (typeof restore === 'string') {
    return restore.includes('ongoing-request="true"') ? 'coming' : 'there';
  }
  const of = headers['x-amz-storage-class'];
  return typeof of === 'string' && isArchiveClass(of) ? 'archived' : 'there';
}
