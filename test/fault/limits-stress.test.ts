// A tenant of fifty, near its limits, on both stores: hundreds of requests at a time, of all kinds,
// may not take an account beyond a limit for one moment, and when all have ended each account has
// used what its records say, to the picodollar. BURSAR_FULL=1 sends a thousand at a time, and many
// more, with as much more to use. Objects have no versions yet; when they do, they belong into the
// load.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { seededRandom } from '../fuzz/seeded-random.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { startBackedGateway } from './backed-gateway.ts';
import { KiB } from './content.ts';
import { type AccountRow, type Meter, meters } from './limits/account-sheet.ts';
import {
  buckets,
  LimitedTenant,
  type Limits,
  tenant,
  toUsd,
  watchAccounts,
} from './limits/limited-tenant.ts';
import { LimitedLoad } from './limits/load.ts';
import { type LastingGateway, startLocalGateway } from './limits/local-gateway.ts';

const isFull = process.env.BURSAR_FULL === '1';
vi.setConfig({ testTimeout: isFull ? 900_000 : 120_000, hookTimeout: 300_000 });

const seed = Number(process.env.BURSAR_LIMITS_SEED ?? 20260705);
const principals = 50;
/** Of requests and of what limits leave them, where not all is sent. */
const share = isFull ? 1 : 6;
const atOnce = Math.ceil(1000 / share);

/** How much each limit leaves: less than a run would use, more than a single request. */
const headroom: Record<Meter, bigint> = {
  spend: 4_000_000_000n,
  ingressBytes: 2_000_000n,
  egressBytes: 1_000_000n,
  requests: 200n,
  storedBytes: 4_000_000n,
  storedObjects: 60n,
};

function keepLimits(
  start: () => Promise<LastingGateway>,
  scenarios: Scenario[],
  isInS3 = false,
): void {
  let served: LastingGateway;
  let lab: LimitedTenant;
  const stored: string[] = [];
  let loads = 0;

  beforeAll(async () => {
    served = await start();
    lab = new LimitedTenant(() => served.gateway);
    await lab.make(principals);
  });
  afterAll(() => served.stop());

  it.each(scenarios)('holds $title', async ({ accounts, limited, turns, tokens, parts }) => {
    // What is under a prefix, or a writer's, is counted when it gets limits.
    const uncounted = accounts.filter((account) => /^(?:prefix|writer):/.test(account));
    await lab.limit(Object.fromEntries(uncounted.map((account) => [account, wide])));
    const before = await lab.rows();
    await lab.limit(
      Object.fromEntries(
        accounts.map((account) => [account, limitsOf(before.get(account), limited, parts)]),
      ),
    );
    const clients = lab.clients();
    for (let i = 0; i < tokens; i++) {
      clients.push(await lab.tokenClient(i, limitsOf(undefined, limited, 10n)));
    }
    const random = seededRandom(seed + loads);
    const load = new LimitedLoad({
      clients,
      buckets,
      random,
      prefix: `load${loads++}`,
      stored,
      sizeBytesMax: 400 * KiB,
      isSlow: isInS3,
    });
    const refusedBefore = lab.sums.refused;
    const { looks, overruns } = await watchAccounts(served.gateway.dataDir, () =>
      load.run(atOnce, isFull ? 8 * turns : Math.ceil(turns / share)),
    );
    for (const client of clients) client.close();
    const { book } = load;
    console.info(`${book.done} done, ${book.refused} refused, ${looks} looks`);
    expect(overruns.slice(0, 5)).toEqual([]);
    expect(looks).toBeGreaterThan(5);
    expect(book.findings.slice(0, 5)).toEqual([]);
    expect(book.unsafe).toBeLessThan(book.done / 2);
    expect(book.refused).toBeGreaterThan(20 / share);
    expect(book.answered.put + book.answered.get).toBeGreaterThan(20 / share);
    expect((await lab.audit()).slice(0, 9)).toEqual([]);
    const names = await lab.names();
    expect([...book.neverStored].filter((name) => names.has(name))).toEqual([]);
    expect(lab.sums.refused - refusedBefore).toBeGreaterThanOrEqual(book.refused);
  });
}

const wide: Limits = { storedBytes: { total: Number.MAX_SAFE_INTEGER } };

interface Scenario {
  title: string;
  accounts: string[];
  limited: readonly Meter[];
  turns: number;
  /** As many clients more bear tokens, each with a small part of the limits. */
  tokens: number;
  /** Each account has this part of the limits; absent: all. */
  parts?: bigint;
}

/** What is used, and the headroom or a part of it. */
function limitsOf(row: AccountRow | undefined, limited: readonly Meter[], parts = 1n): Limits {
  return Object.fromEntries(
    limited.map((meter) => {
      const counted = (row?.used[meter] ?? 0n) + (row?.lost[meter] ?? 0n);
      const most = counted + headroom[meter] / (parts * BigInt(share));
      return [meter, { total: meter === 'spend' ? toUsd(most) : Number(most) }];
    }),
  );
}

const tenantOnly = [`tenant:${tenant}`];
const bothSides = [`principal:${tenant}/robot0`, `bucket:${tenant}/raw`, `bucket:${tenant}/done`];
const prefixes = [`prefix:${tenant}/raw/load`, `prefix:${tenant}/done/load`];
const writers = [0, 1, 2, 3, 4, 5, 6, 7].flatMap((i) => {
  return [`writer:${tenant}/robot${i}`, `writer:${tenant}/raw/${tenant}/robot${i}`];
});
const robot = `principal:${tenant}/robot7`;
const all = [...tenantOnly, ...bothSides, ...prefixes, ...writers.slice(0, 4), robot];

const inTurn: Scenario[] = meters.map((meter, i) => ({
  title: `a limit on ${meter}`,
  accounts: i % 2 === 0 ? tenantOnly : bothSides,
  limited: [meter],
  turns: 1500,
  tokens: 0,
}));
const atOnceAll: Scenario = {
  title: 'limits on everything, of every account',
  accounts: all,
  limited: meters,
  turns: 2000,
  tokens: 10,
};

const prefixesOnly: Scenario = {
  title: 'limits on everything, of prefixes',
  accounts: [...prefixes, `prefix:${tenant}/raw/l`],
  limited: meters,
  turns: 2000,
  tokens: 0,
};

const writersOnly: Scenario = {
  title: 'limits on everything, of writers',
  accounts: writers,
  limited: meters,
  turns: 2000,
  tokens: 0,
  parts: 60n,
};

const tokensOnly: Scenario = {
  title: 'limits on everything, of tokens',
  accounts: [],
  limited: meters,
  turns: 2000,
  tokens: 20,
};

describe('a tenant near its limits, on the local disk', () => {
  keepLimits(
    () => startLocalGateway(),
    [...inTurn, prefixesOnly, writersOnly, tokensOnly, atOnceAll],
  );
});
describeWithTool(versitygw, 'a tenant near its limits, in S3', (path) => {
  keepLimits(
    () => startBackedGateway({ path }),
    isFull ? [...inTurn, tokensOnly, atOnceAll] : [atOnceAll],
    true,
  );
});
