// Whether and how requests are traced, by the variables that all of OpenTelemetry's programs have.
// Invariant: nothing that is given and not understood is passed over; where no exporter is named,
// nothing is traced. What concerns the exporter alone (headers, certificates, compression, its
// timeout) and the resource's attributes, its own packages read.
// Specification: OpenTelemetry, "Environment Variable Specification" and "OTLP Exporter
// Configuration".

import { CommandFailure } from '../../core/command-failure.ts';
import type { Environment } from './config.ts';

export interface TracingChoice {
  protocol: 'http/protobuf' | 'http/json';
  /** The share of requests without a trace that begin one, 0 to 1. */
  share: number;
  isParentBased: boolean;
  batches: { waitingMax: number; spansMax?: number; intervalMs?: number; exportMsMax?: number };
}

const spansWaitingDefault = 2048;
/** They take about 100 MB. */
const spansWaitingMax = 100_000;
const spansPerBatchDefault = 512;

/** null: nothing is traced. Throws `CommandFailure` (usage). */
export function chooseTracing(environment: Environment): TracingChoice | null {
  const read = (name: string): string | undefined => environment[name]?.trim() || undefined;
  if (read('OTEL_SDK_DISABLED')?.toLowerCase() === 'true') return null;
  const endpoints = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'];
  const exporter =
    read('OTEL_TRACES_EXPORTER') ?? (endpoints.some((name) => read(name)) ? 'otlp' : 'none');
  if (exporter === 'none') return null;
  if (exporter !== 'otlp') refuse('OTEL_TRACES_EXPORTER', exporter, 'must be otlp or none');
  for (const name of endpoints) checkUrl(name, read(name));
  return {
    protocol: protocolOf(read),
    ...samplerOf(read),
    batches: batchesOf(read),
  };
}

type Read = (name: string) => string | undefined;

function refuse(name: string, value: string, why: string): never {
  throw new CommandFailure('usage', `${name} ${JSON.stringify(value)}: ${why}`);
}

function checkUrl(name: string, value: string | undefined): void {
  if (value === undefined) return;
  const protocol = URL.canParse(value) ? new URL(value).protocol : '';
  if (protocol !== 'http:' && protocol !== 'https:') refuse(name, value, 'must be an http URL');
}

function protocolOf(read: Read): TracingChoice['protocol'] {
  const names = ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'];
  const name = names.find((one) => read(one)) ?? '';
  const protocol = read(name) ?? 'http/protobuf';
  if (protocol === 'http/protobuf' || protocol === 'http/json') return protocol;
  return refuse(name, protocol, 'must be http/protobuf or http/json; gRPC is not spoken');
}

function samplerOf(read: Read): Pick<TracingChoice, 'share' | 'isParentBased'> {
  const sampler = read('OTEL_TRACES_SAMPLER') ?? 'parentbased_always_on';
  const root = sampler.replace(/^parentbased_/, '');
  const isParentBased = root !== sampler;
  if (root === 'always_on') return { share: 1, isParentBased };
  if (root === 'always_off') return { share: 0, isParentBased };
  if (root !== 'traceidratio') {
    refuse('OTEL_TRACES_SAMPLER', sampler, '[parentbased_]always_on, always_off or traceidratio');
  }
  const given = read('OTEL_TRACES_SAMPLER_ARG') ?? '1';
  const share = Number(given);
  if (!(share >= 0 && share <= 1)) refuse('OTEL_TRACES_SAMPLER_ARG', given, 'must be 0 to 1');
  return { share, isParentBased };
}

function batchesOf(read: Read): TracingChoice['batches'] {
  const count = (name: string, max: number): number | undefined => {
    const given = read(name);
    if (given === undefined) return undefined;
    const value = Number(given);
    if (Number.isInteger(value) && value >= 1 && value <= max) return value;
    return refuse(name, given, `must be a whole number from 1 to ${max}`);
  };
  const waitingMax = count('OTEL_BSP_MAX_QUEUE_SIZE', spansWaitingMax) ?? spansWaitingDefault;
  const spansMax = count('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', spansWaitingMax);
  return {
    waitingMax,
    spansMax: Math.min(waitingMax, spansMax ?? spansPerBatchDefault),
    intervalMs: count('OTEL_BSP_SCHEDULE_DELAY', 3_600_000),
    exportMsMax: count('OTEL_BSP_EXPORT_TIMEOUT', 3_600_000),
  };
}
