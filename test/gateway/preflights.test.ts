// How many preflights an address may send, asked without a network: nothing proves who sends them.
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { Preflights } from '#bursar/gateway/http/cross-origin.js';
import { Exchange } from '#bursar/gateway/http/exchange.js';
import { Instruments } from '#bursar/instruments/instruments.js';

type Given = ConstructorParameters<typeof Preflights>[0];

/** Of a gateway without buckets. */
function makePreflights(): Preflights {
  return new Preflights({
    services: {
      domains: [],
      buckets: { find: async () => undefined },
      mounts: { find: () => undefined },
      grants: { aliases: { find: () => undefined } },
      cors: { find: () => null },
    } as unknown as Given['services'],
    authenticator: { findClaimedTenant: async () => null } as unknown as Given['authenticator'],
    onBug: (error) => {
      throw error;
    },
  });
}

async function ask(preflights: Preflights, source: string): Promise<number> {
  const raw = new IncomingMessage(new Socket());
  Object.assign(raw, { method: 'OPTIONS', url: '/bucket/k', complete: true });
  raw.headers = { host: 'h', origin: 'https://a', 'access-control-request-method': 'GET' };
  const terms = {
    instruments: new Instruments([]),
    serverTiming: 'nobody',
    door: 'all',
  } as const;
  const response = new ServerResponse(raw);
  await preflights.serve(
    new Exchange(terms, 'preflight', { source, isSecure: false }, raw, response),
  );
  return response.statusCode;
}

describe('preflights', () => {
  it('of one address are refused beyond 200 in a second, and those of others are not', async () => {
    const preflights = makePreflights();
    // All before any is answered, so within the second.
    const statuses = await Promise.all(
      Array.from({ length: 1000 }, () => ask(preflights, '192.0.2.1')),
    );
    const refused = statuses.filter((status) => status === 503);
    expect(statuses.filter((status) => status === 403).length).toBeGreaterThanOrEqual(200);
    expect(refused.length).toBeGreaterThan(0);
    expect(await ask(preflights, '192.0.2.2')).toBe(403);
  });
});
