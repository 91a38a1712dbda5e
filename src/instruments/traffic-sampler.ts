// Samples of real traffic: of requests that move object bytes, as many as the disk can keep for a
// week. Invariants: it never delays a request and never fails one, so what cannot be written is
// dropped and counted; and each sample says how many requests it stands for, so that none is
// overlooked.
import { nowMs } from '../core/clock.ts';
import type { ObservedRequest, RequestObserver } from './observed-request.ts';
import type { Sample } from './sample.ts';
import type { SampleLog } from './sample-log.ts';
import { type Stage, stages } from './stage-clock.ts';

/** Operations whose time is that of a transfer. */
const kinds: ReadonlyMap<string, Sample['kind']> = new Map([
  ['GetObject', 'read'],
  ['PutObject', 'write'],
  ['UploadPart', 'write'],
]);

/** In the long run one a second is kept, some 30 MB a day; after a pause up to 50 a second. */
const windowMs = 1000;
const keptPerWindowMax = 50;
const creditMax = 3600;

export interface SamplerCounts {
  /** Requests that could have been samples. */
  requests: number;
  samples: number;
  /** Samples that were drawn and could not be written. */
  dropped: number;
}

/** What it cost is worked out when it is written. */
interface Drawn extends Pick<ObservedRequest, 'budget'> {
  sample: Sample;
}

export class TrafficSampler implements RequestObserver {
  readonly counts: SamplerCounts = { requests: 0, samples: 0, dropped: 0 };
  readonly #log: Pick<SampleLog, 'appendSoon' | 'close'>;
  readonly #passedOver: { tenant: string; principal: string } | null;
  /** Of how many threads that together keep as many as one. */
  readonly #threads: number;
  #credit: number;
  #creditedMs = nowMs();
  /** Drawn of those of this window, each as likely as the others (Vitter's Algorithm R). */
  #drawn: Drawn[] = [];
  #drawnMax = 0;
  #seen = 0;
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;

  /** `passedOver`: a principal whose requests are no traffic: the gateway's own probe. */
  constructor(
    log: Pick<SampleLog, 'appendSoon' | 'close'>,
    passedOver: { tenant: string; principal: string } | null = null,
    threads = 1,
  ) {
    this.#log = log;
    this.#passedOver = passedOver;
    this.#threads = threads;
    this.#credit = creditMax / threads;
  }

  observe(request: ObservedRequest): void {
    const { operation, status } = request;
    const kind = operation === null ? undefined : kinds.get(operation);
    // A client that went away, or that asked for what does not exist, says nothing about how the
    // gateway performs.
    if (kind === undefined || status === 0 || (status >= 300 && status < 500)) return;
    const { tenant, principal } = this.#passedOver ?? {};
    if (request.principal === principal && request.tenant === tenant) return;
    if (this.#timer === null) this.#beginWindow();
    this.counts.requests++;
    this.#seen++;
    const place = this.#seen <= this.#drawnMax ? this.#seen - 1 : this.#drawPlace();
    if (place >= this.#drawnMax) return;
    this.#drawn[place] = { sample: sampleOf(request, kind), budget: request.budget };
  }

  /** Keeps what other threads have drawn. */
  keep(samples: readonly Sample[]): void {
    this.#log.appendSoon(samples).then(
      () => {
        this.counts.samples += samples.length;
      },
      () => {
        this.counts.dropped += samples.length;
      },
    );
  }

  /** Resolves when what was drawn is written, or dropped. */
  async close(): Promise<void> {
    await this.#writing;
    this.#endWindow();
    await this.#writing;
    await this.#log.close();
  }

  #drawPlace(): number {
    return Math.floor(Math.random() * this.#seen);
  }

  #beginWindow(): void {
    const now = nowMs();
    const since = Math.max(0, now - this.#creditedMs) / windowMs / this.#threads;
    this.#credit = Math.min(creditMax / this.#threads, this.#credit + since);
    this.#creditedMs = now;
    const keptMax = Math.ceil(keptPerWindowMax / this.#threads);
    this.#drawnMax = Math.max(1, Math.min(keptMax, Math.floor(this.#credit)));
    this.#timer = setTimeout(() => this.#endWindow(), windowMs);
    this.#timer.unref();
  }

  #endWindow(): void {
    clearTimeout(this.#timer ?? undefined);
    this.#timer = null;
    const drawn = this.#drawn;
    if (drawn.length === 0) return;
    const weight = this.#seen / drawn.length;
    const samples = drawn.map(({ sample, budget }) => {
      const cost = budget?.cost ?? 0n;
      if (cost > 0n) sample.costPicodollars = String(cost);
      if (weight > 1) sample.weight = weight;
      return sample;
    });
    this.#drawn = [];
    this.#seen = 0;
    // A disk that hangs must not have samples pile up.
    if (this.#writing) {
      this.counts.dropped += samples.length;
      return;
    }
    this.#credit -= samples.length;
    this.#writing = this.#write(samples);
  }

  async #write(samples: readonly Sample[]): Promise<void> {
    try {
      await this.#log.appendSoon(samples);
      this.counts.samples += samples.length;
    } catch {
      this.counts.dropped += samples.length;
    } finally {
      this.#writing = null;
    }
  }
}

function sampleOf(request: ObservedRequest, kind: Sample['kind']): Sample {
  const { store, durationMs, clock, error, bytesIn, bytesOut } = request;
  const times: Partial<Record<Stage, number>> = {};
  for (let place = 0; place < stages.length; place++) {
    const ms = clock.times[place] as number;
    if (ms > 0) times[stages[place] as Stage] = ms;
  }
  return {
    timeMs: nowMs() - durationMs,
    series: 'traffic',
    kind,
    target: store === null ? 'gateway' : `gateway, store ${store}`,
    sizeBytes: kind === 'read' ? bytesOut : bytesIn,
    durationMs,
    firstByteMs: clock.firstByteMs,
    retries: 0,
    error,
    stages: times,
  };
}
