// The tenants' data keys, which authenticate stored bytes (DESIGN section 7). Each is unsealed once
// and kept. Invariant: a key leaves here only under the tenant and the epoch that its seal was
// bound to, because both are in the associated data that `open` authenticates.
import type { Reader } from '../core/database.ts';

export interface DataKey {
  epoch: number;
  /** 32 bytes. */
  key: Buffer;
}

export interface KeyringOptions {
  read: Reader;
  /** Opens an AES-256-GCM seal under the key file; throws when seal and context do not match. */
  open: (sealed: Uint8Array, context: string) => Buffer;
}

/** The associated data of a tenant key's seal. */
export const tenantKeyContext = (tenant: string, epoch: number): string =>
  `tenant-key:${tenant}:${epoch}`;

interface KeyRow {
  epoch: number;
  sealed_key: Uint8Array;
}

const selectOne = 'SELECT epoch, sealed_key FROM tenant_keys WHERE tenant = ? AND epoch = ?';
const selectCurrent = `SELECT epoch, sealed_key FROM tenant_keys WHERE tenant = ?
  ORDER BY epoch DESC LIMIT 1`;

const dataKeyBytes = 32;

/** Tenant keys, unsealed once and cached; a cached key is answered without a promise. */
export class Keyring {
  readonly #options: KeyringOptions;
  /** By tenant for the current key, by `tenantKeyContext` for those of an epoch. */
  #keys = new Map<string, DataKey | Promise<DataKey>>();

  constructor(options: KeyringOptions) {
    this.#options = options;
  }

  /** The key of the highest epoch: what new extents are sealed with. Throws when there is none. */
  current(tenant: string): DataKey | Promise<DataKey> {
    return this.#keys.get(tenant) ?? this.#load(tenant, tenant, null);
  }

  /** The key of one epoch: what old extents are verified with. Throws when it is missing. */
  at(tenant: string, epoch: number): DataKey | Promise<DataKey> {
    const name = tenantKeyContext(tenant, epoch);
    return this.#keys.get(name) ?? this.#load(name, tenant, epoch);
  }

  /** Drops all cached keys, so that a new epoch is seen. */
  forget(): void {
    // Look-ups under way fill the old map, so what they find is not kept.
    this.#keys = new Map();
  }

  #load(name: string, tenant: string, epoch: number | null): Promise<DataKey> {
    const keys = this.#keys;
    const loading = this.#read(tenant, epoch).then(
      (key) => {
        keys.set(name, key);
        return key;
      },
      (error: unknown) => {
        keys.delete(name);
        throw error;
      },
    );
    keys.set(name, loading);
    return loading;
  }

  async #read(tenant: string, epoch: number | null): Promise<DataKey> {
    const { read, open } = this.#options;
    const row =
      epoch === null
        ? await read.get<KeyRow>(selectCurrent, tenant)
        : await read.get<KeyRow>(selectOne, tenant, epoch);
    if (!row) throw new Error(`tenant ${tenant} has no data key of epoch ${epoch ?? '(any)'}`);
    const key = open(row.sealed_key, tenantKeyContext(tenant, row.epoch));
    if (key.length !== dataKeyBytes) throw new Error(`data key of ${key.length} bytes`);
    return { epoch: row.epoch, key };
  }
}
