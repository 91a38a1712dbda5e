// Parts of a long request wait for their turns, but not without end.
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { expect, it } from 'vitest';
import { countPart } from '#bursar/gateway/s3/rate-gate.js';
import { Rates } from '#bursar/quota/rates.js';

const account = 'tenant:cms';

function part(rates: Rates, waitMsMax: number): Promise<void> | null {
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  const audience = () => ({ nameOf: () => account, maySee: () => true }) as never;
  return countPart(rates, [account], { response, waitMsMax, audience });
}

it('a part that would wait for too long is refused, and takes nothing', async () => {
  const rates = new Rates();
  rates.setLimits(account, { rate: { requests: 20 } });
  // One second's worth may come at once.
  for (let i = 0; i < 20; i++) expect(part(rates, 0)).toBeNull();
  await part(rates, 1000);
  for (let i = 0; i < 20; i++) rates.queue([account], 10_000);
  expect(() => part(rates, 900)).toThrow(/the rate of 20 requests per second of tenant:cms/);
  expect(() => part(rates, 900)).toThrow(expect.objectContaining({ code: 'SlowDown' }));
  expect(rates.tightest([account])?.left).toBeGreaterThanOrEqual(-20);
});
