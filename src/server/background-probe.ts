// The background probe of `serve`, put together: as whom, where and how often it measures, and what
// of its results Prometheus reads.

import { nowMs } from '../core/clock.ts';
import type { RequestServices } from '../gateway/services.ts';
import { ProbeMetrics } from '../instruments/probe-metrics.ts';
import { probeSizes, retryPauseMs } from '../instruments/sample.ts';
import type { Base } from './base.ts';
import { opened } from './closers.ts';
import type { DataFolder } from './folder/data-folder.ts';
import { ProbeAccount } from './probe-account.ts';
import { ProbeSupervisor } from './probe-supervisor.ts';
import type { ProbeJob } from './processes/probe-job.ts';
import type { Config } from './settings/config.ts';

/** One process measures for this long; the next one finds the stores that were added meanwhile. */
const runMs = 24 * 3600 * 1000;
const pauseMs = { min: 60_000, max: 3600_000 };
/** A reason that stays the same is reported once in this time. */
const repeatMsMin = 24 * 3600 * 1000;
const toldMax = 100;

/** Begins to probe, where that is asked for, when the gateway listens at `endpoint`. */
export function startProbe(
  { config, folder, closers, instruments, metrics: { registry }, log }: Base,
  services: RequestServices,
  endpoint: string,
): void {
  const metrics = new ProbeMetrics(registry);
  if (!config.probe) return;
  const { sealer } = folder;
  const onProblem = onceADay((text) => log.warn('the probe', text));
  const { directory } = services;
  const spendMax = config.probeSpendMax;
  const account = new ProbeAccount({ services, directory, sealer, spendMax, onProblem });
  const supervisor = new ProbeSupervisor({
    prepare: async () => {
      const credentials = await account.ensure();
      const places = await account.ensureBuckets();
      if (places.length === 0) throw new Error('no store is ready to be measured');
      return jobOf(config, { folder, endpoint, credentials, places });
    },
    underWay: () => instruments.underWay,
    onSample: (sample) => metrics.add(sample),
    onProblem,
    pauseMs,
  });
  opened(closers, supervisor).start();
}

function jobOf(
  config: Config,
  parts: Pick<ProbeJob, 'endpoint' | 'credentials' | 'places'> & { folder: DataFolder },
): ProbeJob {
  const { folder, ...where } = parts;
  return {
    ...where,
    region: config.region,
    isPathStyle: true,
    series: ['sizes', 'latency'],
    sizesBytes: [...probeSizes],
    surge: { threadsMin: 1, threadsMax: 1, eachMs: 0, sizeBytes: 0 },
    parts: { parallel: [1], partBytes: 0 },
    count: null,
    forMs: runMs,
    meanIntervalMs: config.probeIntervalMs,
    line: { isFresh: false, silenceMsMax: 60_000 },
    retryPauseMs,
    prefix: '',
    isKept: false,
    samples: folder.samplesFolder,
    // Nobody else has these buckets, and each new container is another machine.
    owner: '0'.repeat(16),
    // The gateway itself enforces the limit.
    spendMax: null,
  };
}

function onceADay(tell: (text: string) => void): (text: string) => void {
  const toldMs = new Map<string, number>();
  return (text) => {
    if (nowMs() - (toldMs.get(text) ?? Number.NEGATIVE_INFINITY) < repeatMsMin) return;
    if (toldMs.size >= toldMax) toldMs.clear();
    toldMs.set(text, nowMs());
    tell(text);
  };
}
