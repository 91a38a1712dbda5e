// Which seals there are of each tenant: a digest of them, sealed, so that a row that was removed or
// put back together with its seal is noticed. A head that was put back is noticed by the digest of
// all heads, which goes with the log's newest record (ledger/sealed-state.ts).
import type { Reader, Tx } from '../database.ts';
import { KeyedMessage } from '../keyed-message.ts';
import type { Keyring } from '../keyring.ts';
import { Sealer } from '../sealing.ts';
import { DigestBlocks, digestBytes, type Unsealed, UnsealedRow } from './row-seal.ts';

const message = new KeyedMessage();

export class SealHeads {
  readonly #keyring: Keyring;
  readonly #sealer: Sealer;
  readonly #blocks: DigestBlocks;
  /** null: the head does not open. */
  readonly #digests = new Map<string, Uint8Array | null>();
  /** The digest of all heads. */
  readonly digest: Uint8Array = new Uint8Array(digestBytes);
  readonly #settled = new Uint8Array(digestBytes);

  private constructor(keyring: Keyring) {
    this.#keyring = keyring;
    this.#sealer = new Sealer(keyring, (epoch) => keyring.sealHeadKey(epoch));
    this.#blocks = new DigestBlocks(keyring);
  }

  static async read(read: Reader, keyring: Keyring): Promise<SealHeads> {
    const heads = new SealHeads(keyring);
    const rows = await read.all<{ tenant: string; sealed: Uint8Array }>(
      'SELECT tenant, digest AS sealed FROM seal_heads',
    );
    for (const { tenant, sealed } of rows) {
      const digest = heads.#open(tenant, sealed);
      heads.#digests.set(tenant, digest);
      if (digest) heads.#fold(tenant, sealed);
    }
    heads.settle();
    return heads;
  }

  get tenants(): Iterable<string> {
    return this.#digests.keys();
  }

  /** Returns whether the seals of a tenant are those that its head covers. */
  isOf(tenant: string, digest: Uint8Array): boolean {
    const known = this.#digests.get(tenant);
    if (known === null) return false;
    const zero = digest.every((byte) => byte === 0);
    return known ? Buffer.compare(known, digest) === 0 : zero;
  }

  /**
   * Changes a tenant's head, in the transaction that changed its seals. Throws UnsealedRow where it
   * is not what was sealed.
   */
  async change(tx: Tx, tenant: string, change: Uint8Array): Promise<void> {
    const sql = 'SELECT digest AS sealed FROM seal_heads WHERE tenant = ?';
    const before = (await tx.get<{ sealed: Uint8Array }>(sql, tenant))?.sealed;
    const digest = before ? this.#open(tenant, before) : new Uint8Array(digestBytes);
    if (!digest) throw new UnsealedRow(describeReplaced(tenant));
    for (const [i, byte] of change.entries()) digest[i] = (digest[i] as number) ^ byte;
    const sealed = this.#sealer.seal(digest, contextOf(tenant));
    await tx.run(
      `INSERT INTO seal_heads VALUES (?, ?)
         ON CONFLICT (tenant) DO UPDATE SET digest = excluded.digest`,
      ...[tenant, sealed],
    );
    if (before) this.#fold(tenant, before);
    this.#fold(tenant, sealed);
  }

  /** To be called after each commit. */
  settle(): void {
    this.#settled.set(this.digest);
  }

  /** To be called after each rollback. */
  discard(): void {
    this.digest.set(this.#settled);
  }

  #open(tenant: string, sealed: Uint8Array): Uint8Array | null {
    try {
      return this.#sealer.open(sealed, contextOf(tenant));
    } catch {
      return null;
    }
  }

  #fold(tenant: string, sealed: Uint8Array): void {
    const epoch = ((sealed[1] as number) << 8) | (sealed[2] as number);
    const mac = computeHeadMac(this.#keyring, epoch, { tenant, sealed });
    this.#blocks.fold(this.digest, epoch, mac.subarray(0, digestBytes));
  }
}

/** Computes the MAC as which a head counts in the digest of all heads. */
export function computeHeadMac(
  keyring: Keyring,
  epoch: number,
  { tenant, sealed }: { tenant: string; sealed: Uint8Array },
): Buffer {
  message.begin(keyring.sealHeadKey(epoch), 'bursar/seal-head/v1');
  return message.text(tenant).bytes(sealed).mac();
}

/** All rows of a tenant are in order, and yet not those that there were last. */
export function describeReplaced(tenant: string): Unsealed {
  const what = `what there is of tenant ${tenant} is not what was stored last`;
  return { table: '', tenant, row: '', fault: 'replaced', scope: { tenant }, what };
}

function contextOf(tenant: string): string {
  return `seals:${tenant}`;
}
