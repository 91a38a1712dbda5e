// Whether what a store has of an extent that was written for several is what was written: such an
// extent says by itself what it is.
import { TenantSecrets } from '../authz/tenant-keys.ts';
import type { Reader } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import { Sealer } from '../core/sealing.ts';
import { verifyStored } from '../tiering/stored-extent.ts';

/** A tenant has no secret here that opens. */
class NoSecret extends Error {}

export class CopyTruth {
  readonly #read: Reader;
  readonly #keyring: Keyring;
  #isReady = false;

  /** The keyring takes the secrets of tenants from the database of `read`. */
  constructor(read: Reader, keyring: Keyring) {
    this.#read = read;
    this.#keyring = keyring;
  }

  /** False: it is known to be something else. */
  async isOf(id: Buffer, stored: Buffer): Promise<boolean> {
    if (this.#isReady && (await this.#verifies(id, stored)) === true) return true;
    // Its tenant may have come since they were read.
    const secrets = await TenantSecrets.read(this.#read, new Sealer(this.#keyring));
    this.#keyring.useSecrets((tenant) => findSecret(secrets, tenant));
    this.#isReady = true;
    return (await this.#verifies(id, stored)) !== false;
  }

  /** Null: it is not known. */
  async #verifies(id: Buffer, stored: Buffer): Promise<boolean | null> {
    try {
      await verifyStored(this.#keyring, id, stored);
      return true;
    } catch (error) {
      if (error instanceof IntegrityError) return false;
      if (error instanceof NoSecret) return null;
      throw error;
    }
  }
}

function findSecret(secrets: TenantSecrets, tenant: string): Uint8Array {
  try {
    const found = secrets.find(tenant);
    if (found) return found;
  } catch (cause) {
    // The database, or the key file, was edited.
    throw new NoSecret(tenant, { cause });
  }
  throw new NoSecret(tenant);
}
