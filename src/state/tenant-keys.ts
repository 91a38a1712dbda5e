// The secrets of tenants as the ledger's feed leaves them, which the keyring of this thread derives
// keys from. Invariant: a tenant that was answered for has its secret here, and one that is gone
// has none.
import { TenantSecrets } from '../authz/tenant-keys.ts';
import type { Reader } from '../core/database.ts';
import type { Keyring } from '../core/keyring.ts';
import type { Sealer } from '../core/sealing.ts';
import type { LedgerEvent } from '../ledger/events.ts';

export interface TenantKeysOptions {
  read: Reader;
  keyring: Keyring;
  sealer: Sealer;
}

export class TenantKeys {
  readonly #read: Reader;
  readonly #keyring: Keyring;
  readonly #secrets: TenantSecrets;
  #newestSeq: number;

  private constructor(options: TenantKeysOptions, secrets: TenantSecrets, newestSeq: number) {
    this.#read = options.read;
    this.#keyring = options.keyring;
    this.#secrets = secrets;
    this.#newestSeq = newestSeq;
    options.keyring.useSecrets(secrets.find);
  }

  static async load(options: TenantKeysOptions): Promise<TenantKeys> {
    const { read, sealer } = options;
    const secrets = await TenantSecrets.read(read, sealer);
    const newest = await read.get<{ idx: number | null }>('SELECT max(idx) AS idx FROM records');
    return new TenantKeys(options, secrets, newest?.idx ?? -1);
  }

  /**
   * Log index up to which a journal must have told of tenants, so that what is encrypted now can be
   * read after a rebuild.
   */
  get newestSeq(): number {
    return this.#newestSeq;
  }

  async apply(event: LedgerEvent, index: number): Promise<void> {
    if (event.kind === 'tenant' && event.isGone) {
      this.#secrets.forget(event.name);
      this.#keyring.forgetSecret(event.name);
    }
    if (event.kind !== 'tenantKey') return;
    await this.#secrets.refresh(this.#read, event.name);
    this.#newestSeq = Math.max(this.#newestSeq, index);
  }
}
