// All that is measured of one store: health, metrics and the decisions of its driver read it, and
// nothing else counts. Invariants: what happens for each request is a few additions in typed
// arrays, and nothing there is allocated; there are no more series than kinds, size bands and
// causes.

import { monotonicMs } from '../core/clock.ts';
import { getOrMake } from '../core/maps.ts';
import { bytesPerSecondBounds, Histogram, secondBounds } from './histogram.ts';
import { RecentLatencies } from './recent-latencies.ts';
import { bandOf } from './size-band.ts';
import { type MeasuredStream, StreamWindows } from './stream-windows.ts';

export const requestKinds = ['get', 'put', 'head', 'delete', 'list'] as const;
export type RequestKind = (typeof requestKinds)[number];
/** What the first request of a read waited for when a second one was due. */
export const hedgeCauses = ['connect', 'firstByte', 'body'] as const;
export type HedgeCause = (typeof hedgeCauses)[number];
/** Which of two requests for the same bytes gave the answer that was taken. */
export const hedgeWinners = ['first', 'second', 'nobody'] as const;
export type HedgeWinner = (typeof hedgeWinners)[number];
/** Why a second request was not sent: too many already, or no connection was free. */
export const hedgeRefusals = ['share', 'connections'] as const;
export type HedgeRefusal = (typeof hedgeRefusals)[number];

type Counts<T extends string> = Record<T, number>;

/** Of one kind of request and one band of sizes. */
export interface RequestTimes {
  seconds: Histogram;
  firstByteSeconds: Histogram;
  bytesPerSecond: Histogram;
}

export class StoreMeter {
  readonly #requests: Counts<RequestKind> = countsOf(requestKinds);
  readonly #retries: Record<string, number>;
  readonly #failures: Record<string, number>;
  readonly hedges: Record<HedgeCause, Counts<'sent' | HedgeWinner>> = {
    connect: countsOf(['sent', ...hedgeWinners]),
    firstByte: countsOf(['sent', ...hedgeWinners]),
    body: countsOf(['sent', ...hedgeWinners]),
  };
  readonly hedgeRefusals: Counts<HedgeRefusal> = countsOf(hedgeRefusals);
  /** By kind, then by band, made when the first request of it ends. */
  readonly times: Record<RequestKind, (RequestTimes | undefined)[]> = {
    get: [],
    put: [],
    head: [],
    delete: [],
    list: [],
  };
  readonly recentReads = new RecentLatencies();
  readonly streams: { read: StreamWindows; write: StreamWindows };

  /** `causes`: of failures, known beforehand so that each is there from the start, as 0. */
  constructor(options: { causes?: readonly string[]; clock?: () => number } = {}) {
    const { causes = [], clock = monotonicMs } = options;
    this.#retries = countsOf(causes);
    this.#failures = countsOf(causes);
    this.streams = { read: new StreamWindows(clock), write: new StreamWindows(clock) };
  }

  sent(kind: RequestKind): void {
    this.#requests[kind]++;
  }

  answered(kind: RequestKind, bytes: number, durationMs: number, firstByteMs: number): void {
    const times = this.#timesOf(kind, bandOf(bytes));
    times.seconds.record(durationMs / 1000);
    times.firstByteSeconds.record(firstByteMs / 1000);
    if (bytes > 0) times.bytesPerSecond.record((bytes * 1000) / Math.max(durationMs, 0.001));
    if (kind === 'get') this.recentReads.add(bytes, durationMs);
  }

  failed(cause: string): void {
    this.#failures[cause] = (this.#failures[cause] ?? 0) + 1;
  }

  retried(cause: string): void {
    this.#retries[cause] = (this.#retries[cause] ?? 0) + 1;
  }

  hedged(cause: HedgeCause): void {
    this.hedges[cause].sent++;
  }

  hedgeEnded(cause: HedgeCause, winner: HedgeWinner): void {
    this.hedges[cause][winner]++;
  }

  hedgeRefused(refusal: HedgeRefusal): void {
    this.hedgeRefusals[refusal]++;
  }

  /** Milliseconds that 95% of the latest reads of about this size took; infinite while unknown. */
  slowMs(sizeBytes: number): number {
    return this.recentReads.slowMs(sizeBytes);
  }

  openStream(direction: 'read' | 'write'): MeasuredStream {
    return this.streams[direction].open();
  }

  /** Requests by kind. */
  get requests(): Readonly<Counts<RequestKind>> {
    return this.#requests;
  }

  /** For health: summed up. A second request that nobody won counts as lost. */
  get counts() {
    const hedges = { sent: 0, won: 0, lost: 0 };
    for (const { sent, first, second, nobody } of Object.values(this.hedges)) {
      hedges.sent += sent;
      hedges.won += second;
      hedges.lost += first + nobody;
    }
    let requests = 0;
    for (const kind of requestKinds) requests += this.#requests[kind];
    const [retries, failures] = [{ ...this.#retries }, { ...this.#failures }];
    return { requests, retries, failures, hedges };
  }

  #timesOf(kind: RequestKind, band: number): RequestTimes {
    const bands = this.times[kind];
    bands[band] ??= {
      seconds: new Histogram(secondBounds),
      firstByteSeconds: new Histogram(secondBounds),
      bytesPerSecond: new Histogram(bytesPerSecondBounds),
    };
    return bands[band] as RequestTimes;
  }
}

/** Of all stores, by their names. */
export class StoreMeters {
  /** No request to it is tried again, or asked twice. */
  readonly local = new StoreMeter();
  readonly remotes = new Map<string, StoreMeter>();
  readonly #causes: readonly string[];

  constructor(causes: readonly string[]) {
    this.#causes = causes;
  }

  /** Of a store over a network. */
  ofRemote(name: string): StoreMeter {
    return getOrMake(this.remotes, name, () => new StoreMeter({ causes: this.#causes }));
  }
}

function countsOf<T extends string>(names: readonly T[]): Counts<T> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Counts<T>;
}
