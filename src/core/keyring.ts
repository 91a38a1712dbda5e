// All keys of the gateway. Each is derived from the root key of its epoch by HKDF-SHA256 (RFC 5869,
// empty salt) under a name of its purpose, docs/formats/catalog-macs.md; those that encrypt bytes
// of objects also from a random secret of their tenant, without which nobody can read these any
// more. Invariants: two purposes, tenants or epochs never share a key; a key that was given out
// stays the same object, so that what is derived from it further can be kept beside it; and an
// epoch is known before it begins, so that each thread can read what another seals under it,
// however they are told of it.
import { hkdfSync } from 'node:crypto';
import { IntegrityError } from './errors.ts';

export const rootKeyBytes = 32;
export const epochMax = 0xffff;

/** Plain data, so that it crosses to other threads. */
export interface RootKey {
  /** 1 to 65,535. */
  epoch: number;
  /** 32 bytes. */
  key: Uint8Array;
  /** ARN of the key of AWS KMS that it is wrapped by at rest; absent or null: by none. */
  wrappedBy?: string | null;
}

/** The key that seals the extents of one tenant in one epoch. */
export interface DataKey {
  epoch: number;
  /** 32 bytes. */
  key: Buffer;
}

/** The secret of a tenant, 32 bytes; undefined: it has none. */
export type FindTenantSecret = (tenant: string) => Uint8Array | undefined;

interface TenantKeys {
  data: DataKey;
  manifest: Buffer;
  /** What customers' keys are joined with; null: not derived yet. */
  customer: Buffer | null;
  /** What the keys that encrypt its extents are derived from; null: not derived yet. */
  cipher: Buffer | null;
}

interface EpochKeys {
  epoch: number;
  tenants: Map<string, TenantKeys>;
  root: Uint8Array;
  wrappedBy: string | null;
  row: Buffer;
  seal: Buffer;
  sealDigest: Buffer;
  sealHead: Buffer;
  extentMetadata: Buffer;
  journal: Buffer;
  secrets: Buffer;
  sessions: Buffer;
  tokens: Buffer;
  proof: Buffer;
  backup: Buffer;
  deep: Buffer;
}

export class Keyring {
  readonly #epochs = new Map<number, EpochKeys>();
  #current: EpochKeys | null = null;
  #findSecret: FindTenantSecret = () => undefined;

  constructor(keys: readonly RootKey[]) {
    for (const key of keys) {
      this.learn(key);
      this.begin(key.epoch);
    }
  }

  /** The highest epoch that has begun, which everything new is made under. */
  get currentEpoch(): number {
    if (!this.#current) throw new Error('the keyring is empty');
    return this.#current.epoch;
  }

  /** The key of the tenant's extents. Throws IntegrityError when the epoch is unknown. */
  tenantKey(tenant: string, epoch: number = this.currentEpoch): DataKey {
    return this.#tenant(tenant, epoch).data;
  }

  /** From now on, where the secrets of tenants are. */
  useSecrets(find: FindTenantSecret): void {
    this.#findSecret = find;
  }

  /** Forgets what was derived from a tenant's secret, which is another or gone. */
  forgetSecret(tenant: string): void {
    for (const { tenants } of this.#epochs.values()) {
      const keys = tenants.get(tenant);
      keys?.cipher?.fill(0);
      if (keys) keys.cipher = null;
    }
  }

  /** The KMS key by which the root key of the newest epoch is wrapped at rest; null: none. */
  get wrappedBy(): string | null {
    return this.#current?.wrappedBy ?? null;
  }

  /**
   * What the keys are derived from that encrypt the tenant's extents. Throws IntegrityError when
   * the epoch is unknown, or the tenant's secret is not there.
   */
  cipherKey(tenant: string, epoch: number): Buffer {
    const keys = this.#tenant(tenant, epoch);
    if (keys.cipher) return keys.cipher;
    const secret = this.#findSecret(tenant);
    if (!secret) throw new IntegrityError(`the key of tenant ${tenant} is not there`);
    const both = Buffer.concat([this.#at(epoch).root, secret]);
    keys.cipher = deriveKey(both, `bursar/cipher/v1\0${tenant}`);
    both.fill(0);
    return keys.cipher;
  }

  /** The key of the tenant's manifests. Throws IntegrityError when the epoch is unknown. */
  manifestKey(tenant: string, epoch: number): Buffer {
    return this.#tenant(tenant, epoch).manifest;
  }

  /**
   * What the keys that customers bring are joined with. Throws IntegrityError when the epoch is
   * unknown.
   */
  customerKey(tenant: string, epoch: number): Buffer {
    const keys = this.#tenant(tenant, epoch);
    keys.customer ??= deriveKey(this.#at(epoch).root, `bursar/customer/v1\0${tenant}`);
    return keys.customer;
  }

  /** The key of the catalog's rows. Throws IntegrityError when the epoch is unknown. */
  rowKey(epoch: number): Buffer {
    return this.#at(epoch).row;
  }

  /**
   * The key of rows of who may what and how much. Throws IntegrityError when the epoch is unknown.
   */
  sealKey(epoch: number): Buffer {
    return this.#at(epoch).seal;
  }

  /** The key of what seals count as in digests. Throws IntegrityError when the epoch is unknown. */
  sealDigestKey(epoch: number): Buffer {
    return this.#at(epoch).sealDigest;
  }

  /**
   * The key of what says which seals there are. Throws IntegrityError when the epoch is unknown.
   */
  sealHeadKey(epoch: number): Buffer {
    return this.#at(epoch).sealHead;
  }

  /** The key of what extents say of themselves. Throws IntegrityError when the epoch is unknown. */
  extentMetadataKey(epoch: number): Buffer {
    return this.#at(epoch).extentMetadata;
  }

  /** The key of the catalog's journal. Throws IntegrityError when the epoch is unknown. */
  journalKey(epoch: number): Buffer {
    return this.#at(epoch).journal;
  }

  /** The key of sealed secrets. Throws IntegrityError when the epoch is unknown. */
  secretsKey(epoch: number): Buffer {
    return this.#at(epoch).secrets;
  }

  /**
   * Returns the secret from which the keys of session tokens are derived. Throws IntegrityError
   * when the epoch is unknown.
   */
  sessionsKey(epoch: number): Buffer {
    return this.#at(epoch).sessions;
  }

  /** The Ed25519 seed of what signs tokens. Throws IntegrityError when the epoch is unknown. */
  tokensKey(epoch: number): Buffer {
    return this.#at(epoch).tokens;
  }

  /** Tells root keys apart and is no secret. Throws IntegrityError when the epoch is unknown. */
  proofKey(epoch: number): Buffer {
    return this.#at(epoch).proof;
  }

  /**
   * Returns the secret from which the keys of backups are derived. Throws IntegrityError when the
   * epoch is unknown.
   */
  backupKey(epoch: number): Buffer {
    return this.#at(epoch).backup;
  }

  /**
   * The key of what `verify deep` keeps of a run. Throws IntegrityError when the epoch is unknown.
   */
  deepKey(epoch: number): Buffer {
    return this.#at(epoch).deep;
  }

  /** All that are known, in the order they were learned. */
  get epochs(): number[] {
    return [...this.#epochs.keys()];
  }

  /**
   * From now on what was made under this key is read; nothing new is, until its epoch begins. The
   * same key again changes nothing.
   */
  learn({ epoch, key, wrappedBy = null }: RootKey): void {
    if (!Number.isInteger(epoch) || epoch < 1 || epoch > epochMax) {
      throw new Error(`there can be no epoch ${epoch}`);
    }
    if (key.length !== rootKeyBytes) throw new Error(`a root key of ${key.length} bytes`);
    const known = this.#epochs.get(epoch);
    if (known && Buffer.compare(known.root, key) === 0) return;
    if (known) throw new Error(`there is another root key of epoch ${epoch} already`);
    this.#epochs.set(epoch, {
      epoch,
      tenants: new Map(),
      root: key,
      wrappedBy,
      row: deriveKey(key, 'bursar/row/v1'),
      seal: deriveKey(key, 'bursar/seal/v1'),
      sealDigest: deriveKey(key, 'bursar/seal-digest/v1'),
      sealHead: deriveKey(key, 'bursar/seal-head/v1'),
      extentMetadata: deriveKey(key, 'bursar/extent-metadata/v1'),
      journal: deriveKey(key, 'bursar/journal/v1'),
      secrets: deriveKey(key, 'bursar/secrets/v1'),
      sessions: deriveKey(key, 'bursar/sessions/v1'),
      tokens: deriveKey(key, 'bursar/tokens/v1'),
      proof: deriveKey(key, 'bursar/proof/v1'),
      backup: deriveKey(key, 'bursar/backup/v1'),
      deep: deriveKey(key, 'bursar/verify-deep/v1'),
    });
  }

  /**
   * What is made from now on uses the key of this epoch, unless a higher one has begun. All threads
   * must know it, and the database that it is in use. Throws IntegrityError when it is unknown.
   */
  begin(epoch: number): void {
    const keys = this.#at(epoch);
    if (!this.#current || this.#current.epoch < epoch) this.#current = keys;
  }

  #tenant(tenant: string, epoch: number): TenantKeys {
    const { tenants, root } = this.#at(epoch);
    let keys = tenants.get(tenant);
    if (!keys) {
      keys = {
        data: { epoch, key: deriveKey(root, `bursar/tenant/v1\0${tenant}`) },
        manifest: deriveKey(root, `bursar/manifest/v1\0${tenant}`),
        customer: null,
        cipher: null,
      };
      tenants.set(tenant, keys);
    }
    return keys;
  }

  /** A text that names an epoch which never existed cannot have been written by this gateway. */
  #at(epoch: number): EpochKeys {
    const keys = this.#epochs.get(epoch);
    if (!keys) throw new IntegrityError(`there is no root key of epoch ${epoch}`);
    return keys;
  }
}

function deriveKey(root: Uint8Array, info: string): Buffer {
  return Buffer.from(hkdfSync('sha256', root, '', info, 32));
}
