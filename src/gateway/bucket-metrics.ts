// What is counted of the requests for buckets whose owners configured metrics. Invariants: a bucket
// without any costs its requests one look-up in memory, after their answers; and however many
// configurations a tenant makes, it has few series, and takes none from another.
import type { MetricsConfiguration } from '../catalog/bucket-metrics.ts';
import type { Bucket } from '../catalog/buckets.ts';
import { monotonicMs } from '../core/clock.ts';
import { Histogram, secondBounds } from '../instruments/histogram.ts';
import type { Labels, MetricRegistry } from '../instruments/metric-registry.ts';
import type { ObservedRequest } from '../instruments/observed-request.ts';
import type { SettingCache } from '../state/setting-cache.ts';

/** Configurations of a tenant, and tenants, of which requests are counted. */
export const metersMax = 25;
const tenantsMax = 50;
/** One that counted nothing for so long gives its place to another. */
const idleMs = 60 * 60 * 1000;

const kinds = ['Get', 'Head', 'Put', 'Post', 'Delete', 'List'] as const;
const statuses = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const;

type Ended = Pick<
  ObservedRequest,
  'method' | 'operation' | 'status' | 'bytesIn' | 'bytesOut' | 'durationMs' | 'clock'
>;
type Series<T> = Iterable<readonly [Labels, T]>;

/** What one configuration counts. */
class Meter {
  readonly labels: Labels;
  readonly directions: readonly Labels[];
  readonly requests = new Float64Array(kinds.length * statuses.length);
  readonly #requestLabels: Labels[] = [];
  readonly bytes = [0, 0];
  readonly seconds = new Histogram(secondBounds);
  readonly firstByteSeconds = new Histogram(secondBounds);
  usedMs = 0;

  constructor(labels: Labels) {
    this.labels = labels;
    this.directions = ['in', 'out'].map((direction) => ({ ...labels, direction }));
  }

  count(request: Ended): void {
    const status = Math.min(Math.trunc(request.status / 100), statuses.length - 1);
    const index = kindOf(request) * statuses.length + status;
    this.requests[index] = (this.requests[index] as number) + 1;
    this.bytes[0] = (this.bytes[0] as number) + request.bytesIn;
    this.bytes[1] = (this.bytes[1] as number) + request.bytesOut;
    this.seconds.record(request.durationMs / 1000);
    this.firstByteSeconds.record(request.clock.firstByteMs / 1000);
    this.usedMs = monotonicMs();
  }

  *requestsByKind(): Series<number> {
    for (const [index, count] of this.requests.entries()) {
      if (count === 0) continue;
      this.#requestLabels[index] ??= {
        ...this.labels,
        kind: kinds[Math.trunc(index / statuses.length)] as string,
        status: statuses[index % statuses.length] as string,
      };
      yield [this.#requestLabels[index], count];
    }
  }
}

export class BucketMetrics {
  readonly #settings: Pick<SettingCache<MetricsConfiguration[]>, 'find'>;
  /** By tenant, and within it by bucket and id. */
  readonly #tenants = new Map<string, Map<string, Meter>>();

  constructor(settings: Pick<SettingCache<MetricsConfiguration[]>, 'find'>) {
    this.#settings = settings;
  }

  /** A request for this bucket has ended. `key`: of its object; null: it is about none. */
  count(bucket: Bucket, key: string | null, request: Ended): void {
    const found = this.#settings.find(bucket.id);
    if (found === null) return;
    const count = (all: MetricsConfiguration[] | null) =>
      this.#countBy(all ?? [], bucket, key, request);
    // A database that is closed meanwhile is that of a gateway that stops.
    if (found instanceof Promise) found.then(count, () => undefined);
    else count(found);
  }

  #countBy(
    configurations: readonly MetricsConfiguration[],
    bucket: Bucket,
    key: string | null,
    request: Ended,
  ): void {
    let hasRoom = true;
    for (const { id, prefix } of configurations) {
      if (prefix !== undefined && !key?.startsWith(prefix)) continue;
      const meter = this.#meterOf(bucket, id, hasRoom);
      meter?.count(request);
      // A bucket may have a thousand of them, for which room is looked for once.
      hasRoom &&= meter !== undefined;
    }
  }

  /** undefined: the tenant has as many as it may. */
  #meterOf({ tenant, name }: Bucket, configuration: string, mayBeNew: boolean): Meter | undefined {
    let meters = this.#tenants.get(tenant);
    if (!meters) {
      const isUsed = (own: Map<string, Meter>) => [...own.values()].some(isBusy);
      if (!makeRoom(this.#tenants, tenantsMax, isUsed)) return undefined;
      meters = new Map();
      this.#tenants.set(tenant, meters);
    }
    // No bucket's name has a slash.
    const place = `${name}/${configuration}`;
    const known = meters.get(place);
    if (known || !mayBeNew) return known;
    if (!makeRoom(meters, metersMax, isBusy)) return undefined;
    const made = new Meter({ tenant, bucket: name, configuration });
    meters.set(place, made);
    return made;
  }

  watch(registry: MetricRegistry): void {
    registry.counter({
      ...{ name: 'bursar_bucket_requests_total', isPrivate: true },
      help: 'Requests that have ended, by the metrics configurations of buckets.',
      collect: () => this.#each((meter) => meter.requestsByKind()),
    });
    registry.counter({
      ...{ name: 'bursar_bucket_body_bytes_total', isPrivate: true },
      help: 'Bytes of their bodies that came in and went out.',
      collect: () =>
        this.#each(({ directions, bytes }) =>
          directions.map((labels, index) => [labels, bytes[index] as number] as const),
        ),
    });
    registry.histogram({
      ...{ name: 'bursar_bucket_request_duration_seconds', isPrivate: true },
      help: 'From when they were taken up to the end of their answers.',
      collect: () => this.#each(({ labels, seconds }) => [[labels, seconds]]),
    });
    registry.histogram({
      ...{ name: 'bursar_bucket_request_first_byte_seconds', isPrivate: true },
      help: 'From when they were taken up to the first bytes of their answers.',
      collect: () => this.#each(({ labels, firstByteSeconds }) => [[labels, firstByteSeconds]]),
    });
  }

  *#each<T>(seriesOf: (meter: Meter) => Series<T>): Series<T> {
    for (const meters of this.#tenants.values()) {
      for (const meter of meters.values()) yield* seriesOf(meter);
    }
  }
}

function isBusy({ usedMs }: Meter): boolean {
  return usedMs > monotonicMs() - idleMs;
}

/** Whether another fits, for which one may go that is not used. */
function makeRoom<T>(all: Map<string, T>, max: number, isUsed: (one: T) => boolean): boolean {
  if (all.size < max) return true;
  for (const [name, one] of all) {
    if (!isUsed(one)) return all.delete(name);
  }
  return false;
}

function kindOf({ operation, method }: Ended): number {
  if (operation?.startsWith('List')) return kinds.indexOf('List');
  return Math.max(
    kinds.findIndex((kind) => kind.toUpperCase() === method),
    0,
  );
}
