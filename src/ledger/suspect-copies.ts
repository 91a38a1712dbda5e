// What readers found of the copies of extents: one that is not what was written, or is missing, is
// suspect from then on, which a record tells, and is made again (copy-worker.ts). It is gathered
// for a moment, so that a disk that has lost all is told in few records. Invariant: nobody who
// reads waits for it; what a crash leaves untold is found again by whoever reads it next.

import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { recordedChange } from '../audit/recorded-change.ts';
import { listGood, listReadable, type NamedCopy } from '../catalog/extent-copies.ts';
import type { Reader } from '../core/database.ts';
import type { IntegrityError } from '../core/errors.ts';
import { defaultTenant, rootPrincipal } from '../core/principal.ts';
import type { ExtentCopies } from '../tiering/extent-copies.ts';
import type { Change } from './commands/index.ts';
import type { Commit } from './commit.ts';
import type { Ledger } from './ledger.ts';

/** How long what was found waits for more. */
const gatherMs = 200;
/** How many copies one record names. */
export const copiesPerRecord = 100;
/** What is found meanwhile is found again. */
const waitingMax = 10_000;

interface Found extends NamedCopy {
  found: string;
}

export interface SuspectCopiesOptions {
  read: Reader;
  ledger: Pick<Ledger, 'commit'>;
  stores: { nameOf(store: number): string; isArchive(store: number): boolean };
}

export class SuspectCopies implements ExtentCopies {
  readonly #options: SuspectCopiesOptions;
  readonly #waiting = new Map<string, Found>();
  #timer: NodeJS.Timeout | null = null;
  #telling: Promise<void> = Promise.resolve();

  constructor(options: SuspectCopiesOptions) {
    this.#options = options;
  }

  async list(id: Buffer): Promise<readonly number[]> {
    const { read, stores } = this.#options;
    const all = await listReadable(read, id);
    return all.sort((a, b) => Number(stores.isArchive(a)) - Number(stores.isArchive(b)));
  }

  async good(id: Buffer): Promise<readonly number[]> {
    const { read, stores } = this.#options;
    return (await listGood(read, id)).filter((store) => !stores.isArchive(store));
  }

  suspect(id: Buffer, store: number, { kind }: IntegrityError): void {
    if (this.#waiting.size >= waitingMax) return;
    this.#waiting.set(`${store}/${id.toString('hex')}`, { id, store, found: kind });
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#telling = this.#telling.then(() => this.#tell());
    }, gatherMs).unref();
  }

  /** Tells the rest. */
  async close(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#telling = this.#telling.then(() => this.#tell());
    await this.#telling;
  }

  async #tell(): Promise<void> {
    const found = [...this.#waiting.values()];
    this.#waiting.clear();
    try {
      for (const [store, copies] of await this.#known(found)) {
        for (let i = 0; i < copies.length; i += copiesPerRecord) {
          const some = copies.slice(i, i + copiesPerRecord);
          const change = { kind: 'suspectCopies', copies: some } as const;
          await this.#options.ledger.commit(this.#commitOf(change, store, some));
        }
      }
    } catch {
      // The ledger takes nothing now: whoever reads it next finds the same.
    }
  }

  /** Those that counted as good until now, by store. */
  async #known(found: readonly Found[]): Promise<Map<number, Found[]>> {
    const known = new Map<number, Found[]>();
    for (const one of found) {
      if (!(await listGood(this.#options.read, one.id)).includes(one.store)) continue;
      const some = known.get(one.store);
      if (some) some.push(one);
      else known.set(one.store, [one]);
    }
    return known;
  }

  #commitOf(change: Change, store: number, copies: readonly Found[]): Commit {
    const extents = copies.map(({ id, found }) => ({ id: Buffer.from(id).toString('hex'), found }));
    return copyCommit(change, {
      action: 'bursar:SuspectCopy',
      store: this.#options.stores.nameOf(store),
      told: { extents },
    });
  }
}

/** A commit of the gateway's own about copies in a store. */
export function copyCommit(
  change: Change,
  { action, store, told }: { action: string; store: string; told: object },
): Commit {
  const record = draftRecord(unasked(defaultTenant, rootPrincipal), ownOrigin('bursar serve'), {
    action,
    target: `stores/${store}`,
    change: recordedChange(told),
    status: 200,
  });
  return { change, charge: null, record };
}
