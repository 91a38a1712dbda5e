// What is written in somebody else's name: parts, and the object, of an upload that another began,
// and a version that a rename keeps. It is counted for whose it is, so that their limits as a
// writer have to have room for it, besides those of who asks.
import type { Reserved } from '../stages.ts';

/** `writer`: `tenant/name`. Throws `Refusal` QuotaExceeded. */
export async function reserveForWriter(
  { services, bucket, requester, budget }: Reserved<'object' | 'copy'>,
  writer: string,
  amounts: { storedBytes: number; storedObjects: number },
): Promise<void> {
  if (writer === requester) return;
  const accounts = services.limitedAccounts.by(bucket.tenant, bucket.name, writer);
  if (accounts) await budget.reserveStored(accounts, amounts);
}
