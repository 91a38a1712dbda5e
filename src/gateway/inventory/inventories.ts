// Writes the inventories of buckets when they are due, or somebody asks for one. Each is written by
// a thread of its own that is a client of this gateway, with a temporary key of who configured it.
// Invariants: one is written at a time; and what is there already, by its checksum, is not written
// again, so that nothing is kept here of what was done, and a crash costs a repetition. The gateway
// looks for that itself: who configured it may only write there.
import { Worker } from 'node:worker_threads';
import type { Delegation } from '../../authz/identity.ts';
import { linkOfSingle } from '../../authz/token-use.ts';
import { ChainConditions } from '../../authz/tokens/conditions.ts';
import { parseConfigurations } from '../../catalog/configurations.ts';
import { type InventoryConfig, lastDue, namesOfInventory } from '../../catalog/inventory.ts';
import { findNamedEvenly, writerOf } from '../../catalog/versions.ts';
import { isoTime, nowMs } from '../../core/clock.ts';
import { IntegrityError, Refusal } from '../../core/errors.ts';
import { newRequestId } from '../../core/ids.ts';
import { Repeated } from '../../core/repeated.ts';
import { lookUpBucket } from '../s3/bucket-lookup.ts';
import type { RequestServices } from '../services.ts';
import type { InventoryAnswer, InventoryThreadOptions } from './inventory-thread.ts';

type Parts = 'read' | 'keyring' | 'directory' | 'sessions' | 'region' | 'tokenUse';
type BucketParts = 'buckets' | 'mounts' | 'snapshots' | 'grants';

export interface InventoriesOptions extends Pick<RequestServices, Parts | BucketParts> {
  /** Where this gateway listens. */
  endpoint(): string;
  /** Does it write anything now? */
  mayWrite(): boolean;
  /** For the operator. */
  onProblem(text: string): void;
  onError(error: unknown): void;
}

interface Place {
  tenant: string;
  bucket: string;
}

export interface InventoryState {
  /** Since the start of the gateway. */
  state: 'none yet' | 'writing' | 'written' | 'failed';
  endedAt: string | null;
  manifest: string | null;
  objects: number | null;
  problem: string | null;
}

const minuteMs = 60_000;
const lookMs = 60_000;
/** What has failed is tried again after this. */
const retryMs = 3_600_000;
const keyMs = 12 * 3_600_000;
const heapMiB = 256;

const untold: InventoryState = {
  ...{ state: 'none yet', endedAt: null, manifest: null, objects: null, problem: null },
};

interface Known {
  shown: InventoryState;
  /** The time up to which it is written. */
  doneMs: number;
  retryAtMs: number;
  /** One was asked for, and waits for its turn. */
  isAwaited: boolean;
}

const unknown: Known = { shown: untold, doneMs: 0, retryAtMs: 0, isAwaited: false };

export class Inventories {
  readonly #options: InventoriesOptions;
  readonly #known = new Map<string, Known>();
  readonly #repeated: Repeated;
  #worker: Worker | null = null;
  #writing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: InventoriesOptions) {
    this.#options = options;
    this.#repeated = new Repeated({
      work: (stopping) => this.#look(stopping),
      pauseMs: () => lookMs,
      onError: options.onError,
    });
  }

  start(): void {
    this.#repeated.start();
  }

  stateOf(place: Place, id: string): InventoryState {
    return this.#known.get(keyOf(place, id))?.shown ?? untold;
  }

  /** Has it written now, or after what is being written; once, however often it is asked for. */
  begin(place: Place, config: InventoryConfig): void {
    if (this.#known.get(keyOf(place, config.id))?.isAwaited) return;
    void this.#write(place, config, null);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#worker?.terminate();
    await this.#repeated.stop();
    await this.#writing;
  }

  async #look(stopping: AbortSignal): Promise<void> {
    if (!this.#options.mayWrite()) return;
    const rows = await this.#options.read.all<Place & { document: string }>(
      `SELECT b.tenant, b.name AS bucket, s.document FROM bucket_settings s
         JOIN buckets b ON b.id = s.bucket_id WHERE s.name = 'inventory'`,
    );
    for (const { tenant, bucket, document } of rows) {
      for (const config of parseConfigurations<InventoryConfig>(document)) {
        if (stopping.aborted) return;
        const place = { tenant, bucket };
        const known = this.#known.get(keyOf(place, config.id));
        const dueMs = lastDue(config.frequency, nowMs());
        const isDue = config.isEnabled && (known?.doneMs ?? 0) < dueMs;
        if (isDue && (known?.retryAtMs ?? 0) <= nowMs()) {
          const wasWritten = await this.#findWritten(place, config, dueMs);
          if (!wasWritten) await this.#write(place, config, dueMs);
        }
      }
    }
  }

  /**
   * Gives whether it was written already, which it is then known to be. What somebody else has
   * written there is not believed, and so its being there is not told.
   */
  async #findWritten(place: Place, config: InventoryConfig, dueMs: number): Promise<boolean> {
    const { by, destination } = config;
    const { manifest, checksum } = namesOfInventory(config, place.bucket, dueMs);
    try {
      const namer = { tenant: by.slice(0, by.indexOf('/')), id: by };
      const { bucket, at, where } = await lookUpBucket(this.#options, namer, destination);
      if (!bucket || at || where !== undefined) return false;
      const { version } = await findNamedEvenly(this.#options, bucket, { key: checksum });
      if (!version || version.isMarker) return false;
      if (writerOf(bucket.tenant, version) !== by) return false;
      const endedAt = isoTime(version.createdMs);
      const key = keyOf(place, config.id);
      const known = this.#known.get(key) ?? { ...unknown };
      this.#known.set(key, known);
      known.doneMs = Math.max(known.doneMs, dueMs);
      // Else that is shown which is asked for.
      if (!known.isAwaited) known.shown = { ...untold, state: 'written', endedAt, manifest };
      return true;
    } catch (error) {
      // What is wrong with the destination is told by whoever writes to it.
      if (error instanceof Refusal || error instanceof IntegrityError) return false;
      throw error;
    }
  }

  /** `scheduledMs`: when it was due; null: it is asked for. */
  #write(place: Place, config: InventoryConfig, scheduledMs: number | null): Promise<void> {
    const isWanted = scheduledMs === null;
    const key = keyOf(place, config.id);
    const known = this.#known.get(key) ?? { ...unknown };
    this.#known.set(key, known);
    if (isWanted) {
      known.shown = { ...untold, state: 'writing' };
      known.isAwaited = true;
    }
    this.#writing = this.#writing.then(async () => {
      if (this.#isClosed) return;
      if (isWanted) known.isAwaited = false;
      const dueMs = scheduledMs ?? Math.floor(nowMs() / minuteMs) * minuteMs;
      const when = { dueMs, isWanted };
      known.shown = { ...untold, state: 'writing' };
      const answer = await this.#run(place, config, when).catch((error: unknown) => {
        return { failed: error instanceof Error ? error.message : String(error) };
      });
      if (this.#isClosed) return;
      const endedAt = isoTime(nowMs());
      if ('failed' in answer) {
        const { failed: problem } = answer;
        if (!isWanted) known.retryAtMs = nowMs() + retryMs;
        known.shown = { ...untold, state: 'failed', endedAt, problem };
        const name = `the inventory ${config.id} of ${place.tenant}/${place.bucket}`;
        this.#options.onProblem(`${name} was not written: ${problem}`);
        return;
      }
      const { manifest, objects, wasThere } = answer;
      known.doneMs = Math.max(known.doneMs, dueMs);
      const count = wasThere ? null : objects;
      known.shown = { ...untold, state: 'written', endedAt, manifest, objects: count };
    });
    return this.#writing;
  }

  async #run(
    { tenant, bucket: name }: Place,
    config: InventoryConfig,
    when: { dueMs: number; isWanted: boolean },
  ): Promise<InventoryAnswer> {
    const { directory, sessions, region, endpoint, tokenUse } = this.#options;
    const actor = await directory.findActor(config.by);
    if (!actor) return { failed: `${config.by}, who configured it, is not there or not active` };
    const bucket = actor.principal.tenant === tenant ? name : `${tenant}:${name}`;
    const timeMs = nowMs();
    const delegation: Delegation = {
      ids: [`inventory-${newRequestId()}`],
      ...{ scope: null, conditions: new ChainConditions([]), accounts: [], policies: [] },
      expiresAtMs: timeMs + keyMs,
    };
    const { accessKeyId, secretAccessKey, sessionToken } = await sessions.issue({
      ...{ actor, policy: null, issuersAsOf: sessions.issuersAsOf, nowMs: timeMs },
      ...{ durationMs: keyMs, delegation },
    });
    // It is listed, and can be revoked, as any other token of theirs.
    const label = `inventory ${config.id} of ${tenant}/${name}`;
    tokenUse.see([linkOfSingle(actor.principal.id, delegation, timeMs, label)]);
    const workerData: InventoryThreadOptions = {
      job: { config, bucket, name, ...when },
      ...{ endpoint: endpoint(), region },
      credentials: { accessKeyId, secretAccessKey, sessionToken },
    };
    return this.#ask(workerData);
  }

  #ask(workerData: InventoryThreadOptions): Promise<InventoryAnswer> {
    return new Promise((resolve) => {
      const worker = new Worker(new URL('./inventory-thread.js', import.meta.url), {
        workerData,
        resourceLimits: { maxOldGenerationSizeMb: heapMiB },
      });
      this.#worker = worker;
      worker.unref();
      worker.once('message', resolve);
      worker.once('error', (error) => resolve({ failed: error.message }));
      worker.once('exit', () => resolve({ failed: 'its thread ended' }));
    });
  }
}

function keyOf({ tenant, bucket }: Place, id: string): string {
  return `${tenant}/${bucket}/${id}`;
}
