// Storage is charged for the time it was, to whom it belongs, and for each byte-millisecond once.
import { beforeEach, describe, expect, it } from 'vitest';
import { parseUsd } from '#bursar/core/money.js';
import { goOnUnder, joinBooks, withoutGone } from '#bursar/quota/storage/several-books.js';
import { readAccrued, sumCosts } from '#bursar/quota/storage/storage-charges.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from '../../fuzz/seeded-random.ts';
import { labBooks } from './lab-books.ts';
import { chargeOf, data, dayMs, GB, hourMs, logs, StorageRig, sumOf } from './storage-rig.ts';

const usd = (text: string): bigint => parseUsd(text) as bigint;
/** 31 days each. */
const march = Date.UTC(2026, 2);
const may = Date.UTC(2026, 4);
/** 30 days each. */
const april = Date.UTC(2026, 3);
const june = Date.UTC(2026, 5);

let rig: StorageRig;
beforeEach(() => {
  rig = new StorageRig();
});

describe('what is stored', () => {
  it('costs what a month of it comes to by hand', async () => {
    await rig.change(april, 6 * GB);
    await rig.change(april + 10 * dayMs, 18 * GB);
    await rig.change(april + 20 * dayMs, -12 * GB);
    const charges = await rig.charge(april + 30 * dayMs);
    // 6 GB for 10 days, 24 for 10 and 12 for 10 are 14 GB-months: 10 at $0.30 and 4 at $0.10.
    expect(charges).toEqual([
      {
        book: 'lab-january',
        ...{ fromMs: april, toMs: may },
        ...{ byteMs: BigInt(14 * GB) * BigInt(30 * dayMs), cost: usd('3.40') },
      },
    ]);
  });

  it('is charged to the bucket, its owner and their tenant, not to who wrote it', async () => {
    await rig.change(april, 10 * GB);
    await rig.charge(may);
    for (const account of ['bucket:one/data', 'principal:one/alice', 'tenant:one']) {
      expect([account, await rig.spent(account, may)]).toEqual([account, usd('3')]);
    }
    for (const account of ['principal:far/guest', 'tenant:far', 'tenant:two']) {
      expect(await rig.spent(account, may)).toBe(0n);
    }
  });

  it('is cut at the end of a month, however late it is charged', async () => {
    await rig.change(march + 30 * dayMs, GB);
    const charges = await rig.charge(june + dayMs, 'lab-may');
    expect(charges.map(({ fromMs, toMs, cost }) => [fromMs, toMs, cost])).toEqual([
      [march + 30 * dayMs, april, usd('0.30') / 31n + 1n],
      [april, may, usd('0.30')],
      [may, may + 10 * dayMs, (usd('0.30') * 10n) / 31n + 1n],
      // From the eleventh of May on there is another book.
      [may + 10 * dayMs, june, usd('0.60') - ((usd('0.60') * 10n) / 31n + 1n)],
      [june, june + dayMs, usd('0.60') / 30n],
    ]);
  });

  it('goes by the tiers of what all buckets of the market have had in the month', async () => {
    await rig.change(april, 10 * GB);
    await rig.change(april, 10 * GB, { bucket: logs });
    const charges = await rig.charge(may);
    expect(charges.map(({ cost }) => cost).sort()).toEqual([usd('1'), usd('3')]);
    expect(await rig.spent('tenant:one', may)).toBe(usd('3'));
    expect(await rig.spent('tenant:two', may)).toBe(usd('1'));
  });

  it('has tiers of its own in each class', async () => {
    await rig.change(april, 10 * GB);
    await rig.change(april, 10 * GB, { storageClass: 'RAW' });
    expect(sumOf(await rig.charge(may))).toBe(usd('6'));
  });

  it('goes on at other prices when its store is of another market from now on', async () => {
    await rig.change(april, GB);
    await rig.charge(april + 15 * dayMs, 'aws-us-east-1-2026');
    const [charge] = await rig.charge(may, 'aws-us-east-1-2026');
    expect([charge?.book, charge?.cost]).toEqual(['aws-us-east-1-2026', usd('0.023') / 2n]);
  });

  it('goes on at other prices from the first write on that is charged by them', async () => {
    await rig.change(april, GB);
    await rig.change(april + 15 * dayMs, GB, { book: 'aws-us-east-1-2026' });
    const charges = await rig.charge(may);
    expect(charges.map(({ book, cost }) => [book, cost])).toEqual([
      ['lab-january', usd('0.15')],
      ['aws-us-east-1-2026', usd('0.023')],
    ]);
  });

  it('costs nothing where nothing has a price, and is not charged later', async () => {
    await rig.change(april, GB, { book: 'free' });
    expect(await rig.charge(april + 29 * dayMs)).toEqual([]);
    expect(sumOf(await rig.charge(may, 'lab-january'))).toBe(0n);
    expect(sumOf(await rig.charge(may + dayMs, 'lab-january'))).toBe(usd('0.30') / 31n + 1n);
  });

  it('is charged by the prices of now when the book is gone that was in force', async () => {
    await rig.change(april, GB);
    await rig.billing.flush();
    rig.restart(labBooks().slice(1));
    const charges = await rig.charge(may, 'lab-may');
    expect(charges.map(({ book, cost }) => [book, cost])).toEqual([['lab-may', usd('0.60')]]);
  });

  it('goes on under a book that is added later, and what had accrued stays as it was', async () => {
    await rig.billing.flush();
    rig.restart(labBooks().slice(0, 1));
    await rig.change(may, GB);
    await rig.change(may + 20 * dayMs, 0);
    await rig.billing.flush();
    rig.restart(labBooks());
    const charges = await rig.charge(may + 25 * dayMs);
    expect(charges.map(({ book, fromMs, toMs }) => [book, fromMs, toMs])).toEqual([
      ['lab-january', may, may + 20 * dayMs],
      ['lab-may', may + 20 * dayMs, may + 25 * dayMs],
    ]);
  });

  it('is charged as STANDARD in a class that the book does not have', async () => {
    await rig.change(april, GB, { storageClass: 'UNHEARD_OF' });
    expect(sumOf(await rig.charge(may))).toBe(usd('0.30'));
  });

  it('is never less than nothing, whatever a damaged row says', async () => {
    await rig.change(april, GB);
    await rig.change(april, -3 * GB);
    await rig.change(april + dayMs, GB);
    expect(sumOf(await rig.charge(may))).toBe((usd('0.30') * 29n) / 30n);
  });

  it('leaves no row behind when it is gone and charged', async () => {
    await rig.change(april, GB);
    await rig.change(may, -GB);
    await rig.charge(may + 1);
    await rig.billing.flush();
    expect(await rig.db.tx.all('SELECT * FROM quota_storage')).toEqual([]);
  });

  it('is charged to the end when its bucket is deleted, and no more', async () => {
    await rig.change(april, 10 * GB);
    await rig.change(april + 15 * dayMs, -10 * GB);
    const rest = sumCosts(await rig.billing.storage.close(chargeOf(data, 'lab-january'), may));
    expect(rest).toBe(usd('1.50'));
    expect(await rig.charge(june)).toEqual([]);
    expect(await rig.spent('bucket:one/data', june)).toBe(usd('1.50'));
  });

  it('is nothing in a bucket that is deleted, whatever was said to be in it', async () => {
    await rig.change(april, GB);
    await rig.billing.storage.close(chargeOf(data, 'lab-january'), may);
    expect(await rig.charge(june)).toEqual([]);
    await rig.billing.flush();
    expect(await rig.db.tx.all('SELECT * FROM quota_storage')).toEqual([]);
  });

  it('is charged beyond what one posting holds', async () => {
    await rig.change(april, 2 ** 52);
    await rig.charge(may);
    // 2^22 GB: 10 of them at $0.30, the others at $0.10.
    expect(await rig.spent('tenant:one', may)).toBe(usd('419432.4'));
  });
});

describe('charges of storage', () => {
  it('come to the same however often they are made', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(7, 40, async (random) => {
      const [often, once] = [new StorageRig(), new StorageRig()];
      // All of it before there is another book: charges by two of them depend on their order.
      let timeMs = march + 20 * dayMs + randomBelow(random, 20 * dayMs);
      let sum = 0n;
      const kept = new Map([data, logs].map((bucket) => [bucket, 0]));
      for (let step = 0; step < 30; step++) {
        timeMs += 2 + randomBelow(random, dayMs - 2);
        const bucket = randomOf(random, [data, logs]);
        const held = kept.get(bucket) as number;
        const bytes = randomBelow(random, 20 * GB) - randomBelow(random, held + 1);
        kept.set(bucket, held + bytes);
        for (const one of [often, once]) await one.change(timeMs, bytes, { bucket });
        if (randomBelow(random, 2) === 0) sum += sumOf(await often.charge(timeMs + 1));
        await often.billing.flush();
        if (randomBelow(random, 4) === 0) often.restart();
      }
      sum += sumOf(await often.charge(timeMs + hourMs));
      expect(sum).toBe(sumOf(await once.charge(timeMs + hourMs)));
      const accounts = ['tenant:one', 'tenant:two'].map((one) => often.spent(one, timeMs));
      expect((await Promise.all(accounts)).reduce((all, one) => all + one)).toBe(sum);
    });
  });

  it('are forgotten with the transaction that is rolled back', async () => {
    await rig.change(april, GB);
    await rig.billing.flush();
    rig.db.exec('BEGIN');
    await rig.change(april + dayMs, 5 * GB);
    await rig.charge(april + 2 * dayMs);
    await rig.billing.flush();
    rig.billing.discard();
    rig.db.exec('ROLLBACK');
    expect(await rig.spent('tenant:one', may)).toBe(0n);
    expect(sumOf(await rig.charge(may))).toBe(usd('0.30'));
  });

  it('take the places first that have waited longest, and each once', async () => {
    await rig.change(april, GB);
    await rig.change(april + hourMs, GB, { bucket: logs });
    const { storage } = rig.billing;
    const [first] = await storage.listUncharged(may, 1);
    expect(first).toMatchObject({ tenant: 'one', bucket: 'data', owner: 'alice', store: 1 });
    if (first) await storage.charge(first, [], may);
    expect((await storage.listUncharged(may, 9)).map(({ bucket }) => bucket)).toEqual(['logs']);
  });

  it('can be told before they are made', async () => {
    await rig.change(april, 10 * GB);
    await rig.change(april, 10 * GB, { bucket: logs });
    await rig.charge(april + 15 * dayMs);
    await rig.billing.flush();
    const accrued = (of: { tenant: string; owner?: string; bucket?: string }) =>
      readAccrued(rig.db.tx, rig.books, of, may);
    const expected = [{ bucket: 'data', owner: 'alice', accrued: usd('0.50') }];
    expect(await accrued({ tenant: 'one' })).toEqual(expected);
    expect(await accrued({ tenant: 'one', owner: 'alice', bucket: 'data' })).toEqual(expected);
    expect(await accrued({ tenant: 'one', owner: 'bob' })).toEqual([]);
    expect(await accrued({ tenant: 'one', bucket: 'logs' })).toEqual([]);
    expect(sumOf((await rig.charge(may)).slice(0, 1))).toBe(usd('0.50'));
  });
});

const glacier = 'aws-us-east-1-2026:GLACIER';
const inBoth = joinBooks(['lab-january', glacier]);

describe('what has copies in stores of different price books', () => {
  it('goes on under each by itself, where a store is not configured any more', () => {
    expect(goOnUnder('a+b', ['c', undefined])).toBe('c+b');
    expect(goOnUnder('a+b', [undefined, 'b'])).toBe('a+b');
    expect(goOnUnder('a', ['c', undefined])).toBe('c');
    expect(goOnUnder('a+b', [undefined, undefined])).toBe('a+b');
    expect(goOnUnder('a+b', [])).toBe('a+b');
    expect(goOnUnder('a+b', ['c'])).toBe('c');
  });

  it('has another price for each book alone that is gone', () => {
    const isThere = (name: string) => name !== 'gone';
    expect(withoutGone('a+b', 'c+d', isThere)).toBe('a+b');
    expect(withoutGone('a+gone', 'c+d', isThere)).toBe('a+d');
    expect(withoutGone('a+gone', 'c+gone', isThere)).toBe('a+c');
    expect(withoutGone('gone', 'c+d', isThere)).toBe('c+d');
    expect(withoutGone('a+gone', 'gone', isThere)).toBe('a+gone');
  });

  it('is charged for each of them by its own', async () => {
    await rig.change(april, 2 * 14 * GB, { storageClass: 'both', book: inBoth });
    const byteMs = BigInt(14 * GB) * BigInt(30 * dayMs);
    expect(await rig.charge(may, inBoth)).toEqual([
      { book: 'lab-january', fromMs: april, toMs: may, byteMs, cost: usd('3.40') },
      { book: glacier, fromMs: april, toMs: may, byteMs, cost: usd('0.0504') },
    ]);
    const of = { tenant: 'one' };
    await rig.billing.flush();
    const [told] = await readAccrued(rig.db.tx, rig.books, of, may + dayMs);
    const charges = await rig.charge(may + dayMs, inBoth);
    expect(told?.accrued).toBe(sumOf(charges));
  });

  it('is shared out whole, however it is cut', async () => {
    const books = joinBooks(['lab-january', glacier, glacier]);
    await fuzz(31, 10, async (random) => {
      rig = new StorageRig();
      let [kept, byteMs] = [0, 0n];
      for (let timeMs = april; timeMs < april + dayMs; ) {
        const bytes = randomBelow(random, 1000);
        await rig.change(timeMs, bytes, { storageClass: 'both', book: books });
        kept += bytes;
        const stepMs = 1 + randomBelow(random, hourMs * 4);
        byteMs += BigInt(kept) * BigInt(stepMs);
        timeMs += stepMs;
        if (randomBelow(random, 2) > 0) continue;
        const charges = await rig.charge(timeMs, books);
        expect(charges.reduce((sum, one) => sum + one.byteMs, 0n)).toBe(byteMs);
        byteMs = 0n;
      }
    });
  });

  it('goes on under the next book of one of them, and by one where they are the same', async () => {
    await rig.change(april, 2 * GB, { storageClass: 'both', book: 'free' });
    await rig.charge(may, inBoth);
    const charges = await rig.charge(june, 'free');
    expect(charges.map(({ book, fromMs }) => [book, fromMs])).toEqual([
      ['lab-january', may],
      [glacier, may],
      ['lab-may', may + 10 * dayMs],
      [glacier, may + 10 * dayMs],
    ]);
    expect(sumOf(charges.filter(({ book }) => book === glacier))).toBe(usd('0.0036'));
    expect(await rig.charge(june + dayMs, 'free')).toEqual([]);
  });

  it('counts as large as each of them says', async () => {
    const of = (sizeBytes: number, book: string) =>
      rig.billing.storage.billedBytes(
        chargeOf(data, book),
        'both',
        { sizeBytes, copies: 2 },
        april,
      );
    expect(await of(1000, inBoth)).toBe(132_072);
    expect(await of(131_073, inBoth)).toBe(262_146);
  });
});

describe('an object that ends before its minimum days', () => {
  const ended = { class: 'STANDARD', billedBytes: 10 * GB, sinceMs: april };

  it.each([
    [0, 'lab-january', '3'],
    [12, 'lab-january', '1.80'],
    [30, 'lab-january', '0'],
    // By the book of when it ends: 90 days at $0.60.
    [12, 'lab-may', '15.60'],
    [12, 'free', '0'],
  ])('after %i days owes by %s %s USD for the rest', async (days, book, cost) => {
    const timeMs = april + days * dayMs;
    expect(await rig.change(timeMs, -10 * GB, { book, ended })).toBe(usd(cost));
    expect(await rig.spent('principal:one/alice', timeMs)).toBe(usd(cost));
    expect(await rig.spent('principal:far/guest', timeMs)).toBe(0n);
  });

  it('in a class of a tenant owes by the book of the store that has it', async () => {
    await rig.change(april, 10 * GB, { storageClass: 'derived' });
    const timeMs = april + 12 * dayMs;
    const of = { storageClass: 'derived', book: 'free', ended: { ...ended, class: 'derived' } };
    expect(await rig.change(timeMs, -10 * GB, of)).toBe(usd('1.80'));
  });

  it('in several stores owes each share by the book of its store', async () => {
    await rig.change(april, 20 * GB, { storageClass: 'both', book: inBoth });
    const timeMs = april + 12 * dayMs;
    const of = { class: 'both', billedBytes: 20 * GB, sinceMs: april };
    const { storage } = rig.billing;
    const billed = [{ class: 'both', bytes: -20 * GB }];
    const owed = await storage.change(chargeOf(data, 'free'), { billed, ended: of }, timeMs);
    expect([...owed]).toEqual([
      ['lab-january', usd('1.80')],
      // 78 of 90 days.
      [glacier, usd('0.0936')],
    ]);
    expect(await rig.spent('tenant:one', timeMs)).toBe(usd('1.8936'));
  });

  it('may be replaced by as much as a limit leaves, and not by more', async () => {
    const { storage, accounts } = rig.billing;
    const timeMs = april + 12 * dayMs;
    const find = () => storage.findShortage(chargeOf(data, 'lab-january'), ended, timeMs);
    for (const account of ['bucket:one/data', 'principal:one/alice', 'tenant:one']) {
      await accounts.setLimits(account, { spend: { total: '1.80' } }, timeMs);
      expect(await find()).toBeUndefined();
      await accounts.setLimits(account, { spend: { month: '1.799999999999' } }, timeMs);
      expect(await find()).toMatchObject({ account, asked: usd('1.80'), used: 0n });
      await accounts.setLimits(account, null, timeMs);
    }
    await accounts.setLimits('tenant:far', { spend: { total: '0' } }, timeMs);
    expect(await find()).toBeUndefined();
  });
});
