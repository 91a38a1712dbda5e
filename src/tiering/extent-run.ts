// What a manifest's run says about its extent, checked before anything is read for it.
// Invariant: a run that passes lies inside an extent that can exist.
import { IntegrityError } from '../core/errors.ts';
import type { DataKey } from '../core/keyring.ts';
import { extentBytesMax } from '../core/limits.ts';
import type { ExtentRun } from '../core/manifest.ts';
import type { ExtentSeal } from './chunk-format.ts';
import { deriveExtentKey } from './chunk-format.ts';

/**
 * Returns the seal that verifies the run's chunks. Throws IntegrityError when the run cannot be
 * right.
 */
export function openSeal(run: ExtentRun, dataKey: DataKey): ExtentSeal {
  const { id, algorithm, extentBytes, offset, length } = run;
  if (extentBytes > extentBytesMax || length < 1 || offset < 0 || offset + length > extentBytes) {
    throw new IntegrityError(`no extent of ${extentBytes} bytes has ${length} bytes at ${offset}`);
  }
  return { id, algorithm, extentBytes, key: keptKey(dataKey.key, id) };
}

/** By tenant key, so that an extent's id in another tenant's manifest never meets its own key. */
const keptKeys = new WeakMap<Buffer, Map<string, Buffer>>();
/** The most extent keys that are kept for each tenant key. Beyond that the map begins again. */
const keptKeysMax = 8192;

/** The extent's key, derived once for what is read again and again. */
function keptKey(dataKey: Buffer, id: Buffer): Buffer {
  let keys = keptKeys.get(dataKey);
  if (!keys || keys.size >= keptKeysMax) {
    keys = new Map();
    keptKeys.set(dataKey, keys);
  }
  const name = id.toString('latin1');
  let key = keys.get(name);
  if (!key) {
    key = deriveExtentKey(dataKey, id);
    keys.set(name, key);
  }
  return key;
}
