// A retention in compliance mode forbids what a class that can lose objects allows. Invariant: no
// version has both, however it came to them: by a write, by the default of its bucket, by another
// key, or by an amendment. It is asked in the transaction of the change, so no way goes round it.
import type { Reader } from '../core/database.ts';
import { isOwnClass } from '../core/own-class.ts';
import { readClassTerms } from './class-terms.ts';
import type { Lock } from './object-lock.ts';
import { type Outcome, refused } from './outcome.ts';

/** Why a version of the class may not have this lock; null: it may. Of STANDARD nothing is read. */
export async function refuseLossyLock(
  read: Reader,
  { tenant }: { tenant: string },
  storageClass: string,
  { retention }: Pick<Lock, 'retention'>,
): Promise<Outcome<never> | null> {
  if (retention?.mode !== 'COMPLIANCE' || !isOwnClass(storageClass)) return null;
  const { loss } = await readClassTerms(read, tenant, storageClass);
  return loss === 'refuse' ? null : refused('InvalidRequest', { StorageClass: storageClass });
}
