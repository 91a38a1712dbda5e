// What was measured of stores, for Prometheus: read from the meters that the drivers decide by,
// when somebody asks. Invariant: there are no more series than stores times kinds, size bands and
// causes.
import type { Histogram } from './histogram.ts';
import type { Labels, MetricRegistry } from './metric-registry.ts';
import { recentSizes } from './recent-latencies.ts';
import { sizeBands } from './size-band.ts';
import {
  hedgeCauses,
  hedgeRefusals,
  hedgeWinners,
  type RequestTimes,
  requestKinds,
  type StoreMeter,
  type StoreMeters,
} from './store-meter.ts';

type Series<T> = Iterable<readonly [Labels, T]>;
type SeriesOf<T> = (meter: StoreMeter, store: string) => Series<T>;
/** What to collect when somebody reads: of each store that is asked. */
type Collected = <T>(seriesOf: SeriesOf<T>) => { collect: () => Series<T> };

/** How metrics call what a read waited for. */
const causeNames = { connect: 'connect', firstByte: 'first_byte', body: 'body' } as const;

export function watchStoreMeters(registry: MetricRegistry, meters: StoreMeters): void {
  const remote: Collected = (seriesOf) => ({ collect: () => flatten(meters.remotes, seriesOf) });
  const all: Collected = (seriesOf) => ({
    collect: () => flatten([['local', meters.local], ...meters.remotes], seriesOf),
  });
  watchRequests(registry, all);
  watchFailures(registry, remote);
  watchHedges(registry, remote);
  watchStreams(registry, remote);
}

function watchStreams(registry: MetricRegistry, remote: Collected): void {
  registry.gauge({
    name: 'bursar_store_stream_window',
    isLargest: true,
    help: 'Transfers under way that the next stream begins with; 0: no stream has settled yet.',
    ...remote(({ streams: { read, write } }, store) => [
      [{ store, direction: 'read' }, read.current ?? 0],
      [{ store, direction: 'write' }, write.current ?? 0],
    ]),
  });
  registry.histogram({
    name: 'bursar_store_stream_window_settled',
    help: 'Transfers under way that streams settled at.',
    ...remote(({ streams: { read, write } }, store) => [
      [{ store, direction: 'read' }, read.settled],
      [{ store, direction: 'write' }, write.settled],
    ]),
  });
  registry.histogram({
    name: 'bursar_store_stream_bytes_per_second',
    help: 'What came through streams, in rounds of some transfers.',
    ...remote(({ streams: { read, write } }, store) => [
      [{ store, direction: 'read' }, read.rates],
      [{ store, direction: 'write' }, write.rates],
    ]),
  });
}

function watchRequests(registry: MetricRegistry, all: Collected): void {
  registry.counter({
    name: 'bursar_store_requests_total',
    help: 'Requests that were sent to the store, each try counted.',
    ...all(({ requests }, store) =>
      requestKinds.map((kind) => [{ store, kind }, requests[kind]] as const),
    ),
  });
  const histograms = {
    bursar_store_request_seconds: ['From a request to the end of its answer.', 'seconds'],
    bursar_store_first_byte_seconds: [
      'From a request to the beginning of its answer.',
      'firstByteSeconds',
    ],
    bursar_store_throughput_bytes_per_second: [
      'Bytes of a request by the time that it took.',
      'bytesPerSecond',
    ],
  } as const;
  for (const [name, [help, which]] of Object.entries(histograms)) {
    registry.histogram({ name, help, ...all((meter, store) => timesOf(meter, store, which)) });
  }
}

function watchFailures(registry: MetricRegistry, remote: Collected): void {
  registry.counter({
    name: 'bursar_store_failures_total',
    help: 'Tries that failed, by why.',
    ...remote(({ counts }, store) => byCause(store, counts.failures)),
  });
  registry.counter({
    name: 'bursar_store_retries_total',
    help: 'Tries after a failure, by why the one before had failed.',
    ...remote(({ counts }, store) => byCause(store, counts.retries)),
  });
}

function watchHedges(registry: MetricRegistry, remote: Collected): void {
  registry.gauge({
    name: 'bursar_store_read_p95_seconds',
    isLargest: true,
    help: 'What 95% of the latest reads of up to so many bytes took: slower ones are asked twice.',
    ...remote((meter, store) => p95sOf(meter, store)),
  });
  registry.counter({
    name: 'bursar_store_hedges_total',
    help: 'Reads that were asked a second time, by what the first request waited for.',
    ...remote(({ hedges }, store) =>
      hedgeCauses.map(
        (cause) => [{ store, cause: causeNames[cause] }, hedges[cause].sent] as const,
      ),
    ),
  });
  registry.counter({
    name: 'bursar_store_hedge_ends_total',
    help: 'The same when they have ended, by whose answer was taken.',
    ...remote(({ hedges }, store) =>
      hedgeCauses.flatMap((cause) =>
        hedgeWinners.map(
          (winner) => [{ store, cause: causeNames[cause], winner }, hedges[cause][winner]] as const,
        ),
      ),
    ),
  });
  registry.counter({
    name: 'bursar_store_hedge_refusals_total',
    help:
      'Reads that were not asked a second time though slow: too many were, or no connection is ' +
      'free.',
    ...remote((meter, store) =>
      hedgeRefusals.map((reason) => [{ store, reason }, meter.hedgeRefusals[reason]] as const),
    ),
  });
}

function* flatten<T>(
  meters: Iterable<readonly [string, StoreMeter]>,
  seriesOf: SeriesOf<T>,
): Generator<readonly [Labels, T]> {
  for (const [store, meter] of meters) yield* seriesOf(meter, store);
}

function byCause(store: string, counts: Readonly<Record<string, number>>): Series<number> {
  return Object.entries(counts).map(([cause, count]) => [{ store, cause }, count] as const);
}

function* timesOf(
  { times }: StoreMeter,
  store: string,
  which: keyof RequestTimes,
): Generator<readonly [Labels, Histogram]> {
  for (const kind of requestKinds) {
    const hasBytes = kind === 'get' || kind === 'put';
    if (which === 'bytesPerSecond' && !hasBytes) continue;
    for (const [band, measured] of times[kind].entries()) {
      if (!measured) continue;
      const labels: Record<string, string> = { store, kind };
      if (hasBytes) labels.size = sizeBands[band] as string;
      yield [labels, measured[which]];
    }
  }
}

/** Of sizes of which nothing is known yet there is no series. */
function p95sOf(meter: StoreMeter, store: string): Series<number> {
  return recentSizes
    .map((bytes) => [{ store, up_to_bytes: String(bytes) }, meter.slowMs(bytes) / 1000] as const)
    .filter(([, seconds]) => Number.isFinite(seconds));
}
