// What one request sets aside, with a real lease holder and account book.
import { describe, expect, it } from 'vitest';
import { anonymousIn } from '#bursar/authz/identity.js';
import { Budget } from '#bursar/gateway/s3/budget.js';
import { LimitAudience } from '#bursar/gateway/s3/limit-refusals.js';
import { LeaseHolder } from '#bursar/quota/leases/lease-holder.js';
import type { PriceBook } from '#bursar/quota/prices/price-book.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { LedgerRig } from '../../quota/leases/ledger-rig.ts';

const alice = 'principal:cms/alice';
const moved = { ingressBytes: 15, egressBytes: 0 };

function open() {
  const rig = new LedgerRig(Date.UTC(2026, 10, 21));
  const leaseHolder = new LeaseHolder(rig.source(), () => 0);
  const budget = new Budget(leaseHolder, {
    payers: { tenant: 'cms', principal: 'alice', tokens: [], bucket: null },
    price: 'put',
    book: readPriceBooks().named('aws-us-east-1-2026') as PriceBook,
    audience: () => new LimitAudience(anonymousIn('cms'), null, null),
  });
  const limit = async () => {
    const limits = { ingressBytes: { day: 1000 } };
    void rig.send((book, timeMs) => book.setLimits(alice, limits, timeMs));
    await rig.settle();
    leaseHolder.setLimits(alice, limits);
  };
  const reserve = async (ingressBytes: number) => {
    const reserving = budget.reserve({ ingressBytes });
    await rig.settle();
    await reserving;
  };
  return { leaseHolder, budget, limit, reserve };
}

describe('a budget', () => {
  it('sets nothing aside where no account has limits', async () => {
    const { leaseHolder, budget } = open();
    expect(budget.reserve({ requests: 1, ingressBytes: 15 })).toBeNull();
    expect(leaseHolder.open).toBe(0);
    expect(budget.charge(moved)).toMatchObject({ transfer: moved, settlement: null });
  });

  it('sets aside what is asked for, and settles it with the charge', async () => {
    const { leaseHolder, budget, limit, reserve } = open();
    await limit();
    await reserve(15);
    expect(leaseHolder.open).toBe(1);
    const { settlement } = budget.charge(moved);
    expect(settlement?.held).toMatchObject([{ amounts: { ingressBytes: 15 } }]);
    expect(settlement?.isMixed).toBe(false);
    expect(leaseHolder.open).toBe(0);
  });

  it('says that less is set aside than is charged where limits came meanwhile', async () => {
    const { budget, limit, reserve } = open();
    await reserve(10);
    await limit();
    await reserve(5);
    const { settlement } = budget.charge(moved);
    expect(settlement?.held).toMatchObject([{ amounts: { ingressBytes: 5 } }]);
    expect(settlement?.isMixed).toBe(true);
  });
});
