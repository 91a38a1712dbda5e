// The seal of one row, the digest of many, and who answers for them (docs/formats/row-seals.md). A
// seal is a MAC over the fields of a row. A digest is the exclusive or of one secret block for each
// seal, so that it can be kept up to date by what changes alone, and nobody without the keys knows
// which other rows would have the same.
import { type Cipher, createCipheriv } from 'node:crypto';
import { IntegrityError } from '../errors.ts';
import { KeyedMessage } from '../keyed-message.ts';
import type { Keyring } from '../keyring.ts';
import type { SealedTable, SealScope } from './sealed-tables.ts';

export type SealedValue = string | number | Uint8Array | null;

export const digestBytes = 16;

/** One for the thread, since nothing here waits. */
const message = new KeyedMessage();

/**
 * The MAC of a row, whose fields come in the order of its table. Throws IntegrityError for a value
 * of another type.
 */
export function sealRow(
  keyring: Keyring,
  table: SealedTable,
  { epoch, values }: { epoch: number; values: readonly SealedValue[] },
): Buffer {
  return describeRow(keyring, table, epoch, values).mac();
}

/** Returns whether a row is what was sealed. */
export function isSealed(
  keyring: Keyring,
  table: SealedTable,
  seal: { epoch: unknown; mac: unknown },
  values: readonly SealedValue[],
): boolean {
  const { epoch, mac } = seal;
  if (typeof epoch !== 'number' || !(mac instanceof Uint8Array)) return false;
  try {
    return describeRow(keyring, table, epoch, values).matches(mac);
  } catch (error) {
    if (error instanceof IntegrityError) return false;
    throw error;
  }
}

function describeRow(
  keyring: Keyring,
  { name, fields }: SealedTable,
  epoch: number,
  values: readonly SealedValue[],
): KeyedMessage {
  message.begin(keyring.sealKey(epoch), 'bursar/seal/v1').text(name);
  for (const [i, [, type]] of fields.entries()) message[type](values[i] as never);
  return message;
}

/** The blocks as which seals count in a digest. */
export class DigestBlocks {
  readonly #keyring: Keyring;
  readonly #ciphers = new Map<number, Cipher>();

  constructor(keyring: Keyring) {
    this.#keyring = keyring;
  }

  /**
   * Takes MACs, of which the first 16 bytes of each stand one behind the other in `blocks`, into
   * the digest; those that are in it already are out of it afterwards. Throws IntegrityError for an
   * epoch that never was.
   */
  fold(digest: Uint8Array, epoch: number, blocks: Uint8Array): void {
    let cipher = this.#ciphers.get(epoch);
    if (!cipher) {
      // One block in, one block out: as a function that only who has the key can compute.
      cipher = createCipheriv('aes-256-ecb', this.#keyring.sealDigestKey(epoch), null);
      cipher.setAutoPadding(false);
      this.#ciphers.set(epoch, cipher);
    }
    const secret = cipher.update(blocks);
    for (let i = 0; i < secret.length; i++) {
      digest[i % digestBytes] = (digest[i % digestBytes] as number) ^ (secret[i] as number);
    }
  }
}

/** What is wrong with a row, or with the set of a tenant's rows. */
export interface Unsealed {
  /** `grants`; '' where it is about all of a tenant, or of the gateway. */
  table: string;
  tenant: string;
  row: string;
  /**
   * `altered`: it is not what was sealed; `added`: it never was sealed; `removed`: it was sealed,
   * and is not there. `replaced`: all rows are in order, and yet not those that there were last.
   */
  fault: 'altered' | 'added' | 'removed' | 'replaced';
  /** null: whoever asks, since nobody knows whom it concerns. */
  scope: SealScope | null;
  /** The same in words. */
  what: string;
}

export function describeUnsealed(
  table: SealedTable,
  { tenant, row, fault }: Pick<Unsealed, 'tenant' | 'row' | 'fault'>,
): Unsealed {
  const name = [tenant, row].filter((part) => part !== '').join('/');
  const scope = table.concerns(tenant, row);
  const faults = {
    altered: 'is not what was stored',
    added: 'was not stored by the gateway',
    removed: 'was removed, and not by the gateway',
    replaced: 'is not what was stored last',
  };
  return {
    ...{ table: table.name, tenant, row, fault, scope },
    what: `${table.noun} ${name} ${faults[fault]}`,
  };
}

/** Thrown by whoever meets a row that is not authentic. */
export class UnsealedRow extends IntegrityError {
  readonly unsealed: Unsealed;

  constructor(unsealed: Unsealed) {
    super(unsealed.what);
    this.unsealed = unsealed;
  }
}
