// What a class says of copies, charges and losses, as whoever changes the catalog reads it: once,
// from its row. Requests have all of it in memory (state/class-book.ts).
import type { Reader } from '../core/database.ts';
import { isCount, isObject, parseJson } from '../core/json.ts';
import { localStore, localStoreName } from '../core/manifest.ts';
import { isOwnClass } from '../core/own-class.ts';
import { readClassRow } from './class-rows.ts';

export interface ClassTerms {
  /** The stores of its legs by name, in their order. */
  legs: readonly string[];
  /** What an object is charged for at least, in each leg. */
  minimum: { days: number; bytes: number };
  /** Of an object all of whose copies are lost; null: nothing is said. */
  loss: string | null;
}

/** What is said of a class that nobody defined, or that is none any more. */
const noTerms: ClassTerms = { legs: [], minimum: { days: 0, bytes: 0 }, loss: null };

export async function readClassTerms(
  read: Reader,
  tenant: string,
  name: string,
): Promise<ClassTerms> {
  const row = isOwnClass(name) ? await readClassRow(read, tenant, name) : undefined;
  const definition = row && parseJson(row.definition);
  if (!isObject(definition)) return noTerms;
  const { durability, minimum, loss } = definition;
  const legs = isObject(durability) && Array.isArray(durability.legs) ? durability.legs : [];
  const { days, bytes } = isObject(minimum) ? minimum : {};
  return {
    legs: legs.flatMap((leg) => (isObject(leg) && typeof leg.store === 'string' ? leg.store : [])),
    minimum: { days: isCount(days) ? days : 0, bytes: isCount(bytes) ? bytes : 0 },
    loss: typeof loss === 'string' ? loss : null,
  };
}

/** How many copies there are, and are paid for, of what is in a class. */
export function countCopies({ legs }: ClassTerms): number {
  return Math.max(1, legs.length);
}

/** The stores of the legs by number, in their order; null: it is not known here. */
export async function listLegStores(
  read: Reader,
  tenant: string,
  name: string,
): Promise<(number | null)[]> {
  const stores: (number | null)[] = [];
  for (const store of (await readClassTerms(read, tenant, name)).legs) {
    const sql = 'SELECT number FROM stores WHERE name = ?';
    const row = store === localStoreName ? null : await read.get<{ number: number }>(sql, store);
    stores.push(store === localStoreName ? localStore : (row?.number ?? null));
  }
  return stores;
}
