// Extents, and small named objects beside them, in a bucket of an S3 server. Under the store's
// prefix: `extents/<2 hex>/<32 hex>`, the folder being the id's last byte, which is random (ids
// begin with the time), so that the load spreads over the bucket's partitions. Invariant: what is
// called stored was proven to be what was sent (proven-put.ts); what is read is what was asked for,
// in place and length. Whether the bytes are the written ones is for the caller to verify.
// Specification: the Amazon S3 API reference; docs/decisions/0012-s3-driver.md.
import type { S3Client } from '@aws-sdk/client-s3';
import { isArchiveClass } from '../../../core/aws-classes.ts';
import { Refusal } from '../../../core/errors.ts';
import { extentIdBytes } from '../../../core/ids.ts';
import { extentBytesMax } from '../../../core/limits.ts';
import { AttemptFailure } from '../attempt-failure.ts';
import {
  defaultBreaker,
  defaultStallMs,
  type StoreDriver,
  type StoreEvent,
  type StoreState,
} from '../driver.ts';
import type { RemoteRead } from '../store.ts';
import { type StoreMeter, unmeasured } from '../store-meter.ts';
import { defaultConnectionsMax } from '../store-place.ts';
import { StoreTally } from '../store-tally.ts';
import { loadSdk, openAddress, type StoreAddress } from './address.ts';
import { Connection, type Timeouts } from './connection.ts';
import type { LoadCredentials } from './credentials.ts';
import { ExtentReader } from './extent-reader.ts';
import { HedgeBudget } from './hedge-budget.ts';
import { type ListedPage, type PageStart, readPage } from './list-page.ts';
import { EndAnswer, ObjectAnswer } from './object-answer.ts';
import { persistRead } from './object-read.ts';
import type { JoinOptions, S3OpenedStore, S3StoreOptions } from './options.ts';
import { type Finding, Prober } from './probe.ts';
import { type ProofKind, ProvenPut, type Write } from './proven-put.ts';
import { defaultRetryPolicy } from './retry.ts';
import { S3Archive } from './s3-archive.ts';

const defaultExtentBytesMax = 8 * 1024 * 1024;
/** An extent is in the folder of its id. What is in another one somebody else has put there. */
const namePattern = /^extents\/([0-9a-f]{2})\/([0-9a-f]{30}\1)$/;

export class S3Store implements StoreDriver {
  readonly number: number;
  readonly name: string;
  readonly extentBytesMax: number;
  readonly meter: StoreMeter;
  readonly #address: StoreAddress;
  /** Null: another thread has it. */
  readonly #client: S3Client | null;
  /** See `CredentialSource`. */
  readonly loadCredentials: LoadCredentials;
  readonly #connection: Connection;
  readonly #reader: ExtentReader;
  readonly archive: S3Archive | undefined;
  readonly #prober: Prober;
  /** What puts of extents have besides their checksum. */
  readonly #extentHeaders: Readonly<Record<string, string>>;
  readonly #onEvent: (event: StoreEvent) => void;
  #findings: readonly Finding[] = [];
  #probed = false;
  #honoursConditions = false;
  #proof: ProofKind = null;

  /** Use `S3Store.open` or `S3Store.join`. */
  private constructor(
    options: S3StoreOptions,
    address: StoreAddress,
    access: Pick<JoinOptions, 'loadCredentials'> & { client: S3Client | null },
  ) {
    const { number, name, retryPolicy = defaultRetryPolicy, breaker = defaultBreaker } = options;
    const { client, loadCredentials } = access;
    this.number = number;
    this.name = name;
    this.extentBytesMax = options.extentBytesMax ?? defaultExtentBytesMax;
    this.#address = address;
    const { storageClass } = options;
    this.#extentHeaders = storageClass ? { 'x-amz-storage-class': storageClass } : {};
    this.meter = options.meter ?? unmeasured;
    const { meter } = this;
    this.#client = client;
    this.loadCredentials = loadCredentials;
    this.#onEvent = options.onEvent ?? (() => {});
    this.#connection = new Connection({
      store: name,
      meter,
      address,
      loadCredentials,
      connectionsMax: options.connectionsMax ?? defaultConnectionsMax(options.url),
      timeouts: timeoutsOf(options),
      retryPolicy,
      breaker: { ...breaker, words: options.breakerState },
      tally: options.tally ?? new StoreTally(number),
      trial: client && (() => this.#try()),
      onBreaker: (state, failure) => this.#onEvent({ kind: 'breaker', state, failure }),
      confirmPlace: options.confirmPlace,
    });
    this.#reader = new ExtentReader({
      connection: this.#connection,
      hedges: new HedgeBudget(meter, options.hedgeShare),
      meter,
      store: number,
      isArchive: isArchiveClass(storageClass),
    });
    if (isArchiveClass(storageClass)) this.archive = new S3Archive(this.#connection, nameOf);
    this.#prober = new Prober(this.#connection, (prefix) => this.#listPage(prefix, {}, true));
  }

  /**
   * Opens and probes the store. Throws an Error that says why when the settings are wrong, access
   * is denied, the server cannot serve as a store, or the signal ends it. A server that does not
   * answer is no error: the store is then not ready, refuses requests, and is probed until it is.
   */
  static async open(options: S3StoreOptions): Promise<S3Store> {
    const bytesMax = options.extentBytesMax ?? defaultExtentBytesMax;
    if (bytesMax > extentBytesMax) throw new Error(`extents of ${bytesMax} bytes are too large`);
    const { address, ...access } = await openAddress(options, timeoutsOf(options));
    const store = new S3Store(options, address, access);
    const { signal } = options;
    const end = (): void => void store.close();
    try {
      signal?.addEventListener('abort', end);
      signal?.throwIfAborted();
      await store.#probe();
    } catch (error) {
      const isDown = error instanceof AttemptFailure && error.serverFault;
      if (!isDown || error.isOfCredentials || error.reason === 'clock') {
        await store.close();
        throw error;
      }
      store.#connection.breaker.open(error);
    } finally {
      signal?.removeEventListener('abort', end);
    }
    return store;
  }

  /**
   * Joins in what another thread has opened and probed, and goes on to look after: that thread
   * loads credentials, lists, and finds out when a server that was down is back.
   */
  static join(options: JoinOptions, { address, honoursConditions, proof }: S3OpenedStore): S3Store {
    const { loadCredentials } = options;
    const store = new S3Store(options, address, { client: null, loadCredentials });
    store.#honoursConditions = honoursConditions;
    store.#proof = proof;
    store.#probed = true;
    return store;
  }

  /** What others join in. */
  get opened(): S3OpenedStore {
    const [address, honoursConditions] = [this.#address, this.#honoursConditions];
    return { kind: 's3', address, honoursConditions, proof: this.#proof };
  }

  /** A thread that has joined in has found the server down. */
  followBreaker(failure: AttemptFailure): void {
    this.#connection.breaker.follow(failure);
  }

  async put(id: Buffer, pieces: readonly Buffer[], tally?: StoreTally): Promise<void> {
    const name = nameOf(id);
    const ifAbsent = this.#honoursConditions;
    const headers = this.#extentHeaders;
    const isArchived = this.archive !== undefined;
    const outcome = await this.#put({ name, pieces, headers, ifAbsent, tally, isArchived });
    if (outcome === 'stored') return;
    // Ids are random, so this is an earlier try of the same write, which the server has damaged.
    const cause = new Error(`${name} exists in the store ${this.name} and is another`);
    throw new Refusal('ServiceUnavailable', { cause });
  }

  async replace(id: Buffer, pieces: readonly Buffer[]): Promise<void> {
    const write = { name: nameOf(id), pieces, headers: this.#extentHeaders, ifAbsent: false };
    await this.#put({ ...write, isArchived: this.archive !== undefined });
  }

  read(options: RemoteRead): Promise<void> {
    return this.#reader.read(nameOf(options.id), options);
  }

  readEnd(id: Buffer, maxBytes: number): Promise<{ bytes: Buffer; sizeBytes: number } | undefined> {
    const name = nameOf(id);
    const isArchived = this.archive !== undefined;
    return persistRead(this.#connection, { name, store: this.number, isArchived }, async () => {
      const body = new EndAnswer(maxBytes);
      const headers = { range: `bytes=-${maxBytes}` };
      const { status } = await this.#connection.exchange({ method: 'GET', name, headers, body });
      if (status === 404) return undefined;
      // No bytes can be asked for of what has none.
      if (status === 416) return { bytes: Buffer.alloc(0), sizeBytes: 0 };
      return { bytes: body.bytes, sizeBytes: body.sizeBytes };
    });
  }

  remove(id: Buffer, tally?: StoreTally): Promise<void> {
    return this.#remove(nameOf(id), tally);
  }

  async discard(ids: readonly Buffer[], tally?: StoreTally): Promise<void> {
    if (ids.length === 0) return;
    try {
      await this.#connection.confirmPlace();
    } catch {
      return;
    }
    // An extent that cannot be removed now is an intent, so the sweeper will remove it.
    await Promise.allSettled(ids.map((id) => this.remove(id, tally)));
  }

  async *list(): AsyncIterable<{ id: Buffer; sizeBytes: number }> {
    for await (const { name, sizeBytes } of this.listObjects('extents/')) {
      const id = namePattern.exec(name)?.[2];
      if (id !== undefined) yield { id: Buffer.from(id, 'hex'), sizeBytes };
    }
  }

  getObject(name: string): Promise<Buffer | undefined> {
    return persistRead(this.#connection, { name, store: this.number }, async () => {
      const body = new ObjectAnswer();
      const { status } = await this.#connection.exchange({ method: 'GET', name, body });
      return status === 404 ? undefined : body.bytes;
    });
  }

  async putObject(
    name: string,
    bytes: Buffer,
    options: { ifAbsent?: boolean } = {},
  ): Promise<'stored' | 'exists'> {
    const ifAbsent = options.ifAbsent ?? false;
    // Where a server ignores conditions, looking first is the best that can be done.
    if (ifAbsent && !this.#honoursConditions && (await this.getObject(name))) return 'exists';
    return this.#put({ name, pieces: [bytes], ifAbsent: ifAbsent && this.#honoursConditions });
  }

  removeObject(name: string): Promise<void> {
    return this.#remove(name);
  }

  async *listObjects(
    prefix: string,
    after?: string,
  ): AsyncIterable<{ name: string; sizeBytes: number }> {
    for (let from: PageStart | null = { after }; from; ) {
      const start: PageStart = from;
      const page = await this.#connection.persist(() => this.#listPage(prefix, start));
      yield* page.objects;
      from = page.next;
    }
  }

  state(): StoreState {
    const { slots, breaker, lastFailure } = this.#connection;
    const { requests, retries, failures, hedges } = this.meter.counts;
    return {
      ready: this.#probed && breaker.state === 'closed',
      breaker: breaker.state,
      findings: this.#findings,
      retries: { ...retries },
      failures: { ...failures },
      hedges,
      inFlight: slots.inFlight,
      waiting: slots.waiting,
      requests,
      lastFailure,
    };
  }

  /** Ends all requests that are under way, as failed. */
  async close(): Promise<void> {
    await this.#connection.close();
    this.#client?.destroy();
  }

  /** Stores an object whole. */
  #put(write: Write): Promise<'stored' | 'exists'> {
    const put = new ProvenPut(this.#connection, write, this.#proof);
    return this.#connection.persist((earlierTries) => put.attempt(earlierTries));
  }

  async #remove(name: string, tally?: StoreTally): Promise<void> {
    await this.#connection.persist(async (earlierTries) => {
      const request = { name, tally, earlierTries };
      const { status } = await this.#connection.exchange({ method: 'DELETE', ...request });
      // These are S3's own answers. A server between us and S3 may answer another success.
      if (status === 204 || status === 404 || (await this.#isAbsent(request))) return;
      throw new AttemptFailure('unproven', `HTTP ${status} to a DELETE, and ${name} is there`);
    });
  }

  async #isAbsent(request: { name: string; tally?: StoreTally }): Promise<boolean> {
    const headers = { range: 'bytes=0-0' };
    const { status } = await this.#connection.exchange({ method: 'GET', headers, ...request });
    return status === 404;
  }

  /** Reads one page of a listing. Rejects with AttemptFailure. */
  #listPage(prefix: string, start: PageStart, isTrial = false): Promise<ListedPage> {
    const { bucket, prefix: base } = this.#address;
    const { after, token } = start;
    const client = this.#client;
    if (!client) throw new Error(`another thread lists the store ${this.name}`);
    return this.#connection.send({ isTrial }, async (abortSignal) => {
      const { ListObjectsV2Command } = await loadSdk();
      const asked = {
        Bucket: bucket,
        Prefix: base + prefix,
        // The token says already where the page begins.
        StartAfter: after === undefined || token !== undefined ? undefined : base + after,
        ContinuationToken: token,
        // XML cannot have every character that a name can.
        EncodingType: 'url' as const,
      };
      const page = await client.send(new ListObjectsV2Command(asked), { abortSignal });
      return readPage(page, { ...start, bucket, base, prefix });
    });
  }

  async #probe(): Promise<void> {
    this.#findings = [];
    try {
      const { honoursConditions, proof } = await this.#prober.run();
      if (this.archive && proof === null) {
        const message = 'it does not prove what it was sent, and an archive cannot be read back';
        throw new AttemptFailure('unfit', message);
      }
      this.#honoursConditions = honoursConditions;
      this.#proof = proof;
      this.#probed = true;
    } catch (error) {
      if (error instanceof AttemptFailure && error.reason === 'unfit') this.#connection.note(error);
      throw error;
    } finally {
      this.#findings = this.#prober.findings;
      this.#onEvent({ kind: 'probed', findings: this.#findings });
    }
  }

  /** The breaker's trial: a small request, or the probe where the server was never reached. */
  async #try(): Promise<void> {
    if (!this.#probed) {
      await this.#probe();
      return;
    }
    try {
      // The answer to a HEAD has no body that says why it was refused.
      const headers = { range: 'bytes=0-0' };
      await this.#connection.exchange({ method: 'GET', name: 'owner', headers, isTrial: true });
    } catch (error) {
      // A server that refuses the request has answered, so it is available again.
      if (!(error instanceof AttemptFailure) || error.serverFault) throw error;
    }
  }
}

function timeoutsOf(options: S3StoreOptions): Timeouts {
  const { connectTimeoutMs, firstByteTimeoutMs, stallTimeoutMs } = options;
  return {
    connectMs: connectTimeoutMs ?? 2000,
    firstByteMs: firstByteTimeoutMs ?? 10_000,
    stallMs: stallTimeoutMs ?? defaultStallMs,
  };
}

function nameOf(id: Buffer): string {
  if (id.length !== extentIdBytes) throw new Error(`an extent id of ${id.length} bytes`);
  const name = id.toString('hex');
  return `extents/${name.slice(30)}/${name}`;
}
