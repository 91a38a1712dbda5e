// The MACs of accounts: of what each may use, has used and has set aside, in its own row, so that a
// charge writes no other page (docs/formats/row-seals.md). Invariant: the digests are of the MACs that
// the table has, so that a row which was put back to what it was before is noticed.
import type { SqlValue } from '../../core/database.ts';
import { IntegrityError } from '../../core/errors.ts';
import { KeyedMessage } from '../../core/keyed-message.ts';
import type { Keyring } from '../../core/keyring.ts';
import { DigestBlocks, digestBytes, UnsealedRow } from '../../core/seals/row-seal.ts';
import { accountScope } from '../../core/seals/sealed-tables.ts';

export interface AccountMac {
  epoch: number;
  mac: Uint8Array;
  /** In whose digest it is. */
  tenant: string;
}

/** As a row has them. */
type StoredMac = { epoch?: unknown; mac?: unknown };

/** All columns of an account but its name, and its windows. The third is a token's tenant. */
export type AccountContent = readonly SqlValue[];

const message = new KeyedMessage();
const foldedAtOnce = 256;

export class AccountMacs {
  readonly #keyring: Keyring;
  readonly #blocks: DigestBlocks;
  readonly #digests = new Map<string, Uint8Array>();
  /** Of those that the transaction has changed: what they were before. */
  readonly #before = new Map<string, Uint8Array>();
  /** MACs that are not in the digest of their tenant yet: to take in many at once costs little more. */
  readonly #pending = Buffer.allocUnsafe(foldedAtOnce * digestBytes);
  #pendingBytes = 0;
  #pendingOf = { tenant: '', epoch: 0 };

  constructor(keyring: Keyring) {
    this.#keyring = keyring;
    this.#blocks = new DigestBlocks(keyring);
  }

  /** By tenant; '' has those that are no tenant's. */
  get digests(): ReadonlyMap<string, Uint8Array> {
    this.#foldPending();
    return this.#digests;
  }

  /** The digests of those whose accounts the transaction has changed. */
  *changed(): Iterable<[tenant: string, digest: Uint8Array]> {
    this.#foldPending();
    for (const tenant of this.#before.keys()) {
      yield [tenant, this.#digests.get(tenant) as Uint8Array];
    }
  }

  /** The MAC of an account that is about to be written. `before`: the one that it has; undefined: none. */
  seal(account: string, content: AccountContent, before: AccountMac | undefined): AccountMac {
    const epoch = this.#keyring.currentEpoch;
    const mac = this.#describe(account, epoch, content).mac();
    const made = { epoch, mac, tenant: tenantOf(account, content) };
    if (before) this.#fold(before);
    this.#fold(made);
    return made;
  }

  /** The account is about to be removed. */
  forget(mac: AccountMac): void {
    this.#fold(mac);
  }

  /** Takes the MAC of a row into the digest, whatever it is. */
  count(account: string, content: AccountContent, { epoch, mac }: StoredMac): void {
    if (!(mac instanceof Uint8Array) || mac.length < digestBytes) return;
    if (!this.#keyring.epochs.includes(Number(epoch))) return;
    this.#fold({ epoch: Number(epoch), mac, tenant: tenantOf(account, content) });
  }

  /** Throws UnsealedRow unless the account is what was written. */
  verify(account: string, content: AccountContent, stored: StoredMac): AccountMac {
    const { epoch, mac } = stored;
    const isKnown = typeof epoch === 'number' && this.#keyring.epochs.includes(epoch);
    const hasBytes = content.some((value) => value instanceof Uint8Array);
    if (isKnown && !hasBytes && mac instanceof Uint8Array) {
      if (this.#describe(account, epoch, content).matches(mac)) {
        return { epoch, mac, tenant: tenantOf(account, content) };
      }
    }
    const scope = accountScope(account);
    const place = { table: 'quota_accounts', tenant: scope?.tenant ?? '', row: account };
    const what = `what ${account} has used is not what was stored`;
    throw new UnsealedRow({ ...place, fault: 'altered', scope, what });
  }

  /** After each commit. */
  settle(): void {
    this.#foldPending();
    this.#before.clear();
  }

  /** After each rollback. */
  discard(): void {
    this.#pendingBytes = 0;
    for (const [tenant, digest] of this.#before) this.#digests.set(tenant, digest);
    this.#before.clear();
  }

  #describe(account: string, epoch: number, content: AccountContent): KeyedMessage {
    message.begin(this.#keyring.sealKey(epoch), 'bursar/account/v1').text(account);
    for (const value of content) {
      if (value instanceof Uint8Array) throw new IntegrityError('an account with bytes');
      // Amounts may be more than a number holds.
      message.text(value === null ? null : String(value));
    }
    return message;
  }

  #fold({ epoch, mac, tenant }: AccountMac): void {
    const of = this.#pendingOf;
    const isFull = this.#pendingBytes === this.#pending.length;
    if (isFull || of.tenant !== tenant || of.epoch !== epoch) {
      this.#foldPending();
      this.#pendingOf = { tenant, epoch };
    }
    this.#pending.set(mac.subarray(0, digestBytes), this.#pendingBytes);
    this.#pendingBytes += digestBytes;
  }

  #foldPending(): void {
    if (this.#pendingBytes === 0) return;
    const { tenant, epoch } = this.#pendingOf;
    let digest = this.#digests.get(tenant);
    if (!digest) {
      digest = new Uint8Array(digestBytes);
      this.#digests.set(tenant, digest);
    }
    if (!this.#before.has(tenant)) this.#before.set(tenant, Uint8Array.from(digest));
    this.#blocks.fold(digest, epoch, this.#pending.subarray(0, this.#pendingBytes));
    this.#pendingBytes = 0;
  }
}

function tenantOf(account: string, [, , tokenTenant]: AccountContent): string {
  if (account.startsWith('token:')) return String(tokenTenant ?? '');
  return accountScope(account)?.tenant ?? '';
}
