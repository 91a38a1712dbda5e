// The MACs of accounts, of what each may use, has used and has set aside, and of what buckets keep
// and are charged for by time: in their own rows, so that a charge writes no other page
// (docs/formats/row-seals.md). Invariant: the digests are of the MACs that the tables have, so that
// a row which was put back to what it was before is noticed.
import type { SqlValue } from '../../core/database.ts';
import { KeyedMessage } from '../../core/keyed-message.ts';
import type { Keyring } from '../../core/keyring.ts';
import { DigestBlocks, digestBytes, UnsealedRow } from '../../core/seals/row-seal.ts';
import { accountScope, type SealScope, tenantOfAccount } from '../../core/seals/sealed-tables.ts';

export interface AccountMac {
  epoch: number;
  mac: Uint8Array;
  /** The tenant whose digest includes the account. */
  tenant: string;
}

/** The values as a row has them. */
type StoredMac = { epoch?: unknown; mac?: unknown };

/**
 * All columns of a row but its name; of an account its windows, too, and the third is a token's
 * tenant.
 */
export type AccountContent = readonly SqlValue[];

/** The kind of rows that a MAC is made of. */
export interface MacForm {
  /** The text that the message begins with. */
  purpose: string;
  table: string;
  /** The tenant whose digest includes the MAC of a row. */
  tenantOf: (name: string, content: AccountContent) => string;
  /** Whom it concerns when a row is not authentic. */
  scopeOf: (name: string) => SealScope | null;
  /** What a row is, for people. */
  describe: (name: string) => string;
}

const accountForm: MacForm = {
  purpose: 'bursar/account/v1',
  table: 'quota_accounts',
  tenantOf,
  scopeOf: accountScope,
  describe: (account) => `what ${account} has used`,
};

const message = new KeyedMessage();
const foldedAtOnce = 256;

export class AccountMacs {
  readonly #keyring: Keyring;
  readonly #blocks: DigestBlocks;
  readonly #digests = new Map<string, Uint8Array>();
  /** The MACs, before the transaction, of those accounts that it has changed. */
  readonly #before = new Map<string, Uint8Array>();
  /**
   * MACs that are not in the digest of their tenant yet: to take in many at once costs little more.
   */
  readonly #pending = Buffer.allocUnsafe(foldedAtOnce * digestBytes);
  #pendingBytes = 0;
  #pendingOf = { tenant: '', epoch: 0 };

  constructor(keyring: Keyring) {
    this.#keyring = keyring;
    this.#blocks = new DigestBlocks(keyring);
  }

  /** The digests by tenant; '' has the accounts that belong to no tenant. */
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

  /**
   * The MAC of a row that is about to be written. `before`: the one that it has; undefined: none.
   */
  seal(
    name: string,
    content: AccountContent,
    before: AccountMac | undefined,
    form = accountForm,
  ): AccountMac {
    const epoch = this.#keyring.currentEpoch;
    const mac = this.#describe(form, name, epoch, content).mac();
    const made = { epoch, mac, tenant: form.tenantOf(name, content) };
    if (before) this.#fold(before);
    this.#fold(made);
    return made;
  }

  /** The row is about to be removed. */
  forget(mac: AccountMac): void {
    this.#fold(mac);
  }

  /** Takes the MAC of a row into the digest, whatever it is. */
  count(
    name: string,
    content: AccountContent,
    { epoch, mac }: StoredMac,
    form = accountForm,
  ): void {
    if (!(mac instanceof Uint8Array) || mac.length < digestBytes) return;
    if (!this.#keyring.epochs.includes(Number(epoch))) return;
    this.#fold({ epoch: Number(epoch), mac, tenant: form.tenantOf(name, content) });
  }

  /** Throws UnsealedRow unless the row is what was written. */
  verify(name: string, content: AccountContent, stored: StoredMac, form = accountForm): AccountMac {
    const { epoch, mac } = stored;
    const isKnown = typeof epoch === 'number' && this.#keyring.epochs.includes(epoch);
    const hasBytes = content.some((value) => value instanceof Uint8Array);
    if (isKnown && !hasBytes && mac instanceof Uint8Array) {
      if (this.#describe(form, name, epoch, content).matches(mac)) {
        return { epoch, mac, tenant: form.tenantOf(name, content) };
      }
    }
    const scope = form.scopeOf(name);
    const place = { table: form.table, tenant: scope?.tenant ?? '', row: name };
    const what = `${form.describe(name)} is not what was stored`;
    throw new UnsealedRow({ ...place, fault: 'altered', scope, what });
  }

  /** To be called after each commit. */
  settle(): void {
    this.#foldPending();
    this.#before.clear();
  }

  /** To be called after each rollback. */
  discard(): void {
    this.#pendingBytes = 0;
    for (const [tenant, digest] of this.#before) this.#digests.set(tenant, digest);
    this.#before.clear();
  }

  #describe(
    { purpose }: MacForm,
    name: string,
    epoch: number,
    content: AccountContent,
  ): KeyedMessage {
    return message.begin(this.#keyring.sealKey(epoch), purpose).text(name).texts(content);
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
    if (!this.#before.has(tenant)) this.#before.set(tenant, new Uint8Array(digest));
    this.#blocks.fold(digest, epoch, this.#pending.subarray(0, this.#pendingBytes));
    this.#pendingBytes = 0;
  }
}

function tenantOf(account: string, [, , tokenTenant]: AccountContent): string {
  if (account.startsWith('token:')) return String(tokenTenant ?? '');
  return tenantOfAccount(account) ?? '';
}
