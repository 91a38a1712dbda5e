// A tenant near its limits on a gateway that is killed again and again. Limits stay for some rounds
// and are then raised a little. After each kill the books are held to three things: what clients
// received before it is within what is counted, what is counted is within the limits, and what a
// kill lost is what had been set aside when it came, and no more.
import { randomBelow } from '../../fuzz/seeded-random.ts';
import { KiB } from '../content.ts';
import { killWhileStarting, sleep } from '../plain-start.ts';
import { type AccountRow, findOverruns, flows, type Meter, meters } from './account-sheet.ts';
import { buckets, type LimitedTenant, type Limits, tenant, toUsd } from './limited-tenant.ts';
import { LimitedLoad } from './load.ts';
import type { LastingGateway } from './local-gateway.ts';

type Flows = Record<(typeof flows)[number], bigint>;

const account = `tenant:${tenant}`;
const atOnce = 40;
const roundsOfLimits = 3;
/** Of one kind and kill. */
const findingsToldMax = 5;
const loadMsMax = 5000;
const sizeBytesMax = 70 * KiB;

/** What the limits of some rounds leave. */
const headroom: Record<Meter, bigint> = {
  spend: 4_000_000_000n,
  ingressBytes: 4_000_000n,
  egressBytes: 3_000_000n,
  requests: 150n,
  storedBytes: 4_000_000n,
  storedObjects: 60n,
};

/** The most that one request of this load may reserve. */
const askMax: Flows = {
  spend: 60_000_000n,
  ingressBytes: 140_000n,
  egressBytes: 140_000n,
  requests: 1n,
};

export interface KillFindings {
  wrongAnswers: string[];
  overruns: string[];
  /** Served and not counted. */
  uncounted: string[];
  /** Of what a kill lost. */
  losses: string[];
  sums: string[];
}

export class KillRounds {
  readonly findings: KillFindings = {
    ...{ wrongAnswers: [], overruns: [], uncounted: [], losses: [], sums: [] },
  };
  kills = 0;
  refused = 0;
  served = 0;
  /** Kills that came before reads were recorded which clients had received. */
  unrecorded = 0;
  readonly #served: LastingGateway;
  readonly #lab: LimitedTenant;
  readonly #random: () => number;
  readonly #stored: string[] = [];
  readonly #prices: { put: bigint; get: bigint };
  /** What clients know to have been done for the tenant, of flows; never more than that. */
  readonly #known: Flows = { spend: 0n, ingressBytes: 0n, egressBytes: 0n, requests: 0n };
  /** Of the tenant, when the round began. */
  #usedBefore: Flows = { ...this.#known };
  #rounds = 0;

  constructor(given: {
    served: LastingGateway;
    lab: LimitedTenant;
    random: () => number;
    /** Picodollars each. */
    prices: { put: bigint; get: bigint };
  }) {
    this.#served = given.served;
    this.#lab = given.lab;
    this.#random = given.random;
    this.#prices = given.prices;
  }

  async run(): Promise<void> {
    if (this.#rounds % roundsOfLimits === 0) await this.#raise();
    this.#rounds++;
    const load = await this.#loadAndKill();
    const dead = await this.#lab.rows();
    const { dataDir } = this.#served.gateway;
    // Some die while they are still burying what the one before left.
    for (let i = randomBelow(this.#random, 3); i > 1; i--) {
      await killWhileStarting(dataDir, randomBelow(this.#random, 500));
      this.kills++;
    }
    await this.#served.crash();
    const alive = await this.#lab.rows();
    this.#checkLoss(dead, alive);
    this.#note('overruns', findOverruns(alive));
    this.#checkServed(load, alive);
    this.#note('sums', await this.#lab.auditNow());
  }

  async #raise(): Promise<void> {
    const rows = await this.#lab.rows();
    const prefixes = ['round', 'round1'].map((prefix) => `prefix:${tenant}/raw/${prefix}`);
    const writers = [`writer:${tenant}/robot1`, `writer:${tenant}/raw/${tenant}/robot1`];
    const others = [`principal:${tenant}/robot1`, `bucket:${tenant}/raw`];
    const names = [account, ...others, ...prefixes, ...writers];
    const limits = names.map((name): [string, Limits] => [name, limitsOf(rows.get(name))]);
    await this.#lab.limit(Object.fromEntries(limits));
  }

  async #loadAndKill(): Promise<LimitedLoad> {
    const clients = this.#lab.clients();
    const load = new LimitedLoad({
      clients,
      buckets,
      random: this.#random,
      prefix: `round${this.#rounds}`,
      stored: this.#stored,
      sizeBytesMax,
    });
    const running = load.run(atOnce);
    await this.#reach(load);
    if (this.#rounds % 5 === 0) {
      load.stop();
      await running;
      // Reads are recorded up to 50 ms after they were answered.
      await sleep(randomBelow(this.#random, 60));
    }
    load.expectKill();
    await this.#served.gateway.kill();
    this.kills++;
    await running;
    for (const client of clients) client.close();
    const { book } = load;
    this.#note('wrongAnswers', book.findings);
    this.refused += book.refused;
    this.served += book.answered.put + book.answered.get;
    return load;
  }

  /** Resolves when some have been answered, at some moment of those that follow. */
  async #reach({ book }: LimitedLoad): Promise<void> {
    const goal = randomBelow(this.#random, 150);
    const endMs = performance.now() + loadMsMax;
    // Limits are used up before they are raised.
    const isReached = () => (this.isLimitUsed ? book.refused > atOnce : book.done >= goal);
    while (!isReached() && performance.now() < endMs) await sleep(5);
    await sleep(randomBelow(this.#random, 30));
  }

  /** Is this the last round before limits are raised, or was it? */
  get isLimitUsed(): boolean {
    return this.#rounds % roundsOfLimits === 0;
  }

  /**
   * Of flows that were set aside, what the records say is used, and the rest lost; levels come
   * free; nothing else changes.
   */
  #checkLoss(dead: Map<string, AccountRow>, alive: Map<string, AccountRow>): void {
    for (const [name, before] of dead) {
      const after = alive.get(name);
      for (const meter of flows) {
        const lost = (after?.lost[meter] ?? 0n) - before.lost[meter];
        const recorded = (after?.used[meter] ?? 0n) - before.used[meter];
        const set = before.leased[meter];
        if (lost !== (recorded < set ? set - recorded : 0n)) {
          const told = `${lost} were lost of ${set} set aside, ${recorded} recorded`;
          this.#note('losses', [`${name} ${meter}: ${told}`]);
        }
        // What is under way, and ahead of it a small part of what the limit leaves.
        const lostMax = BigInt(atOnce) * askMax[meter] + headroom[meter] / 8n;
        if (lost > lostMax) this.#note('losses', [`${name} ${meter}: ${lost} were lost`]);
      }
      for (const meter of meters) {
        if (after?.leased[meter] === 0n) continue;
        this.#note('losses', [`${name} ${meter}: ${after?.leased[meter]} are set aside at once`]);
      }
    }
  }

  #checkServed({ book }: LimitedLoad, alive: Map<string, AccountRow>): void {
    const { put, get } = book.answered;
    const served: Flows = {
      requests: BigInt(put + get),
      egressBytes: BigInt(book.receivedBytes),
      ingressBytes: BigInt(book.sentBytes),
      spend: BigInt(put) * this.#prices.put + BigInt(get) * this.#prices.get,
    };
    const row = alive.get(account);
    if (!row) throw new Error(`there is no ${account}`);
    if (flows.some((meter) => served[meter] > row.used[meter] - this.#usedBefore[meter])) {
      this.unrecorded++;
    }
    this.#usedBefore = row.used;
    for (const meter of flows) {
      this.#known[meter] += served[meter];
      const counted = row.used[meter] + row.lost[meter];
      if (this.#known[meter] <= counted) continue;
      this.#note('uncounted', [`${meter}: ${this.#known[meter]} served, ${counted} counted`]);
    }
  }

  #note(kind: keyof KillFindings, findings: readonly string[]): void {
    const told = findings.slice(0, findingsToldMax);
    this.findings[kind].push(...told.map((text) => `after kill ${this.kills}: ${text}`));
  }
}

/** What is counted, and the headroom. */
function limitsOf(row: AccountRow | undefined): Limits {
  return Object.fromEntries(
    meters.map((meter) => {
      const most = (row?.used[meter] ?? 0n) + (row?.lost[meter] ?? 0n) + headroom[meter];
      return [meter, { total: meter === 'spend' ? toUsd(most) : Number(most) }];
    }),
  );
}
