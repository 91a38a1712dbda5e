// What the rooms tell of themselves: how full queues and caches are, what the ledger's batches
// took, what waits to be done, and what is wrong. Invariant: nothing is asked before somebody
// reads, and a look costs a bounded time, however much is stored; only the operator reads what
// names accounts.
import type { LedgerMeter } from './ledger-meter.ts';
import type { MetricRegistry, Values } from './metric-registry.ts';

type Numbers = Values<number>;

/** The ledger, as it is seen from the main thread. */
export interface LedgerSource {
  readonly meter: LedgerMeter;
  readonly load: { underWay: number; busyMs: number };
}

export function watchLedger(registry: MetricRegistry, ledger: LedgerSource): void {
  const { meter } = ledger;
  registry.histogram({
    name: 'bursar_ledger_batch_requests',
    help: 'Requests that were committed together, in one transaction with one fsync.',
    collect: () => meter.batchRequests,
  });
  registry.histogram({
    name: 'bursar_ledger_batch_seconds',
    help: 'How long the ledger took for a batch, its commit included.',
    collect: () => meter.batchSeconds,
  });
  registry.histogram({
    name: 'bursar_ledger_commit_seconds',
    help: 'How long the commit of a batch took: writing its pages to the log, and the fsync.',
    collect: () => meter.commitSeconds,
  });
  registry.histogram({
    name: 'bursar_log_signing_seconds',
    help: 'From the begin of a batch until a signed checkpoint covered its records.',
    collect: () => meter.signedSeconds,
  });
  registry.gauge({
    name: 'bursar_ledger_requests_under_way',
    help: 'Requests of the batch that the ledger has and has not answered.',
    collect: () => ledger.load.underWay,
  });
  registry.counter({
    name: 'bursar_ledger_busy_seconds_total',
    help: "What the ledger's thread has worked: one second a second is all that it can.",
    collect: () => ledger.load.busyMs / 1000,
  });
}

/** What is waited for, by the name of the queue: how many wait. */
export function watchQueues(
  registry: MetricRegistry,
  queues: Readonly<Record<string, () => number>>,
): void {
  registry.gauge({
    name: 'bursar_queue_length',
    help: 'What waits for its turn, by queue.',
    collect: () => Object.entries(queues).map(([queue, length]) => [{ queue }, length()] as const),
  });
}

export interface CacheCounts {
  readonly hits: number;
  readonly misses: number;
  readonly entries: number;
}

export function watchCaches(
  registry: MetricRegistry,
  caches: Readonly<Record<string, CacheCounts>>,
): void {
  const of =
    (what: keyof CacheCounts): (() => Numbers) =>
    () =>
      Object.entries(caches).map(([cache, counts]) => [{ cache }, counts[what]] as const);
  registry.counter({
    name: 'bursar_cache_hits_total',
    help: 'Look-ups that memory answered, by cache.',
    collect: of('hits'),
  });
  registry.counter({
    name: 'bursar_cache_misses_total',
    help: 'Look-ups that memory did not answer, by cache.',
    collect: of('misses'),
  });
  registry.gauge({
    name: 'bursar_cache_entries',
    help: 'What is kept in memory, by cache.',
    collect: of('entries'),
  });
}

/** Single numbers, by the name of the metric: what it means, and what asks for it. */
export type Gauges = Readonly<Record<string, readonly [string, () => number | Promise<number>]>>;

export function watchNumbers(registry: MetricRegistry, gauges: Gauges): void {
  for (const [name, [help, collect]] of Object.entries(gauges)) {
    registry.gauge({ name, help, collect });
  }
}

/** A store, as those who ask for buckets know it. */
export interface StoreState {
  name: string;
  ready: boolean;
  health: Record<string, unknown>;
  detail: Record<string, unknown>;
}

/** What `detail.journal` has, of an S3 store. */
interface JournalHealth {
  whole: boolean;
  lostObjects: number;
}

const breakerStates = ['closed', 'half-open', 'open'] as const;

export function watchStores(registry: MetricRegistry, all: () => readonly StoreState[]): void {
  const numberOf = (what: string): (() => Numbers) => {
    return () =>
      all().flatMap(({ name: store, detail }) => {
        const value = detail[what];
        return typeof value === 'number' ? [[{ store }, value] as const] : [];
      });
  };
  registry.gauge({
    name: 'bursar_store_ready',
    help: '1: the store can be read and written. 0: its buckets are refused.',
    collect: () => all().map(({ name: store, ready }) => [{ store }, ready ? 1 : 0] as const),
  });
  const ofJournals = (read: (journal: JournalHealth) => number): (() => Numbers) => {
    return () =>
      all().flatMap(({ name: store, detail }) => {
        const journal = detail.journal as JournalHealth | undefined;
        return journal ? [[{ store }, read(journal)] as const] : [];
      });
  };
  registry.gauge({
    name: 'bursar_journal_whole',
    help: '1: the store has all of its journal, as far as the last look saw. 0: some is lost.',
    collect: ofJournals(({ whole }) => (whole ? 1 : 0)),
  });
  registry.counter({
    name: 'bursar_journal_lost_objects_total',
    help: 'Objects of the journal that were found missing or altered since the start.',
    collect: ofJournals(({ lostObjects }) => lostObjects),
  });
  registry.gauge({
    name: 'bursar_store_breaker',
    help: '1 for the state that the circuit breaker of the store is in.',
    collect: () =>
      all().flatMap(({ name: store, health: { breaker } }) =>
        breaker === undefined
          ? []
          : breakerStates.map((state) => [{ store, state }, state === breaker ? 1 : 0] as const),
      ),
  });
  registry.gauge({
    name: 'bursar_store_requests_under_way',
    help: 'Requests that the store has and has not answered.',
    collect: numberOf('inFlight'),
  });
  registry.gauge({
    name: 'bursar_store_requests_waiting',
    help: 'Requests that wait for a connection to the store.',
    collect: numberOf('waiting'),
  });
}

export interface Backlog {
  store: string;
  /** What it is that waits. */
  work: string;
  count: number;
  /** Since when the oldest waits; null: nothing does; undefined: nobody knows. */
  oldestMs?: number | null;
}

export function watchBacklogs(
  registry: MetricRegistry,
  read: () => Promise<readonly Backlog[]>,
): void {
  registry.gauge({
    name: 'bursar_backlog_items',
    help: 'What waits in the catalog to be done, by store and work; 10,000 stands for more, too.',
    collect: async () =>
      (await read()).map(({ store, work, count }) => [{ store, work }, count] as const),
  });
  registry.gauge({
    name: 'bursar_backlog_age_seconds',
    help: 'Since when the oldest of it waits; 0: nothing does.',
    collect: async () => {
      const now = Date.now();
      return (await read()).flatMap(({ store, work, oldestMs }) => {
        if (oldestMs === undefined) return [];
        const age = oldestMs === null ? 0 : Math.max(now - oldestMs, 0) / 1000;
        return [[{ store, work }, age] as const];
      });
    },
  });
}

/**
 * `failures`: by store, then by what failed; what is told is told from the start, also if it is 0.
 */
export function watchIntegrity(
  registry: MetricRegistry,
  failures: () => Iterable<readonly [store: string, kind: string, count: number]>,
): void {
  registry.counter({
    name: 'bursar_integrity_failures_total',
    help: 'How often what is stored was not what had been written, by store and kind.',
    collect: () =>
      Array.from(failures(), ([store, kind, count]) => [{ store, kind }, count] as const),
  });
}

export interface BudgetShare {
  account: string;
  meter: string;
  window: string;
  ratio: number;
}

export function watchBudgets(
  registry: MetricRegistry,
  list: () => Promise<readonly BudgetShare[]>,
): void {
  registry.gauge({
    name: 'bursar_budget_used_ratio',
    help: 'What accounts have used of their limits: 1 is all of it. The 200 that are nearest.',
    isPrivate: true,
    collect: async () =>
      (await list()).map(({ ratio, ...labels }) => [labels as Record<string, string>, ratio]),
  });
}

/** Sizes of files, by what is in them. */
export function watchFiles(
  registry: MetricRegistry,
  sizes: () => Readonly<Record<string, number>>,
): void {
  registry.gauge({
    name: 'bursar_database_bytes',
    help: "Sizes of the database's files.",
    collect: () => Object.entries(sizes()).map(([file, size]) => [{ file }, size] as const),
  });
}
