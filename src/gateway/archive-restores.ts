// Carries restores from archives through: when the time that a store takes has passed, all of a
// version is read and verified, and can be read from then on; when its days have, no more.
// Invariants: nothing counts as restored that was not read whole; and each step is one commit, so
// what a kill interrupts is done again.
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { recordedChange } from '../audit/recorded-change.ts';
import { listDueRestores, type Restore } from '../catalog/archive-restores.ts';
import { type Bucket, getBucket } from '../catalog/buckets.ts';
import { readInlineBody } from '../catalog/extents.ts';
import { findVersion, type Version } from '../catalog/versions.ts';
import { decodeManifest } from '../core/manifest.ts';
import { Repeated } from '../core/repeated.ts';
import { steadyClock } from '../core/steady-clock.ts';
import type { RequestServices } from './services.ts';

export type ArchiveServices = Pick<
  RequestServices,
  'read' | 'keyring' | 'ledger' | 'reader' | 'leases' | 'losses' | 'dayMs' | 'log'
>;

const pauseMs = 1000;
const batch = 100;
/** When one that could not be read is looked at again. */
const retryMs = 60_000;

export class ArchiveRestores {
  readonly #services: ArchiveServices;

  constructor(services: ArchiveServices) {
    this.#services = services;
  }

  repeated(onError: (error: unknown) => void): Repeated {
    return new Repeated({
      work: (stopping) => this.run(stopping),
      pauseMs: () => pauseMs,
      onError,
    });
  }

  /** Does what is due by now. Rejects with the first failure after all were looked at. */
  async run(stopping?: AbortSignal): Promise<void> {
    const { read, ledger, log } = this.#services;
    if (log.refusal !== null) return;
    let failure: unknown = null;
    for (const one of await listDueRestores(read, steadyClock.nowMs(), batch)) {
      if (stopping?.aborted) return;
      try {
        await this.#step(one, stopping);
      } catch (error) {
        if (stopping?.aborted) return;
        failure ??= error;
        const dueMs = steadyClock.nowMs() + retryMs;
        await ledger.maintain({ kind: 'deferRestore', seq: one.seq, dueMs });
      }
    }
    if (failure !== null) throw failure;
  }

  async #step(restore: Restore, stopping: AbortSignal | undefined): Promise<void> {
    const { read, keyring, ledger } = this.#services;
    const bucket = await getBucket(read, restore.bucketId);
    const version = bucket && (await findVersion({ read, keyring }, bucket, restore));
    if (!bucket || !version) {
      await ledger.maintain({ kind: 'forgetRestore', seq: restore.seq });
    } else if (restore.expiresMs !== null) {
      await this.#commit('endRestore', bucket, version);
    } else {
      await this.#readAll(bucket, version, stopping);
      await this.#commit('finishRestore', bucket, version);
    }
  }

  async #readAll(bucket: Bucket, version: Version, signal: AbortSignal | undefined): Promise<void> {
    const { read, reader, leases, losses } = this.#services;
    const runs = decodeManifest(version.manifest);
    const release = leases.hold(runs);
    try {
      const inlineBody = (id: Buffer) => readInlineBody(read, id);
      const options = { tenant: bucket.tenant, runs, inlineBody, ...(signal && { signal }) };
      for await (const _ of reader.read(options));
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
    await ledger.commit({
      change: isFinished ? { kind, bucketId, key, seq, dayMs } : { kind, bucketId, key, seq },
      charge: null,
      record: draftRecord(unasked(tenant, owner), ownOrigin('bursar serve'), {
        action: isFinished ? 'bursar:CompleteRestore' : 'bursar:EndRestore',
        ...{ bucket: name, bucketOwner: owner, key, sizeBytes, etag, class: of },
        change: recordedChange(told),
        status: 200,
      }),
    });
  }
}
