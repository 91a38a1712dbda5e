// Carries restores from archives through: when the time that a store takes has passed, all of a
// version is read and verified, and can be read from then on; when its days have, no more.
// Invariants: nothing counts as restored that was not read whole; and each step is one commit, so
// what a kill interrupts is done again.
import { setTimeout as sleep } from 'node:timers/promises';
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { recordedChange } from '../audit/recorded-change.ts';
import { type Bucket, getBucket } from '../catalog/buckets.ts';
import { readInlineBody } from '../catalog/extents.ts';
import { findHeld } from '../catalog/held-rows.ts';
import { isLost } from '../catalog/lost-versions.ts';
import {
  listEndingRestores,
  listWaitingRestores,
  type Restore,
  type WaitingRestore,
} from '../catalog/restore-rows.ts';
import { findVersion, type Version } from '../catalog/versions.ts';
import { monotonicMs } from '../core/clock.ts';
import { Refusal } from '../core/errors.ts';
import { decodeManifest } from '../core/manifest.ts';
import { Repeated } from '../core/repeated.ts';
import { ByteRest } from '../core/slice-pace.ts';
import { steadyClock } from '../core/steady-clock.ts';
import { mayHaveCopies } from '../tiering/extent-copies.ts';
import { recallDelayOf } from './s3/objects/written-class.ts';
import type { RequestServices } from './services.ts';

export type ArchiveServices = Pick<
  RequestServices,
  | ('read' | 'keyring' | 'ledger' | 'reader' | 'leases' | 'losses' | 'dayMs' | 'log')
  | ('classes' | 'stores' | 'bookOf')
>;

const pauseMs = 1000;
const batch = 100;
/** Tenants whose restores are read at once. */
const lanesMax = 4;
/** After this a tenant's lane begins no other restore. Milliseconds. */
const turnMs = 10_000;
/** When one that could not be read is looked at again. */
const retryMs = 60_000;

export class ArchiveRestores {
  readonly #services: ArchiveServices;
  /** The tenants of which something is read now. */
  readonly #lanes = new Map<string | null, Promise<void>>();
  /** The tenants that have something due, in the order in which it is their turn. */
  readonly #turns = new Set<string | null>();

  constructor(services: ArchiveServices) {
    this.#services = services;
  }

  repeated(onError: (error: unknown) => void): Repeated {
    return new Repeated({
      work: (stopping) => this.run(onError, stopping),
      pauseMs: () => pauseMs,
      onError,
    });
  }

  /** Does what is due by now, and what gets due meanwhile. Each failure is told at once. */
  async run(onError: (error: unknown) => void, stopping?: AbortSignal): Promise<void> {
    const { read, log } = this.#services;
    if (log.refusal !== null) return;
    const attempt = (one: Restore) => this.#attempt(one, onError, stopping);
    try {
      do {
        const nowMs = steadyClock.nowMs();
        for (const one of await listEndingRestores(read, nowMs, batch)) {
          if (stopping?.aborted) return;
          await attempt(one);
        }
        if (this.#lanes.size < lanesMax) {
          this.#fillLanes(await listWaitingRestores(read, nowMs, batch), attempt);
        }
        if (this.#lanes.size > 0) await this.#pause(stopping);
      } while (this.#lanes.size > 0 && !stopping?.aborted && log.refusal === null);
    } finally {
      await Promise.all(this.#lanes.values());
    }
  }

  /**
   * One after the other of a tenant, and of a few tenants at once. A tenant whose turn has ended is
   * the last in the order, so none waits for more than one turn of each other.
   */
  #fillLanes(due: readonly WaitingRestore[], attempt: (one: Restore) => Promise<void>): void {
    const tenants = new Set(due.map((one) => one.tenant));
    for (const tenant of this.#turns) if (!tenants.has(tenant)) this.#turns.delete(tenant);
    for (const tenant of tenants) this.#turns.add(tenant);
    for (const tenant of this.#turns) {
      if (this.#lanes.size >= lanesMax) return;
      if (this.#lanes.has(tenant)) continue;
      const own = due.filter((one) => one.tenant === tenant).slice(0, batch);
      const ending = this.#takeTurn(own, attempt).finally(() => {
        this.#lanes.delete(tenant);
        this.#turns.delete(tenant);
        this.#turns.add(tenant);
      });
      this.#lanes.set(tenant, ending);
    }
  }

  async #takeTurn(
    own: readonly WaitingRestore[],
    attempt: (one: Restore) => Promise<void>,
  ): Promise<void> {
    const untilMs = monotonicMs() + turnMs;
    for (const one of own) {
      await attempt(one);
      if (monotonicMs() >= untilMs) return;
    }
  }

  /** Until a lane has ended, or the time has passed. */
  async #pause(stopping: AbortSignal | undefined): Promise<void> {
    const waking = new AbortController();
    const signal = stopping ? AbortSignal.any([stopping, waking.signal]) : waking.signal;
    const waiting = sleep(pauseMs, undefined, { signal }).catch(() => undefined);
    await Promise.race([waiting, ...this.#lanes.values()]);
    waking.abort();
  }

  /** What fails is put off; what cannot be is tried again after a pause. Never rejects. */
  async #attempt(
    one: Restore,
    onError: (error: unknown) => void,
    stopping: AbortSignal | undefined,
  ): Promise<void> {
    if (stopping?.aborted || this.#services.log.refusal !== null) return;
    try {
      await this.#step(one, stopping);
    } catch (error) {
      if (stopping?.aborted) return;
      onError(error);
      await this.#defer(one).catch(async (failure) => {
        onError(failure);
        await sleep(pauseMs, undefined, stopping && { signal: stopping }).catch(() => undefined);
      });
    }
  }

  #defer({ seq }: Restore, pauseMs = retryMs): Promise<unknown> {
    const dueMs = steadyClock.nowMs() + pauseMs;
    return this.#services.ledger.maintain({ kind: 'deferRestore', seq, dueMs });
  }

  async #step(restore: Restore, stopping: AbortSignal | undefined): Promise<void> {
    const { read, ledger } = this.#services;
    const bucket = await getBucket(read, restore.bucketId);
    const version = bucket && (await this.#find(bucket, restore));
    if (!bucket || !version) {
      await ledger.maintain({ kind: 'forgetRestore', seq: restore.seq });
    } else if (restore.expiresMs !== null) {
      await this.#commit('endRestore', bucket, version);
    } else if (await isLost(read, version.seq)) {
      await this.#defer(restore);
    } else if (!(await this.#isRecalled(bucket, restore, version, stopping))) {
      const delayMs = recallDelayOf(this.#services, bucket.tenant, version.class);
      await this.#defer(restore, delayMs || retryMs);
    } else {
      await this.#readAll(bucket, version, stopping);
      await this.#commit('finishRestore', bucket, version);
    }
  }

  /**
   * Whether all of it can be read where its store is an archive of S3; what was not asked for yet
   * is. It is asked for in order, so where the last one is on its way, all are.
   */
  async #isRecalled(
    bucket: Bucket,
    { days, tier }: Restore,
    version: Version,
    stopping: AbortSignal | undefined,
  ): Promise<boolean> {
    const { reader, losses } = this.#services;
    const runs = decodeManifest(version.manifest).filter(mayHaveCopies);
    const last = runs.at(-1);
    try {
      if (last && (await reader.findArchived(last)).state === 'coming') return false;
      let isThere = true;
      for (const run of runs) {
        stopping?.throwIfAborted();
        const { archive, state } = await reader.findArchived(run);
        if (state === 'there') continue;
        isThere = false;
        // What is there is read, and counts as restored, some time after S3 says so.
        if (state === 'archived') await archive?.recall(run.id, { days: days + 1, tier });
      }
      return isThere;
    } catch (error) {
      throw await losses.explain({ bucket, version }, error);
    }
  }

  /** Also what has ended, and is held. */
  async #find(bucket: Bucket, place: Restore): Promise<Version | undefined> {
    const { read, keyring } = this.#services;
    const catalog = { read, keyring };
    return (await findVersion(catalog, bucket, place)) ?? (await findHeld(catalog, bucket, place));
  }

  async #readAll(bucket: Bucket, version: Version, signal: AbortSignal | undefined): Promise<void> {
    const { read, reader, leases, losses } = this.#services;
    const runs = decodeManifest(version.manifest);
    const release = leases.hold(runs);
    const rest = new ByteRest();
    try {
      const inlineBody = (id: Buffer) => readInlineBody(read, id);
      const options = { tenant: bucket.tenant, runs, inlineBody, ...(signal && { signal }) };
      for await (const { length } of reader.read(options)) {
        const resting = rest.after(length);
        if (resting) await resting;
      }
    } catch (error) {
      throw await losses.explain({ bucket, version }, error);
    } finally {
      release();
    }
  }

  async #commit(
    kind: 'finishRestore' | 'endRestore',
    { id: bucketId, tenant, name, owner }: Bucket,
    { key, seq, sizeBytes, etag, class: of }: Version,
  ): Promise<void> {
    const { ledger, dayMs } = this.#services;
    const isFinished = kind === 'finishRestore';
    const told = isFinished ? { restored: { version: seq } } : { restoreEnded: { version: seq } };
    const result = await ledger.commit({
      change: isFinished ? { kind, bucketId, key, seq, dayMs } : { kind, bucketId, key, seq },
      charge: null,
      record: draftRecord(unasked(tenant, owner), ownOrigin('bursar serve'), {
        action: isFinished ? 'bursar:CompleteRestore' : 'bursar:EndRestore',
        ...{ bucket: name, bucketOwner: owner, key, sizeBytes, etag, class: of },
        change: recordedChange(told),
        status: 200,
      }),
    });
    // It was deleted or ended meanwhile: the next look says so.
    if (!result.ok && result.code !== 'SlowDown') throw new Refusal(result.code);
  }
}
