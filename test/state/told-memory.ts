// Memory that is told of changes as the ledger's feed tells it: one change after the other, each
// with the events that it has caused, without the ledger's thread.

import type { Tx } from '#bursar/core/database.js';
import type { ErrorCode } from '#bursar/core/errors.js';
import type { Followed } from '#bursar/core/loads.js';
import { type IdentityChange, identityCommandOf } from '#bursar/ledger/commands/identities.js';
import { eventsOf } from '#bursar/ledger/commands/index.js';
import type { LedgerEvent } from '#bursar/ledger/events.js';

export type Verdict = { ok: true } | { ok: false; code: ErrorCode };

interface Projection {
  apply(event: LedgerEvent, index: number): void | Promise<void>;
}

export class ToldMemory implements Followed {
  index = 0;
  readonly projections: Projection[] = [];
  #last: Promise<unknown> = Promise.resolve();

  /** Applies a change as the ledger does, and tells of it before it resolves. */
  change(
    tx: Tx,
    identity: IdentityChange,
    commit: () => Promise<Verdict> = () =>
      identityCommandOf(identity).apply(tx, structuredClone(identity), { timeMs: 0, seq: 0 }),
  ): Promise<Verdict> {
    const made = this.#last.then(async () => {
      const events = await eventsOf(tx, identity);
      const verdict = await commit();
      if (verdict.ok) await this.tell(...(events ?? []));
      return verdict;
    });
    this.#last = made.catch(() => {});
    return made;
  }

  async tell(...events: LedgerEvent[]): Promise<void> {
    const index = this.index + 1;
    for (const event of events) {
      for (const projection of this.projections) await projection.apply(event, index);
    }
    this.index = index;
  }
}
