// What a rename needs room for: what of the version stays at its old key counts as stored besides,
// and prefixes with limits that the new key comes into have one more. A commit that is refused to
// be decided again has let go of what was set aside for it, so that each asks for all of it anew.
import type { Staying } from '../../../catalog/rename.ts';
import { type VersionHead, writerOf } from '../../../catalog/versions.ts';
import type { Reserved } from '../stages.ts';
import { reserveForWriter } from './writer-budget.ts';

/** `source`: the old key. Throws `Refusal` QuotaExceeded. */
export async function reserveRename(
  context: Reserved<'object'>,
  { source, version, stays }: { source: string; version: VersionHead; stays: Staying },
): Promise<void> {
  const { bucket, budget } = context;
  const { sizeBytes: storedBytes, class: storageClass } = version;
  if (stays === 'nothing') await budget.reserveExpected();
  else {
    // What is held is no object any more.
    const staying = { storedBytes, storedObjects: stays === 'version' ? 1 : 0 };
    await budget.reserve(staying);
    await reserveForWriter(context, writerOf(bucket.tenant, version), staying);
    context.keepIn(storageClass);
    await budget.reserveStorage(storageClass, storedBytes);
  }
  // Where the version stays, the prefixes of the new key have room with the bucket.
  if (stays === 'version') return;
  const entering = { storedBytes: stays === 'held' ? 0 : storedBytes, storedObjects: 1 };
  await budget.reserveStored(enteredPrefixes(context, source), entering);
}

/** Those of the new key that are not prefixes of the old one. */
function enteredPrefixes({ services, bucket, key }: Reserved<'object'>, source: string): string[] {
  const [left = [], entered = []] = [source, key].map((one) =>
    services.limitedAccounts.under(bucket.tenant, bucket.name, one),
  );
  return entered.filter((account) => !left.includes(account));
}
