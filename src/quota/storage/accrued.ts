// What has accrued for storage and was not charged yet, to be shown with the usage. It changes
// nothing. With tiers it is an estimate: what others are charged meanwhile counts before it.
import type { Reader } from '../../core/database.ts';
import type { Picodollars } from '../../core/money.ts';
import { Pace } from '../../core/pace.ts';
import { marketOf, type PriceBooks } from '../prices/price-books.ts';
import { chargeStorage, monthAt } from '../prices/storage-accrual.ts';
import { accrue, takeDue } from './storage-level.ts';
import { StoragePrices } from './storage-prices.ts';
import { listLevels, readTotal } from './storage-tables.ts';

/** By bucket of a tenant, picodollars: of one owner, or one bucket, only where that is given. */
export async function readAccrued(
  read: Reader,
  books: PriceBooks,
  of: { tenant: string; owner?: string | undefined; bucket?: string | undefined },
  timeMs: number,
): Promise<{ bucket: string; owner: string; accrued: Picodollars }[]> {
  const order = new StoragePrices(books);
  const before = new Map<string, bigint>();
  const sums = new Map<string, { bucket: string; owner: string; accrued: Picodollars }>();
  const pace = new Pace();
  for (const { place, level } of await listLevels(read, of, order)) {
    const { bucket, owner, class: storageClass } = place;
    const sum = sums.get(bucket) ?? { bucket, owner, accrued: 0n };
    sums.set(bucket, sum);
    accrue(level, timeMs, order);
    for (const { book: name, fromMs, byteMs } of takeDue(level, '', order)) {
      const book = order.named(name);
      if (!book) continue;
      const month = monthAt(fromMs);
      const total = { market: marketOf(book), class: storageClass, monthMs: month.beginMs };
      const key = `${total.market} ${storageClass} ${month.beginMs}`;
      const charged = before.get(key) ?? (await readTotal(read, total));
      before.set(key, charged + byteMs);
      sum.accrued += chargeStorage(order.classOf(book, storageClass), { month, byteMs }, charged);
    }
    await pace.rest();
  }
  return [...sums.values()];
}
