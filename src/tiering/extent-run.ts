// What a manifest's run says about its extent, checked before anything is read for it.
// Invariant: a run that passes lies inside an extent that can exist.
import { IntegrityError } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import { extentBytesMax } from '../core/limits.ts';
import { aesGcmAlgorithm, type ExtentRun } from '../core/manifest.ts';
import type { ExtentKey, ExtentSeal } from './chunk-format.ts';
import { deriveExtentCipher, deriveExtentKey, plainAlgorithm } from './chunk-format.ts';

/** What a new extent is sealed with. Throws IntegrityError where the tenant has no secret. */
export function newExtentKey(
  keyring: Keyring,
  extent: { id: Buffer; tenant: string; epoch: number; isEncrypted: boolean },
): ExtentKey {
  const { id, tenant, epoch, isEncrypted } = extent;
  return {
    id,
    key: deriveExtentKey(keyring.tenantKey(tenant, epoch).key, id),
    algorithm: isEncrypted ? aesGcmAlgorithm : plainAlgorithm,
    cipher: isEncrypted ? deriveExtentCipher(keyring.cipherKey(tenant, epoch), id) : null,
  };
}

/**
 * Returns the seal that verifies and opens the run's chunks. Throws IntegrityError when the run
 * cannot be right, or a key of it is not there.
 */
export function openSeal(run: ExtentRun, keyring: Keyring, tenant: string): ExtentSeal {
  const { id, algorithm, extentBytes, offset, length } = run;
  if (extentBytes > extentBytesMax || length < 1 || offset < 0 || offset + length > extentBytes) {
    throw new IntegrityError(`no extent of ${extentBytes} bytes has ${length} bytes at ${offset}`);
  }
  const name = id.toString('latin1');
  const { key: dataKey } = keyring.tenantKey(tenant, run.epoch);
  const key = keptTagKeys.find(dataKey, id, name);
  if (algorithm !== aesGcmAlgorithm) return { id, algorithm, extentBytes, key, cipher: null };
  const cipher = keptCiphers.find(keyring.cipherKey(tenant, run.epoch), id, name);
  return { id, algorithm, extentBytes, key, cipher };
}

/** The most extent keys that are kept for each tenant key. Beyond that the map begins again. */
const keptKeysMax = 8192;

/** Keys of extents, derived once for what is read again and again. */
class KeptKeys<Key> {
  /** By tenant key, so that an extent's id in another tenant's manifest never meets its own key. */
  readonly #kept = new WeakMap<Buffer, Map<string, Key>>();
  readonly #derive: (from: Buffer, id: Buffer) => Key;

  constructor(derive: (from: Buffer, id: Buffer) => Key) {
    this.#derive = derive;
  }

  /** `name`: the id as a text. */
  find(from: Buffer, id: Buffer, name: string): Key {
    let keys = this.#kept.get(from);
    if (!keys || keys.size >= keptKeysMax) {
      keys = new Map();
      this.#kept.set(from, keys);
    }
    let key = keys.get(name);
    if (key === undefined) {
      key = this.#derive(from, id);
      keys.set(name, key);
    }
    return key;
  }
}

const keptTagKeys = new KeptKeys(deriveExtentKey);
const keptCiphers = new KeptKeys(deriveExtentCipher);
