// One run of a probe, as the command and the gateway's background task have it: plain data, since
// it crosses to another process, and what is done with it. Invariant: one probe at a time has a
// folder of samples, and only its own objects are ever removed.
import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { hostname } from 'node:os';
import { afterwards, atEnd } from '../../core/closing.ts';
import { CommandFailure, messageOfFailure } from '../../core/command-failure.ts';
import {
  type ProbeOptions,
  type ProbeOutcome,
  type ProbeParts,
  runProbe,
} from '../../instruments/probe/probe.ts';
import { ProbeLine } from '../../instruments/probe/probe-line.ts';
import { ProbeObjects } from '../../instruments/probe/probe-objects.ts';
import { type ProbeCredentials, ProbeTarget } from '../../instruments/probe/probe-target.ts';
import { type ProbePrices, Spending } from '../../instruments/probe/spending.ts';
import type { Sample } from '../../instruments/sample.ts';
import { SampleLog } from '../../instruments/sample-log.ts';
import type { ProbePlace } from './probe-place.ts';

export interface ProbeJob extends Omit<ProbeOptions, 'targets' | 'owner'> {
  endpoint: string;
  region: string;
  isPathStyle: boolean;
  credentials: ProbeCredentials;
  places: readonly ProbePlace[];
  /** The folder of the samples. */
  samples: string;
  /**
   * 16 hexadecimal digits that stand for the one owner of the buckets; absent: they are made of
   * machine and folder.
   */
  owner?: string;
  /** Picodollars in decimal; null: there is no limit. */
  spendMax: string | null;
}

export interface JobParts extends Omit<ProbeParts, 'spending' | 'keep'> {
  /** Told of each sample once it is durable. */
  onSample(sample: Sample): void;
}

export interface JobOutcome extends ProbeOutcome {
  spent: bigint;
}

/** Throws `CommandFailure` where samples cannot be kept. */
export async function runProbeJob(job: ProbeJob, parts: JobParts): Promise<JobOutcome> {
  const { samples, places, spendMax, ...options } = job;
  const log = await openLog(samples);
  await using _log = afterwards(() => log.close());
  const spending = new Spending(spendMax === null ? null : BigInt(spendMax));
  const keep = async (sample: Sample): Promise<void> => {
    try {
      await log.append(sample);
    } catch (error) {
      const message = `cannot keep samples in ${samples}: ${messageOfFailure(error)}`;
      throw new CommandFailure('failed', message, error);
    }
    parts.onSample(sample);
  };
  const targets = targetsOf(job);
  const owner = job.owner ?? ownerOf(samples);
  const outcome = await runProbe({ ...options, targets, owner }, { ...parts, spending, keep });
  return { ...outcome, spent: spending.spent };
}

/** Removes what probes of anybody left under the prefix. Gives how many objects and uploads. */
export async function removeProbeObjects(
  job: Pick<ProbeJob, 'endpoint' | 'region' | 'isPathStyle' | 'credentials' | 'places'> &
    Pick<ProbeJob, 'prefix' | 'line'>,
  signal: AbortSignal,
): Promise<number> {
  let removed = 0;
  for (const target of targetsOf(job)) {
    const line = new ProbeLine(target, job.line);
    const objects = new ProbeObjects({ line, prefix: job.prefix, owner: null, signal });
    using _line = atEnd(() => line.close());
    removed += await objects.removeAll();
  }
  return removed;
}

function targetsOf(
  job: Pick<ProbeJob, 'endpoint' | 'region' | 'isPathStyle' | 'credentials' | 'places'>,
): ProbeTarget[] {
  const { endpoint, region, isPathStyle } = job;
  const credentials = async () => job.credentials;
  return job.places.map(({ bucket, name, prices: told }) => {
    const prices = told && pricesOf(told);
    return new ProbeTarget({ name, endpoint, bucket, region, isPathStyle, prices, credentials });
  });
}

async function openLog(samples: string): Promise<SampleLog> {
  try {
    return await SampleLog.open(samples, { name: 'probe' });
  } catch (error) {
    throw new CommandFailure('failed', messageOfFailure(error), error);
  }
}

/** The folder's lock is held on this machine, so two probes with one name never run at a time. */
function ownerOf(samples: string): string {
  const name = `${hostname()}\n${realpathSync(samples)}`;
  return createHash('sha256').update(name).digest('hex').slice(0, 16);
}

function pricesOf(prices: Readonly<Record<keyof ProbePrices, string>>): ProbePrices {
  return {
    perPut: BigInt(prices.perPut),
    perGet: BigInt(prices.perGet),
    perGbIn: BigInt(prices.perGbIn),
    perGbOut: BigInt(prices.perGbOut),
  };
}
