// Two states on one ledger, by an end each, as two threads have them: each change that it makes
// holds in both from the next request on; and where one was not told of an event, it shows.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Change } from '#bursar/ledger/commands/index.js';
import type { LedgerEvent } from '#bursar/ledger/events.js';
import type { FeedEntry } from '#bursar/ledger/feed.js';
import { Ledger } from '#bursar/ledger/ledger.js';
import { commitOf, type LedgerFixture, openLedger } from '../ledger/fixture.ts';
import { type Scenario, scenarios } from './scenarios.ts';
import { learn, loadState, type Seen } from './seen-state.ts';

// Each change is made on a ledger of its own, with six states, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let fixture: LedgerFixture;
const host = {
  onFatal: (reason: string) => fixture.fatal.push(reason),
  onFailure: (reason: string) => fixture.failures.push(reason),
};

beforeEach(async () => {
  fixture = await openLedger();
});
afterEach(async () => {
  expect([fixture.failures, fixture.fatal]).toEqual([[], []]);
  await fixture.close();
});

async function commit(change: Change): Promise<number> {
  // What is committed is handed over, and scenarios are used again.
  const result = await fixture.ledger.commit({
    ...commitOf(structuredClone(change)),
    charge: null,
  });
  expect(result, change.kind).toMatchObject({ ok: true });
  return result.index as number;
}

/** Which may be missing: of more events than these none is caused. */
const eventsMax = 8;

/** Told of all events but one of each change. */
function subscribe({ state }: Seen, without: number | null = null): void {
  fixture.ledger.feed.subscribe({
    apply: ({ index, events }: FeedEntry) =>
      state.apply({ index, events: events.filter((_, i) => i !== without) }),
  });
}

const kinds = Object.keys(scenarios) as Change['kind'][];
const changing = kinds.flatMap((kind) =>
  (scenarios[kind] ?? []).map(
    (scenario) => [[kind, scenario.name].filter(Boolean).join(': '), scenario] as const,
  ),
);
const told = new Set<LedgerEvent['kind']>();

describe('a change', () => {
  it.each<readonly [string, Scenario]>(changing)('holds in both: %s', async (_, scenario) => {
    const { change, given = [], look } = scenario;
    for (const before of given) await commit(before);
    const other = await Ledger.join(fixture.ledger.addEnd(), host);
    const own = await loadState(fixture);
    const others = await loadState(fixture);
    const two = [own, others];
    const lacking: Seen[] = [];
    subscribe(own);
    other.feed.subscribe(others.state);
    for (let i = 0; i < eventsMax; i++) {
      lacking.push(await loadState(fixture));
      subscribe(lacking[i] as Seen, i);
    }
    const entries: FeedEntry[] = [];
    fixture.ledger.feed.subscribe({ apply: (entry) => void entries.push(entry) });
    if (change.kind === 'addRootKey') {
      for (const seen of [...two, ...lacking]) learn(seen, change.key);
    }
    const before = await Promise.all([...two, ...lacking].map(look));

    const index = await commit(change);
    await other.follow();

    const fresh = await loadState(fixture);
    if (change.kind === 'addRootKey') beginIn(fresh, change);
    if (change.kind === 'confirmClock') fresh.clock.confirm();
    const expected = await look(fresh);
    expect(before[0]).not.toEqual(expected);
    expect(await Promise.all(two.map(look))).toEqual([expected, expected]);
    expect(two.map(({ state }) => state.index)).toEqual([index, index]);
    const events = entries.flatMap((entry) => entry.events);
    expect(events.length).toBeGreaterThan(0);
    expect(events.length).toBeLessThanOrEqual(eventsMax);
    for (const [i, event] of events.entries()) {
      told.add(event.kind);
      expect(await look(lacking[i] as Seen), `without ${event.kind}`).not.toEqual(expected);
    }
    await other.close();
  });

  it.each(kinds.filter((kind) => scenarios[kind] === null))(
    'of which nothing is kept causes no event: %s',
    async (kind) => {
      const { eventsOf } = await import('#bursar/ledger/commands/index.js');
      expect(eventsOf(fixture.read as never, { kind } as never)).toBeNull();
    },
  );

  it('causes events of every kind', () => {
    const all: Record<LedgerEvent['kind'], true> = {
      ...{ bucket: true, setting: true, tenant: true, principal: true, group: true },
      ...{ accessKey: true, publicKey: true, grants: true, mount: true, ownMount: true },
      ...{
        issuer: true,
        revocation: true,
        limits: true,
        rootKey: true,
        clock: true,
        tenantKey: true,
        class: true,
      },
    };
    expect([...told].sort()).toEqual(Object.keys(all).sort());
  });
});

function beginIn({ state }: Seen, { key }: Extract<Change, { kind: 'addRootKey' }>): void {
  state.keyring.learn(key);
  state.keyring.begin(key.epoch);
}
