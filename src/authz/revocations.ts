// Which tokens were revoked, in memory as the tables say. Invariant: who revokes an id revokes all
// below it: whatever was made from it bears its id, or begins with it and a dot.
import { nowMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import type { AuthzChange, Follower } from './changes.ts';

interface Row {
  id: string;
  expiresMs: number | null;
}

const select = 'SELECT id, expires_ms AS expiresMs FROM revocations';
const forgetEachMs = 3_600_000;

export class Revocations implements Follower {
  readonly #read: Reader;
  /** By id: when what was revoked ends by itself; null: nobody knows. */
  readonly #ends = new Map<string, number | null>();
  #forgetAtMs = nowMs() + forgetEachMs;

  private constructor(read: Reader) {
    this.#read = read;
  }

  static async load(read: Reader): Promise<Revocations> {
    const revocations = new Revocations(read);
    const sql = `${select} WHERE expires_ms IS NULL OR expires_ms > ?`;
    revocations.#add(await read.all<Row>(sql, nowMs()));
    return revocations;
  }

  /** Was one of a chain's ids revoked, from its first link down, or what those lie below? */
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

  async follow(change: AuthzChange): Promise<() => void | Promise<void>> {
    switch (change.type) {
      case 'revokeToken':
        return async () =>
          this.#add(await this.#read.all<Row>(`${select} WHERE id = ?`, change.id));
      case 'updateAccessKey':
      case 'deleteAccessKey':
        return () => this.#addAskedWith(change.id);
      case 'updatePublicKey':
      case 'deletePublicKey': {
        const sql = 'SELECT id FROM access_keys WHERE thumbprint = ?';
        const key = await this.#read.get<{ id: string }>(sql, change.thumbprint);
        return async () => key && this.#addAskedWith(key.id);
      }
      default:
        return () => {};
    }
  }

  /** With an access key goes what was asked for with it. */
  async #addAskedWith(accessKeyId: string): Promise<void> {
    const sql = `${select} WHERE id IN (SELECT id FROM tokens WHERE access_key = ?)`;
    this.#add(await this.#read.all<Row>(sql, accessKeyId));
  }

  #add(rows: readonly Row[]): void {
    this.#forgetExpired();
    for (const { id, expiresMs } of rows) this.#ends.set(id, expiresMs);
  }

  /** What has expired is refused for that. */
  #forgetExpired(): void {
    const now = nowMs();
    if (now < this.#forgetAtMs) return;
    this.#forgetAtMs = now + forgetEachMs;
    for (const [id, endMs] of this.#ends) {
      if (endMs !== null && endMs < now) this.#ends.delete(id);
    }
  }
}
