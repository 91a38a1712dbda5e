// Writes and reads whole files in a bucket that others read, too, with the headers that they are to
// be served with. Invariant: what is called written was proven to be what was sent. Nothing is
// sealed, and there is no probe, since nothing but reading and writing names is asked of the
// server. Specification: the Amazon S3 API reference.
import type { S3Client } from '@aws-sdk/client-s3';
import { unmeasured } from '../store-meter.ts';
import { StoreTally } from '../store-tally.ts';
import { type OpenedAddress, openAddress } from './address.ts';
import { Connection } from './connection.ts';
import { ObjectAnswer } from './object-answer.ts';
import type { S3StoreOptions } from './options.ts';
import { ProvenPut } from './proven-put.ts';
import { defaultRetryPolicy } from './retry.ts';

/** `url` is `s3://bucket` or `s3://bucket/prefix`. */
export type S3FilesOptions = Pick<
  S3StoreOptions,
  'url' | 'endpoint' | 'region' | 'pathStyle' | 'profile' | 'credentials'
>;

const connectionsMax = 16;
const timeouts = { connectMs: 5000, firstByteMs: 20_000, stallMs: 20_000 };
/** A command ends when it cannot go on, so no circuit breaker spares the server. */
const breaker = { failuresMax: Number.POSITIVE_INFINITY, pauseMsMin: 100, pauseMsMax: 100 };

export class S3Files {
  readonly #client: S3Client;
  readonly #connection: Connection;

  private constructor({ address, client, loadCredentials }: OpenedAddress) {
    this.#client = client;
    this.#connection = new Connection({
      store: 'files',
      meter: unmeasured,
      address,
      loadCredentials,
      connectionsMax,
      timeouts,
      retryPolicy: defaultRetryPolicy,
      breaker,
      tally: new StoreTally(0),
      trial: async () => {},
      onBreaker: () => {},
    });
  }

  /** Throws an Error that says what is wrong with the settings. */
  static async open(options: S3FilesOptions): Promise<S3Files> {
    const named = { number: 0, name: options.url, ...options };
    return new S3Files(await openAddress(named, timeouts));
  }

  /** undefined: there is no such file. Rejects with `AttemptFailure`. */
  get(name: string): Promise<Buffer | undefined> {
    return this.#connection.retry(async () => {
      const body = new ObjectAnswer();
      const { status } = await this.#connection.exchange({ method: 'GET', name, body });
      return status === 404 ? undefined : body.bytes;
    });
  }

  /** Replaces whatever has the name. Rejects with `AttemptFailure`. */
  async put(name: string, bytes: Buffer, headers: Record<string, string>): Promise<void> {
    const put = new ProvenPut(this.#connection, { name, headers, pieces: [bytes] }, 'either');
    await this.#connection.retry((earlierTries) => put.attempt(earlierTries));
  }

  async close(): Promise<void> {
    await this.#connection.close();
    this.#client.destroy();
  }
}
