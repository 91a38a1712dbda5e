// Moves versions into other storage classes, as lifecycle rules say: their bytes are read and
// verified, written into the stores of the class, read back, and then named by one commit
// (ledger/move-upkeep.ts). Invariants: a version is whole in one class until that commit, and whole
// in the other from it on; and what a move has written that was not committed is an intent, which
// the sweeper removes.
import type { Bucket } from '../catalog/buckets.ts';
import { readInlineBody } from '../catalog/extents.ts';
import type { PlannedMove } from '../catalog/lifecycle-moves.ts';
import { findRestore, isReadable } from '../catalog/restore-rows.ts';
import type { MovedBytes } from '../catalog/version-moves.ts';
import { type Attributes, findVersion, type Version } from '../catalog/versions.ts';
import { IntegrityError } from '../core/errors.ts';
import { movedExtentsMax } from '../core/limits.ts';
import {
  countRuns,
  decodeManifest,
  type ExtentRun,
  encodeManifest,
  holdsEncrypted,
  inlineStore,
  localStore,
} from '../core/manifest.ts';
import { steadyClock } from '../core/steady-clock.ts';
import type { MoveDue } from '../ledger/move-upkeep.ts';
import { billableBytes } from '../quota/prices/charges.ts';
import { usualClass } from '../quota/prices/price-book.ts';
import { joinBooks } from '../quota/storage/several-books.ts';
import type { ObjectSink, WrittenObject } from '../tiering/object-writer.ts';
import { horizonDaysUsual } from '../tiering/policy/cold-rule.ts';
import { transferRuns } from '../tiering/run-transfer.ts';
import { isArchived, isPaidByRestore } from './s3/objects/restored.ts';
import {
  findClassObstacle,
  severalLegs,
  shareStore,
  storageBooksOf,
  storeOfClass,
} from './s3/objects/written-class.ts';
import type { RequestServices } from './services.ts';

export type TransitionServices = Pick<
  RequestServices,
  | ('read' | 'keyring' | 'ledger' | 'classes' | 'stores' | 'bookOf' | 'reader' | 'writer')
  | ('leases' | 'intents' | 'diskRoom' | 'losses' | 'encrypts')
>;

export interface TransitionOptions {
  /** How long a day lasts for rules. Milliseconds. */
  dayMs: number;
  /** A version stays since it has too many extents. */
  onTooLarge(): void;
}

export class Transitions {
  readonly #services: TransitionServices;
  readonly #options: TransitionOptions;

  constructor(services: TransitionServices, options: TransitionOptions) {
    this.#services = services;
    this.#options = options;
  }

  /**
   * Resolves to whether the version was moved; one that is not due any more, may not leave its
   * class, or whose owner cannot pay for it now stays. Rejects where its bytes cannot be read, or
   * written.
   */
  async move(
    bucket: Bucket,
    { place, class: to }: PlannedMove,
    stopping?: AbortSignal,
  ): Promise<boolean> {
    const { read, keyring, ledger } = this.#services;
    const version = await findVersion({ read, keyring }, bucket, place);
    if (!version || version.class === to || !(await this.#mayMove(bucket, version, to))) {
      return false;
    }
    const due = this.#dueOf(bucket, version, to);
    if ((await ledger.maintain(due)) === 0) return false;
    if (!this.#isWorth(bucket, version, to)) return false;
    const [from, into] = [version.class, to].map((className) => ({ bucket, className }));
    if (from && into && shareStore(this.#services, from, into)) {
      return (await ledger.maintain({ ...due, bytes: 'shared' })) > 0;
    }
    if (!this.#mayWrite(bucket, version, to)) return false;
    const runs = decodeManifest(version.manifest);
    const release = this.#services.leases.hold(runs);
    try {
      await this.#moveBytes(bucket, { version, runs, due }, stopping);
    } catch (error) {
      throw await this.#services.losses.explain({ bucket, version }, error);
    } finally {
      release();
    }
    return true;
  }

  /**
   * Of archives that is read alone which goes on into a deeper one, or was restored, along the
   * tiers of a class; and nothing is written where a write would be refused.
   */
  async #mayMove(bucket: Bucket, version: Version, to: string): Promise<boolean> {
    const { classes, stores, read } = this.#services;
    const found = classes.named(bucket.tenant, to);
    if (!found || findClassObstacle(this.#services, bucket, found) !== null) return false;
    const { legs } = found.definition.durability;
    if (legs.some(({ store }) => stores.numberOf(store) === undefined)) return false;
    const from = classes.named(bucket.tenant, version.class)?.definition;
    if (!isArchived(this.#services, bucket, version)) return true;
    const { tier } = found.definition;
    const isThere = async () =>
      isReadable(await findRestore(read, version.seq), steadyClock.nowMs());
    if (from?.tier && tier?.archive && tier.of === from.tier.of) {
      // An archive of S3 is not read before it was restored.
      return isPaidByRestore(this.#services, bucket, version) ? isThere() : true;
    }
    return from?.tier?.of === to && isThere();
  }

  /**
   * Whether a move down a chain costs no more than it saves. Whoever has a rule move something, or
   * reads it, wants it there.
   */
  #isWorth(bucket: Bucket, version: Version, to: string): boolean {
    const { classes, bookOf } = this.#services;
    const { tenant } = bucket;
    const tier = classes.named(tenant, to)?.definition.tier;
    if (!tier || classes.chainOf(tenant, version.class)?.name !== tier.of) return true;
    const { class: from, sizeBytes } = version;
    const saved = this.#perMonth(bucket, from, sizeBytes) - this.#perMonth(bucket, to, sizeBytes);
    const cost = bookOf(bucket.store).classes.get(usualClass)?.picodollarsPerPut ?? 0n;
    return Number(cost) <= saved * (horizonDaysUsual / 30);
  }

  /** What all copies of so many bytes cost in a class, picodollars a month. */
  #perMonth(bucket: Bucket, of: string, sizeBytes: number): number {
    const { classes } = this.#services;
    const least = classes.named(bucket.tenant, of)?.definition.minimum.bytes ?? 0;
    return storageBooksOf(this.#services, bucket, of).reduce((sum, book) => {
      const prices = book.classes.get(of) ?? book.classes.get(usualClass);
      if (!prices) return sum;
      const perGb = Number(prices.storage.tiers[0]?.picodollarsPerGb ?? 0n);
      return sum + perGb * (billableBytes(prices, Math.max(sizeBytes, least)) / 2 ** 30);
    }, 0);
  }

  /** Whether what is written now is as protected as it is, and fits into one commit. */
  #mayWrite(bucket: Bucket, { manifest, sizeBytes, attributes }: Version, to: string): boolean {
    const { encrypts, keyring, writer } = this.#services;
    if (!encrypts && holdsEncrypted(manifest)) return false;
    const { encryption } = JSON.parse(attributes) as Attributes;
    if (encryption && encryption.kms !== keyring.wrappedBy) return false;
    const stores = this.#storesOf(bucket, to);
    const written = stores.length * Math.ceil(sizeBytes / writer.extentBytesIn(stores));
    if (Math.max(countRuns(manifest), written) <= movedExtentsMax) return true;
    this.#options.onTooLarge();
    return false;
  }

  #dueOf(bucket: Bucket, { key, seq }: Version, to: string): MoveDue {
    const { bookOf } = this.#services;
    return {
      ...{ kind: 'moveDue', bucketId: bucket.id, key, seq, class: to, dayMs: this.#options.dayMs },
      book: bookOf(bucket.store).name,
      storageBook: joinBooks(storageBooksOf(this.#services, bucket, to).map(({ name }) => name)),
      bytes: null,
    };
  }

  async #moveBytes(
    bucket: Bucket,
    { version, runs, due }: { version: Version; runs: readonly ExtentRun[]; due: MoveDue },
    stopping: AbortSignal | undefined,
  ): Promise<void> {
    const { ledger, diskRoom } = this.#services;
    const { tenant, owner: principal } = bucket;
    const { sizeBytes } = version;
    const isLocal = this.#storesOf(bucket, due.class).includes(localStore);
    const room = await diskRoom.open({ tenant, principal, bytes: isLocal ? sizeBytes : 0 });
    try {
      const sink = this.#openSink(bucket, version, due.class);
      let isAbandoned = true;
      try {
        await transferRuns({
          ...{ runs, sizeBytes, sink },
          read: (some) => this.#read(tenant, some, stopping),
          before: (bytes) => room?.arrive(bytes) ?? undefined,
        });
        const written = await this.#seal(version, due.class, sink);
        await this.#readBack(tenant, written, stopping);
        // Whether it was committed is not known where this fails: then the sweeper looks.
        isAbandoned = false;
        isAbandoned = (await ledger.maintain({ ...due, bytes: bytesOf(written) })) === 0;
        // All of it was read and written, so it must not happen again and again.
        if (isAbandoned) throw new Error(`version ${version.seq} was not moved: it has changed`);
      } finally {
        if (isAbandoned) await sink.abort();
      }
    } finally {
      room?.close();
    }
  }

  #storesOf(bucket: Bucket, to: string): number[] {
    const legs = severalLegs(this.#services, bucket, to)?.stores;
    return legs ?? [storeOfClass(this.#services, bucket, to)];
  }

  #openSink(bucket: Bucket, { key, sizeBytes }: Version, to: string): ObjectSink {
    const { writer, intents } = this.#services;
    const store = storeOfClass(this.#services, bucket, to);
    const legs = severalLegs(this.#services, bucket, to);
    const { tenant, name, id: bucketId } = bucket;
    return writer.begin({
      ...{ store, sizeBytes, checksums: [], place: { tenant, bucket: name, bucketId, key } },
      takeId: () => intents.take(store, legs?.stores.slice(1)),
      ...(legs && { legs: { ...legs, tallyOf: () => undefined } }),
    });
  }

  /** Throws IntegrityError where what was read is not what was once written. */
  async #seal(version: Version, to: string, sink: ObjectSink): Promise<WrittenObject> {
    const digests = await sink.digest();
    if (version.sha256 && !digests.sha256.equals(version.sha256)) {
      throw new IntegrityError(`version ${version.seq} has bytes of another SHA-256`);
    }
    // Only the catalog knows which version it is of.
    const { etag, owner, attributes } = version;
    return sink.seal(digests, { etag, class: to, owner, attributes, needsJournal: true });
  }

  /** All that was written, in each store that says that it has it. */
  async #readBack(
    tenant: string,
    { runs, places }: WrittenObject,
    stopping: AbortSignal | undefined,
  ): Promise<void> {
    const copies = Math.max(1, ...(places ?? []).map(({ length }) => length));
    for (let copy = 0; copy < copies; copy++) {
      const stored = runs.flatMap((run, i) => {
        const store = copy === 0 ? run.store : places?.[i]?.[copy];
        return store === undefined || store === inlineStore ? [] : [{ ...run, store }];
      });
      const { reader } = this.#services;
      const readable: ExtentRun[] = [];
      for (const run of stored) {
        const archive = reader.archiveOf(run);
        // It proved what it was sent when it took it, and tells how long it is.
        if (archive) await reader.lookAt(archive, run);
        else readable.push(run);
      }
      for await (const _ of this.#read(tenant, readable, stopping, true));
    }
  }

  #read(
    tenant: string,
    runs: readonly ExtentRun[],
    signal: AbortSignal | undefined,
    isAlone = false,
  ): AsyncIterable<Buffer> {
    const { reader, read } = this.#services;
    return reader.read({
      ...{ tenant, runs, inlineBody: (id: Buffer) => readInlineBody(read, id) },
      ...(signal && { signal }),
      ...(isAlone && { isAlone }),
    });
  }
}

function bytesOf({ runs, inline, places }: WrittenObject): MovedBytes {
  const extentIds = runs.filter(({ store }) => store !== inlineStore).map(({ id }) => id);
  return { manifest: encodeManifest(runs), extentIds, inline, places };
}
