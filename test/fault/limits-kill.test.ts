// Kills a gateway whose clients are near their limits, on both stores: whatever the moment, nobody
// gets more afterwards than the limits allowed, counting what was served before. BURSAR_FULL=1
// kills more often, BURSAR_LIMITS_SEED at other moments.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { classPrices } from '#bursar/quota/prices/price-book.js';
import { readPriceBooks, shippedFolder } from '#bursar/quota/prices/price-books.js';
import { seededRandom } from '../fuzz/seeded-random.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { startBackedGateway } from './backed-gateway.ts';
import { KillRounds } from './limits/kill-rounds.ts';
import { LimitedTenant } from './limits/limited-tenant.ts';
import { type LastingGateway, startLocalGateway } from './limits/local-gateway.ts';

const isFull = process.env.BURSAR_FULL === '1';
const seed = Number(process.env.BURSAR_LIMITS_SEED ?? 20260706);
const principals = 8;
const sweeping = ['--sweep-interval', '200ms', '--sweep-grace', '0ms'];

const book = readPriceBooks([shippedFolder]).inForce('aws/us-east-1', Date.now());
if (!book) throw new Error('no price book is in force');
const { picodollarsPerPut: put, picodollarsPerGet: get } = classPrices(book, 'STANDARD');

function surviveKills(killsMin: number, start: () => Promise<LastingGateway>): void {
  let served: LastingGateway;
  let lab: LimitedTenant;
  let rounds: KillRounds;

  beforeAll(
    async () => {
      served = await start();
      lab = new LimitedTenant(() => served.gateway);
      await lab.make(principals);
      rounds = new KillRounds({ served, lab, random: seededRandom(seed), prices: { put, get } });
      // Not every kill comes between an answer and its record; some must.
      const isEnough = () =>
        rounds.isLimitUsed && rounds.unrecorded > 0 && rounds.refused > killsMin;
      // On a busy machine little is served before a kill.
      const killsMax = 6 * killsMin;
      while (rounds.kills < killsMin || (!isEnough() && rounds.kills < killsMax)) {
        await rounds.run();
      }
      const { kills, unrecorded, refused } = rounds;
      console.info(
        `${kills} kills, ${rounds.served} served, ${refused} refused, ${unrecorded} late`,
      );
    },
    60_000 + 6 * killsMin * 8000,
  );
  afterAll(() => served.stop());

  it('was killed while it served some and refused others', () => {
    expect(rounds.kills).toBeGreaterThanOrEqual(killsMin);
    expect(rounds.served).toBeGreaterThan(10 * killsMin);
    expect(rounds.refused).toBeGreaterThan(killsMin);
  });

  it('answered every request rightly until it was killed', () => {
    expect(rounds.findings.wrongAnswers).toEqual([]);
  });

  it('counts all that clients received, what was never recorded too', () => {
    expect(rounds.findings.uncounted).toEqual([]);
    // Few kills may all come when nothing waits to be recorded.
    if (isFull) expect(rounds.unrecorded).toBeGreaterThan(0);
  });

  it('is beyond no limit with what it counts', () => {
    expect(rounds.findings.overruns).toEqual([]);
  });

  it('loses what was set aside at the kill, and no more', () => {
    expect(rounds.findings.losses).toEqual([]);
  });

  it('has accounts that are the sums of its records', () => {
    expect(rounds.findings.sums).toEqual([]);
  });

  it('has nothing set aside once it is idle', async () => {
    expect(await lab.audit()).toEqual([]);
  });
}

describe(`a gateway with limits, killed again and again (seed ${seed})`, () => {
  surviveKills(isFull ? 50 : 4, () => startLocalGateway(sweeping));
});
describeWithTool(versitygw, 'a gateway with limits and its bytes in S3, killed again', (path) => {
  surviveKills(isFull ? 20 : 2, () => startBackedGateway({ path, args: sweeping }));
});
