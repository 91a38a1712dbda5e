// Which records of what changed nothing and cost nothing, refusals that are not charged and deletes
// of what is absent, are one with others of the same minute: those of a sender beyond so many. What
// can be done at no cost must not fill the log, nor may the log lose count of it
// (ledger/record-folds.ts, docs/audit/records.md).
import { monotonicMs } from '../../core/clock.ts';

const minuteMs = 60_000;

/** A tenant has as many records of its own a minute as so many principals. */
const principalsOfTenant = 5;

export class RecordFolding {
  readonly #ownMax: number;
  /** Principals by id, which has a slash, and tenants by name, which has none. */
  readonly #counts = new Map<string, number>();
  #minute = 0;

  /** `ownMax`: how many of a principal's a minute have a record of their own. */
  constructor(ownMax: number) {
    this.#ownMax = ownMax;
  }

  /** Counts a request; shall its record be one with others if it changes nothing? */
  mustFold(principalId: string, tenant: string): boolean {
    const minute = Math.floor(monotonicMs() / minuteMs);
    if (minute !== this.#minute) {
      this.#minute = minute;
      this.#counts.clear();
    }
    const own = this.#count(principalId);
    const all = this.#count(tenant);
    return own > this.#ownMax || all > principalsOfTenant * this.#ownMax;
  }

  #count(name: string): number {
    const count = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, count);
    return count;
  }
}
