// Alarms: when a cap tells of what it has reached, and that it tells once.
import { beforeEach, describe, expect, it } from 'vitest';
import type { Limits } from '#bursar/core/quota-terms.js';
import type { MeterAmounts, TokenFacts } from '#bursar/quota/amounts.js';
import { AccountBook } from '#bursar/quota/leases/account-book.js';
import { MemoryStorage } from '../leases/ledger-rig.ts';

const account = 'principal:cms/alice';
const dayMs = 24 * 3600 * 1000;
const nowMs = Date.UTC(2026, 10, 21, 12);

let storage: MemoryStorage;
let book: AccountBook;
let token: TokenFacts | undefined;
beforeEach(() => {
  storage = new MemoryStorage();
  book = new AccountBook(storage, 'a run');
  token = undefined;
});

async function use(amounts: MeterAmounts, timeMs = nowMs): Promise<void> {
  const used = [{ accounts: [account], amounts, ...(token && { token }) }];
  await book.post({ holder: 0, held: [], isMixed: false }, used, timeMs);
}

async function limit(limits: Limits): Promise<void> {
  await book.setLimits(account, limits, nowMs);
}

/** What is told with the transaction: `requests/day 80`. From here on another process goes on. */
async function told(): Promise<string[]> {
  const reached = book.takeReached();
  await book.flush();
  storage.commit();
  book = new AccountBook(storage, 'a run');
  return reached.map(({ meter, window, percent }) => `${meter}/${window} ${percent}`);
}

describe('an alarm', () => {
  it('is told at 50, 80 and 100 percent, once each', async () => {
    await limit({ requests: { day: 10 } });
    const heard: string[][] = [];
    for (let used = 1; used <= 12; used++) {
      await use({ requests: 1 });
      heard.push(await told());
    }
    const at = (percent: number) => [`requests/day ${percent}`];
    expect(heard).toEqual([[], [], [], [], at(50), [], [], at(80), [], at(100), [], []]);
  });

  it('says what was used of what, and since when', async () => {
    await limit({ spend: { month: '0.000000000100' } });
    await use({ spend: 81 });
    expect(book.takeReached()).toEqual([
      {
        ...{ account, meter: 'spend', window: 'month', percent: 80, limit: 100n, used: 81n },
        ...{ beginMs: Date.UTC(2026, 10, 1), token: null },
      },
    ]);
  });

  it('is the highest only, where one operation passes several', async () => {
    await limit({ requests: { day: 10 } });
    await use({ requests: 9 });
    expect(await told()).toEqual(['requests/day 80']);
  });

  it('comes again in the next window, of caps whose window is over', async () => {
    await limit({ requests: { day: 10, total: 10 } });
    await use({ requests: 6 });
    expect(await told()).toEqual(['requests/day 50', 'requests/total 50']);
    await use({ requests: 6 }, nowMs + dayMs);
    expect(await told()).toEqual(['requests/day 50', 'requests/total 100']);
  });

  it('of the last operation in a window is of that window, though the batch goes on', async () => {
    await limit({ requests: { day: 10 } });
    await use({ requests: 6 });
    await use({ requests: 1 }, nowMs + dayMs);
    const [reached, ...others] = book.takeReached();
    expect(reached).toMatchObject({ percent: 50, used: 6n, beginMs: Date.UTC(2026, 10, 21) });
    expect(others).toEqual([]);
  });

  it('is told at once by a limit below what is used, by the same limit not again', async () => {
    await use({ requests: 9 });
    expect(await told()).toEqual([]);
    await limit({ requests: { day: 10 } });
    expect(await told()).toEqual(['requests/day 80']);
    await limit({ requests: { day: 10 } });
    expect(await told()).toEqual([]);
    await limit({ requests: { day: 16 } });
    expect(await told()).toEqual(['requests/day 50']);
  });

  it('says 100 when something is refused, however little is used, and once', async () => {
    await limit({ requests: { day: 10 } });
    for (let times = 0; times < 3; times++) {
      const draws = [{ account, need: { requests: 11 }, want: {} }];
      expect(await book.draw({ holder: 0, draws }, nowMs)).toMatchObject({ ok: false });
      expect(await told()).toEqual(times === 0 ? ['requests/day 100'] : []);
    }
    await use({ requests: 10 });
    expect(await told()).toEqual([]);
  });

  it('of what is used comes after a refusal too: asking too much silences nothing', async () => {
    await limit({ requests: { day: 10 }, storedBytes: { total: 10 } });
    for (const need of [{ requests: 11 }, { storedBytes: 11 }]) {
      expect(
        await book.draw({ holder: 0, draws: [{ account, need, want: {} }] }, nowMs),
      ).toMatchObject({
        ok: false,
      });
    }
    expect(await told()).toEqual(['requests/day 100', 'storedBytes/total 100']);
    await use({ requests: 5, storedBytes: 5 });
    expect(await told()).toEqual(['storedBytes/total 50', 'requests/day 50']);
    await use({ requests: 3, storedBytes: 3 });
    expect(await told()).toEqual(['storedBytes/total 80', 'requests/day 80']);
    await use({ requests: 2, storedBytes: 2 });
    expect(await told()).toEqual([]);
  });

  it('of a transaction that is rolled back is told with the one that is not', async () => {
    await limit({ requests: { day: 10 } });
    await told();
    await use({ requests: 6 });
    expect(book.takeReached()).toHaveLength(1);
    await book.flush();
    storage.rollback();
    book.discard();
    expect(book.takeReached()).toEqual([]);
    await use({ requests: 6 });
    expect(await told()).toEqual(['requests/day 50']);
  });

  it('of a refusal whose batch fails is not told with the next', async () => {
    await limit({ requests: { day: 1 } });
    await told();
    const refused = { holder: 0, draws: [{ account, need: { requests: 2 }, want: {} }] };
    await book.draw(refused, nowMs);
    book.discard();
    expect(await told()).toEqual([]);
    await book.draw(refused, nowMs);
    expect(await told()).toEqual(['requests/day 100']);
  });

  it('of a cap of nothing is told only when something is refused', async () => {
    await limit({ egressBytes: { day: 0 } });
    await use({ requests: 1 });
    expect(await told()).toEqual([]);
    await book.draw({ holder: 0, draws: [{ account, need: { egressBytes: 1 }, want: {} }] }, nowMs);
    expect(await told()).toEqual(['egressBytes/day 100']);
  });
});

describe('the alarm of a level', () => {
  beforeEach(() => limit({ storedObjects: { total: 10 } }));

  it('comes again on a later day, if the level had gone down, and not on the same', async () => {
    await use({ storedObjects: 6 });
    expect(await told()).toEqual(['storedObjects/total 50']);
    for (let times = 0; times < 3; times++) {
      await use({ storedObjects: -6 });
      await told();
      await use({ storedObjects: 6 });
      expect(await told()).toEqual([]);
    }
    await use({ storedObjects: -6 }, nowMs + dayMs);
    expect(await told()).toEqual([]);
    await use({ storedObjects: 6 }, nowMs + dayMs);
    expect(await told()).toEqual(['storedObjects/total 50']);
    await use({ storedObjects: -6 }, nowMs + dayMs);
    await use({ storedObjects: 6 }, nowMs + dayMs);
    expect(await told()).toEqual([]);
  });

  it('does not come again for a level that stays', async () => {
    await use({ storedObjects: 9 });
    expect(await told()).toEqual(['storedObjects/total 80']);
    for (let days = 1; days < 5; days++) {
      await use({ requests: 1 }, nowMs + days * dayMs);
      expect(await told()).toEqual([]);
    }
  });
});

describe('a token', () => {
  it('tells three times at most, whatever limits its holder gave it', async () => {
    token = { tenant: 'cms', principal: 'alice', expiresAtMs: nowMs + dayMs };
    const caps = { minute: 20, hour: 18, day: 16, month: 14, total: 12 };
    const limits = { requests: caps, egressBytes: caps, ingressBytes: caps };
    await book.draw(
      { holder: 0, draws: [{ account, need: {}, want: {}, token: { ...token, limits } }] },
      nowMs,
    );
    const heard: string[] = [];
    for (let used = 0; used < 30; used++) {
      await use({ requests: 1, egressBytes: 1, ingressBytes: 1 }, nowMs + used * dayMs);
      heard.push(...(await told()));
    }
    expect(heard.map((text) => text.split(' ')[1])).toEqual(['50', '80', '100']);
  });
});
