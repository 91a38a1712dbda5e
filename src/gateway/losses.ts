// Objects that are lost: what a read finds in no store, of a class that may lose objects. It is
// answered 410 only after the loss is recorded, so whoever reads the log knows all that anybody was
// told. Invariants: nothing is lost by a store that cannot be asked, or that refuses an object and
// gives others, since it may have it; what failed once is read again before it counts as lost; and
// whatever is lost is looked at again, now and then, since a store may be restored.

import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { recordedChange } from '../audit/recorded-change.ts';
import { type Bucket, getBucket } from '../catalog/buckets.ts';
import { hasCopies } from '../catalog/extent-copies.ts';
import { readInlineBody } from '../catalog/extents.ts';
import { findHeld } from '../catalog/held-rows.ts';
import {
  isLost,
  type LostVersion,
  listDueLosses,
  mayLose,
  type VersionPlace,
} from '../catalog/lost-versions.ts';
import { findVersion, type Version } from '../catalog/versions.ts';
import { IntegrityError, Refusal } from '../core/errors.ts';
import { decodeManifest, type ExtentRun, localStore } from '../core/manifest.ts';
import { isOwnClass } from '../core/own-class.ts';
import { Repeated } from '../core/repeated.ts';
import { ByteRest } from '../core/slice-pace.ts';
import { chargeStored } from '../quota/charge.ts';
import { joinBooks } from '../quota/storage/several-books.ts';
import { storageBooksOf } from './s3/objects/written-class.ts';
import type { RequestServices } from './services.ts';

export type LossServices = Pick<
  RequestServices,
  'read' | 'keyring' | 'ledger' | 'classes' | 'reader' | 'leases' | 'bookOf' | 'stores'
>;

/** What is read, and in which bucket it is. */
export interface ReadVersion {
  bucket: Pick<Bucket, 'id' | 'tenant' | 'name' | 'owner' | 'store'>;
  version: Version;
}

const pauseMs = 1000;
const batch = 100;
const retryMsMin = 2000;
const retryMsMax = 10 * 60_000;

export class Losses {
  readonly #services: LossServices;

  constructor(services: LossServices) {
    this.#services = services;
  }

  /** Rejects with `Refusal` BursarObjectLost; null: nothing of the class can be lost. */
  check(tenant: string, { class: of, seq }: Pick<Version, 'class' | 'seq'>): Promise<void> | null {
    if (!isOwnClass(of) || !this.#allows(tenant, of)) return null;
    return isLost(this.#services.read, seq).then((lost) => {
      if (lost) throw new Refusal('BursarObjectLost');
    });
  }

  /**
   * What a read that failed with `error` is answered: BursarObjectLost, once that is recorded,
   * where no store has it; else the error, or why nobody knows that now.
   */
  async explain(read: ReadVersion, error: unknown): Promise<unknown> {
    const { bucket, version } = read;
    if (!(error instanceof IntegrityError) || error.extentId === null) return error;
    if (!this.#allows(bucket.tenant, version.class)) return error;
    try {
      if (error.store <= localStore && !(await hasCopies(this.#services.read, error.extentId))) {
        return error;
      }
      const lost = decodeManifest(version.manifest).filter(({ id }) => error.extentId?.equals(id));
      const failure = await this.#findFailure(bucket.tenant, lost);
      if (!(failure instanceof IntegrityError) || failure.isRefused) return failure ?? error;
      const isTold = await this.#commit('loseVersion', read, error.extentId);
      if (!isTold && !(await isLost(this.#services.read, version.seq))) {
        // It was deleted or replaced meanwhile: who asks again is told what is there now.
        const place = { bucketId: bucket.id, key: version.key, seq: version.seq };
        const found = await this.#find(place);
        return found === null ? new Refusal('SlowDown', { cause: error }) : error;
      }
    } catch (failure) {
      return failure;
    }
    return new Refusal('BursarObjectLost', { cause: error });
  }

  /** The same of what a walk has found at a place. */
  async explainPlace(place: VersionPlace, error: unknown): Promise<unknown> {
    const found = await this.#find(place);
    return found === null || found === 'damaged' ? error : this.explain(found, error);
  }

  /** What is whole at a place is not lost any more. */
  async noteWhole(place: VersionPlace): Promise<void> {
    if (!(await isLost(this.#services.read, place.seq))) return;
    const found = await this.#find(place);
    if (found !== null) await this.#recover(found);
  }

  /** Looks again and again at what is lost. */
  repeated(onError: (error: unknown) => void): Repeated {
    return new Repeated({
      work: (stopping) => this.lookAgain(Date.now(), stopping),
      pauseMs: () => pauseMs,
      onError,
    });
  }

  /**
   * Looks at what is due by then: what is back is not lost any more. Rejects with the first failure
   * after all were looked at.
   */
  async lookAgain(dueMs: number, stopping?: AbortSignal): Promise<void> {
    const { read, ledger } = this.#services;
    const failures: unknown[] = [];
    for (let isMore = true; isMore && !stopping?.aborted; ) {
      const due = await listDueLosses(read, dueMs, batch);
      isMore = due.length === batch;
      const losses: { seq: number; dueMs: number }[] = [];
      const seqs: number[] = [];
      for (const one of due) {
        if (stopping?.aborted) break;
        const found = await this.#find(one);
        const isBack =
          found &&
          (await this.#recover(found, { isPaced: true }).catch((error) => !failures.push(error)));
        if (found === null) seqs.push(one.seq);
        else if (!isBack) losses.push({ seq: one.seq, dueMs: nextMs(one) });
      }
      if (seqs.length > 0) await ledger.maintain({ kind: 'forgetLosses', seqs });
      if (losses.length > 0) await ledger.maintain({ kind: 'deferLosses', losses });
    }
    if (failures.length > 0) throw failures[0];
  }

  /** Null: there is no such version any more. */
  async #find({ bucketId, key, seq }: VersionPlace): Promise<ReadVersion | null | 'damaged'> {
    const { read, keyring } = this.#services;
    const bucket = await getBucket(read, bucketId);
    if (!bucket) return null;
    const [catalog, place] = [
      { read, keyring },
      { key, seq },
    ];
    try {
      const version =
        (await findVersion(catalog, bucket, place)) ?? (await findHeld(catalog, bucket, place));
      return version ? { bucket, version } : null;
    } catch (error) {
      if (error instanceof IntegrityError) return 'damaged';
      throw error;
    }
  }

  /** Resolves to whether all bytes are there, and it counts as lost no more. */
  async #recover(found: ReadVersion | 'damaged', { isPaced = false } = {}): Promise<boolean> {
    if (found === 'damaged') return false;
    const { bucket, version } = found;
    const runs = decodeManifest(version.manifest);
    const how = { isPaced };
    if ((await this.#findFailure(bucket.tenant, runs, how)) !== null) return false;
    return this.#commit('recoverVersion', found, null);
  }

  #allows(tenant: string, storageClass: string): boolean {
    return mayLose(this.#services.classes.named(tenant, storageClass)?.definition.loss);
  }

  /** Why the runs cannot be read from any store; null: they can. */
  async #findFailure(
    tenant: string,
    runs: readonly ExtentRun[],
    { isPaced = false } = {},
  ): Promise<unknown> {
    const { read, reader, leases } = this.#services;
    const release = leases.hold(runs);
    const inlineBody = (id: Buffer) => readInlineBody(read, id);
    try {
      const rest = isPaced ? new ByteRest() : null;
      for await (const { length } of reader.read({ tenant, runs, inlineBody })) {
        const resting = rest?.after(length);
        if (resting) await resting;
      }
      return null;
    } catch (error) {
      if (error instanceof IntegrityError || error instanceof Refusal) return error;
      throw error;
    } finally {
      release();
    }
  }

  /** Resolves to whether it was not so before. Throws `Refusal` where it cannot be recorded. */
  async #commit(
    kind: 'loseVersion' | 'recoverVersion',
    { bucket, version }: ReadVersion,
    extent: Buffer | null,
  ): Promise<boolean> {
    const { ledger, bookOf } = this.#services;
    const { id: bucketId, tenant, name, owner, store } = bucket;
    const { key, seq, sizeBytes, etag, sha256 } = version;
    const isLosing = kind === 'loseVersion';
    const told = isLosing
      ? { lost: { version: seq, extent: extent?.toString('hex') } }
      : { recovered: { version: seq } };
    const who = { tenant, principal: owner, tokens: [], bucket: { tenant, name, owner } };
    const result = await ledger.commit({
      change: { kind, bucketId, key, seq },
      charge: chargeStored(who, bookOf(store).name, this.#storageBook(bucket, version)),
      record: draftRecord(unasked(tenant, owner), ownOrigin(), {
        action: isLosing ? 'bursar:LoseObject' : 'bursar:RecoverObject',
        ...{ bucket: name, bucketOwner: owner, key, sizeBytes, etag, class: version.class },
        sha256: sha256 && Buffer.from(sha256).toString('hex'),
        change: recordedChange(told),
        status: 200,
      }),
    });
    if (result.ok) return true;
    if (result.code === 'SlowDown') return false;
    throw new Refusal(result.code);
  }

  /** By what its class is charged, should nothing else be in it now; undefined: as the bucket. */
  #storageBook(
    bucket: Pick<Bucket, 'tenant' | 'store'>,
    { class: of }: Pick<Version, 'class'>,
  ): string | undefined {
    if (!isOwnClass(of)) return undefined;
    return joinBooks(storageBooksOf(this.#services, bucket, of).map(({ name }) => name));
  }
}

function nextMs({ tries }: LostVersion): number {
  return Date.now() + Math.min(retryMsMin * 2 ** Math.min(tries, 20), retryMsMax);
}
