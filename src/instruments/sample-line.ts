// A sample as a line of JSON. Invariant: what is read back is a sample with every number in its
// range and nothing else in it, or nothing; who reads need not check it again.
// Specification: docs/formats/samples.md.

import { isObject, parseJson } from '../core/json.ts';
import type { Sample, Series } from './sample.ts';
import { type Stage, stages } from './stage-clock.ts';

const version = 1;
const textLengthMax = 200;
const retriesMax = 5;
const kinds: readonly unknown[] = ['read', 'write'];
const seriesNames: readonly Series[] = ['sizes', 'latency', 'surge', 'parts', 'traffic'];

/** With its line end. */
export function renderSample(sample: Sample): string {
  return `${JSON.stringify({ v: version, ...sample }, shorten)}\n`;
}

/** Microseconds are as fine as a clock is; errors are others' words. */
function shorten(_key: string, value: unknown): unknown {
  if (typeof value === 'number') {
    return Number.isInteger(value) ? value : Math.round(value * 1000) / 1000;
  }
  return typeof value === 'string' ? value.slice(0, textLengthMax) : value;
}

/** undefined: it is none, or of a version that is not known. */
export function parseSample(line: string): Sample | undefined {
  const given = parseJson(line);
  if (!isObject(given) || given.v !== version) return undefined;
  const { timeMs, series, kind, target, sizeBytes, durationMs, firstByteMs, retries } = given;
  const { error } = given;
  const fits =
    isTime(timeMs) &&
    seriesNames.includes(series as Series) &&
    kinds.includes(kind) &&
    isText(target) &&
    isCount(sizeBytes) &&
    isDuration(durationMs) &&
    isDuration(firstByteMs) &&
    isCount(retries, retriesMax) &&
    (error === null || isText(error));
  if (!fits) return undefined;
  const sample = {
    timeMs,
    series,
    kind,
    target,
    sizeBytes,
    durationMs,
    firstByteMs,
    retries,
    error,
  } as Sample;
  return addRest(sample, given) ? sample : undefined;
}

/** What not every sample has. False: something of it makes no sense. */
function addRest(sample: Sample, given: Record<string, unknown>): boolean {
  const { pair, threads, parallelParts, costPicodollars, stages: times, weight } = given;
  if (pair !== undefined) {
    if (!isObject(pair) || !isCount(pair.id) || (pair.of !== 1 && pair.of !== 2)) return false;
    sample.pair = { id: pair.id, of: pair.of };
  }
  if (threads !== undefined) {
    if (!isCount(threads, 1e6)) return false;
    sample.threads = threads;
  }
  if (parallelParts !== undefined) {
    if (!isCount(parallelParts, 1e6)) return false;
    sample.parallelParts = parallelParts;
  }
  if (costPicodollars !== undefined) {
    if (typeof costPicodollars !== 'string' || !/^\d{1,19}$/.test(costPicodollars)) return false;
    sample.costPicodollars = costPicodollars;
  }
  if (weight !== undefined) {
    if (!isDuration(weight) || weight < 1) return false;
    sample.weight = weight;
  }
  return times === undefined || addStages(sample, times);
}

function addStages(sample: Sample, times: unknown): boolean {
  if (!isObject(times)) return false;
  const kept: Partial<Record<Stage, number>> = {};
  for (const stage of stages) {
    const ms = times[stage];
    if (ms === undefined) continue;
    if (!isDuration(ms)) return false;
    kept[stage] = ms;
  }
  sample.stages = kept;
  return true;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= textLengthMax;
}

/** Up to the last moment that a Date can be. */
function isTime(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= 8.64e15;
}

/** None is shorter than a nanosecond: what is divided by it must stay a number. */
function isDuration(value: unknown): value is number {
  return typeof value === 'number' && (value === 0 || value >= 1e-6) && value <= 1e12;
}

function isCount(value: unknown, max = Number.MAX_SAFE_INTEGER): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= max;
}
