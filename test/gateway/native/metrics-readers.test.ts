// Who is answered at `/_/metrics` of the administration's own address, and how many at a time, with
// texts that the test makes.
import Fastify from 'fastify';
import { expect, test } from 'vitest';
import type { NativeDeps } from '#bursar/gateway/native/deps.js';
import { addMetrics } from '#bursar/gateway/native/metrics-routes.js';

const metricsToken = 'metrics-token-of-the-test';

test('strangers wait for texts in bounded numbers, keeping out nobody with the token', async () => {
  let begin = (): void => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const read = async (audience: string) => {
    if (audience === 'everybody') await begun;
    return Buffer.from(`for ${audience}\n`);
  };
  const app = Fastify();
  addMetrics(app, {
    metrics: { read },
    metricsToken,
    isAdministration: () => true,
  } as unknown as NativeDeps);
  const ask = (headers: Record<string, string> = {}) =>
    app.inject({ method: 'GET', url: '/_/metrics', headers });

  const flood = Array.from({ length: 100 }, () => ask());
  const trusted = await ask({ authorization: `Bearer ${metricsToken}` });
  expect([trusted.statusCode, trusted.body]).toEqual([200, 'for operator\n']);
  begin();
  const statuses = (await Promise.all(flood)).map(({ statusCode }) => statusCode).sort();
  expect([statuses.indexOf(503), statuses.at(-1)]).toEqual([16, 503]);
  expect((await ask()).body).toBe('for everybody\n');
  await app.close();
});
