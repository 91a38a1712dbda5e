// What a manifest's run says about its extent, checked before anything is read for it.
// Invariant: a run that passes lies inside an extent that can exist.
import { chunkBytes, extentBytesMax } from '../core/limits.ts';
import type { ExtentRun } from '../core/manifest.ts';
import { inlineStore } from '../core/manifest.ts';
import type { ExtentSeal } from './chunk-format.ts';
import { deriveExtentKey, IntegrityError } from './chunk-format.ts';
import type { DataKey } from './keyring.ts';

/** Whether the run's extent is in the database row itself: then it is one chunk. */
export function isInlineRun(run: ExtentRun): boolean {
  return run.store === inlineStore && run.extentBytes <= chunkBytes;
}

/** What the run's chunks are verified with. Throws IntegrityError when the run cannot be. */
export function openSeal(run: ExtentRun, dataKey: DataKey): ExtentSeal {
  const { id, algorithm, extentBytes, offset, length } = run;
  if (extentBytes > extentBytesMax || length < 1 || offset < 0 || offset + length > extentBytes) {
    throw new IntegrityError(`no extent of ${extentBytes} bytes has ${length} bytes at ${offset}`);
  }
  return { id, algorithm, extentBytes, key: deriveExtentKey(dataKey.key, id) };
}
