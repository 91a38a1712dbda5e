// As how many bytes something is charged for while it is stored: all of its copies, and an object
// each as large as its class and its prices have it at least.
import type { Reader } from '../core/database.ts';
import { isOwnClass } from '../core/own-class.ts';
import { countCopies, readClassTerms } from './class-terms.ts';
import type { StorageTerms } from './outcome.ts';

/** At once where the class is none that a tenant defines. */
export function billedBytes(
  read: Reader,
  tenant: string,
  { class: of, sizeBytes }: { class: string; sizeBytes: number },
  terms: StorageTerms,
): number | Promise<number> {
  if (!isOwnClass(of)) return terms.billedBytes(of, sizeBytes, 1);
  return readClassTerms(read, tenant, of).then((own) =>
    terms.billedBytes(of, Math.max(sizeBytes, own.minimum.bytes), countCopies(own)),
  );
}

/** Parts of an upload are billed as they are: minimums are of objects. */
export async function billedParts(
  read: Reader,
  tenant: string,
  { class: of, sizeBytes }: { class: string; sizeBytes: number },
): Promise<number> {
  return sizeBytes * countCopies(await readClassTerms(read, tenant, of));
}
