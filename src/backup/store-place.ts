// Backups under a prefix of an S3 bucket. The lock is an object that says until when it holds; its
// holder renews it. Invariant: who has not renewed it in time may not make what it did count, and
// who takes one that has ended waits until two such would have seen each other.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { WorkFailure } from '../core/command-failure.ts';
import type { RemoteStore } from '../tiering/stores/store.ts';
import { ownerName } from '../tiering/stores/store-owner.ts';
import {
  type BackupPlace,
  markerName,
  markerText,
  type PlacedFile,
  type PlaceLock,
  type TakenFile,
} from './place.ts';

const lockName = 'lock';
const lockMs = 5 * 60_000;
const renewMs = 60_000;
/** The wait between taking over an expired lock and checking who holds it. */
const settleMs = 2000;
/** No clock is this wrong: such a lock was not made by a gateway. */
const lockMsMax = 24 * 3600_000;

type Store = RemoteStore & { close(): Promise<void> };

/** `mayMake`: a prefix with nothing in it becomes a place. Throws `WorkFailure`. */
export async function openStorePlace(
  store: Store,
  { url, mayMake }: { url: string; mayMake: boolean },
): Promise<StorePlace> {
  if (!(await store.getObject(markerName))) {
    if (!mayMake) throw new WorkFailure(`${url} has no backups`);
    if (await store.getObject(ownerName)) {
      throw new WorkFailure(`${url} is a store: give backups a prefix of their own`);
    }
    for await (const { name } of store.listObjects('')) {
      throw new WorkFailure(`${url} is not empty (${name}), and no place of backups`);
    }
    await store.putObject(markerName, Buffer.from(markerText));
  }
  return new StorePlace(store, url);
}

export class StorePlace implements BackupPlace {
  readonly name: string;
  readonly workFolder = null;
  readonly #store: Store;

  constructor(store: Store, url: string) {
    this.#store = store;
    this.name = url;
  }

  read(name: string): Promise<Buffer | undefined> {
    return this.#store.getObject(name);
  }

  async write(name: string, bytes: Buffer): Promise<void> {
    await this.#store.putObject(name, bytes);
  }

  take(name: string, _: string, { bytes }: TakenFile): Promise<void> {
    return this.write(name, bytes);
  }

  list(prefix: string): AsyncIterable<PlacedFile> {
    return this.#store.listObjects(prefix);
  }

  remove(name: string): Promise<void> {
    return this.#store.removeObject(name);
  }

  async settle(): Promise<void> {}

  async lock(): Promise<PlaceLock> {
    const holder = randomBytes(16).toString('hex');
    await this.#acquire(holder);
    let untilMs = Date.now() + lockMs;
    const renew = async (): Promise<void> => {
      const found = await this.#readLock();
      if (found?.holder !== holder) untilMs = 0;
      if (Date.now() >= untilMs) return;
      const next = Date.now() + lockMs;
      await this.#store.putObject(lockName, lockOf(holder, next));
      untilMs = next;
    };
    // A renewal that fails is tried again before the lock expires.
    const timer = setInterval(() => void renew().catch(() => {}), renewMs);
    return {
      confirm: async () => {
        await renew();
        if (Date.now() < untilMs) return;
        throw new WorkFailure(`the lock of ${this.name} was lost: run it again`);
      },
      release: async () => {
        clearInterval(timer);
        const found = await this.#readLock();
        if (found?.holder === holder) await this.#store.removeObject(lockName);
      },
    };
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async #acquire(holder: string): Promise<void> {
    const untilMs = Date.now() + lockMs;
    const put = (ifAbsent: boolean) =>
      this.#store.putObject(lockName, lockOf(holder, untilMs), { ifAbsent });
    const found = await this.#readLock();
    if (found && Date.now() < found.untilMs) {
      const until = new Date(found.untilMs).toISOString();
      throw new WorkFailure(`another process works in ${this.name}, until ${until} at least`);
    }
    await put(!found);
    // The store may ignore conditions, or two may take over the lock at once: the last one has it.
    if (found) await sleep(settleMs);
    if ((await this.#readLock())?.holder === holder) return;
    throw new WorkFailure(`another process works in ${this.name}`);
  }

  async #readLock(): Promise<{ holder: string; untilMs: number } | undefined> {
    const bytes = await this.#store.getObject(lockName);
    if (!bytes) return undefined;
    try {
      const { holder, untilMs } = JSON.parse(bytes.toString());
      const isLock = typeof holder === 'string' && Number.isSafeInteger(untilMs);
      if (isLock && untilMs < Date.now() + lockMsMax) return { holder, untilMs };
    } catch {
      // An object that is not a valid lock keeps nobody out.
    }
    return { holder: '', untilMs: 0 };
  }
}

function lockOf(holder: string, untilMs: number): Buffer {
  return Buffer.from(`${JSON.stringify({ holder, untilMs })}\n`);
}
