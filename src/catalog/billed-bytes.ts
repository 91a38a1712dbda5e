// As how many bytes an object is charged for while it is stored: all of its copies, each as large
// as its class and its prices have it at least.
import type { Reader } from '../core/database.ts';
import { isObject, parseJson } from '../core/json.ts';
import { isOwnClass } from '../core/own-class.ts';
import { readClassRow } from './class-rows.ts';
import type { StorageTerms } from './outcome.ts';
import { countedBytes } from './versions.ts';

/** At once where the class is none that a tenant defines. */
export function billedBytes(
  read: Reader,
  tenant: string,
  { class: of, sizeBytes }: { class: string; sizeBytes: number },
  terms: StorageTerms,
): number | Promise<number> {
  if (!isOwnClass(of)) return terms.billedBytes(of, sizeBytes, 1);
  return billedInOwn(read, tenant, { class: of, sizeBytes }, terms);
}

async function billedInOwn(
  read: Reader,
  tenant: string,
  { class: of, sizeBytes }: { class: string; sizeBytes: number },
  terms: StorageTerms,
): Promise<number> {
  const row = await readClassRow(read, tenant, of);
  const definition = row && parseJson(row.definition);
  const { durability, minimum } = isObject(definition) ? definition : {};
  const legs = isObject(durability) ? durability.legs : null;
  const least = isObject(minimum) ? Number(minimum.bytes) : 0;
  const copies = Array.isArray(legs) ? Math.max(1, legs.length) : 1;
  return terms.billedBytes(of, Math.max(sizeBytes, countedBytes(least)), copies);
}
