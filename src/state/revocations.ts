// Which tokens were revoked, kept in memory as the tables say. Invariant: revoking an id revokes
// everything below it: whatever was made from it carries its id, or an id that begins with it and a
// dot.
import { nowMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import type { LedgerEvent, RevokedToken } from '../ledger/events.ts';

const forgetEachMs = 3_600_000;

export class Revocations {
  /** By id: when the revoked token expires by itself; null: that is not known. */
  readonly #ends = new Map<string, number | null>();
  #forgetAtMs = nowMs() + forgetEachMs;

  static async load(read: Reader): Promise<Revocations> {
    const revocations = new Revocations();
    const sql = `SELECT id, expires_ms AS expiresMs FROM revocations
      WHERE expires_ms IS NULL OR expires_ms > ?`;
    revocations.#add(await read.all<RevokedToken>(sql, nowMs()));
    return revocations;
  }

  /**
   * Whether one of a chain's ids, from its first link down, or one that these lie below, was
   * revoked.
   */
  has(ids: readonly string[]): boolean {
    if (this.#ends.size === 0) return false;
    if (ids.some((id) => this.#ends.has(id))) return true;
    // A child's id begins with its parent's, so what is left is what the first lies below.
    const [first = ''] = ids;
    for (let dot = first.indexOf('.'); dot >= 0; dot = first.indexOf('.', dot + 1)) {
      if (this.#ends.has(first.slice(0, dot))) return true;
    }
    return false;
  }

  apply(event: LedgerEvent): void {
    if (event.kind === 'revocation') this.#add(event.tokens);
  }

  #add(tokens: readonly RevokedToken[]): void {
    this.#forgetExpired();
    for (const { id, expiresMs } of tokens)
      this.#ends.set(id, laterOf(this.#ends.get(id), expiresMs));
  }

  /** An expired token is refused because it has expired. */
  #forgetExpired(): void {
    const now = nowMs();
    if (now < this.#forgetAtMs) return;
    this.#forgetAtMs = now + forgetEachMs;
    for (const [id, endMs] of this.#ends) {
      if (endMs !== null && endMs < now) this.#ends.delete(id);
    }
  }
}

/** What is revoked twice stays refused until the later time. */
function laterOf(known: number | null | undefined, endMs: number | null): number | null {
  if (known === undefined || endMs === null) return endMs;
  return known === null ? null : Math.max(known, endMs);
}
