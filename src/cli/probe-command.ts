// `bursar probe`: measures an S3 server as the studies of S3 did. Exit codes: 0 it measured, until
// the end, until its money was spent or until it was stopped; 1 it could not; 2 asked for wrongly.
import type { WriteStream } from 'node:tty';
import type { Command } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { formatUsd } from '../core/money.ts';
import { ProbeSummary, type SummaryRow } from '../instruments/probe/probe-summary.ts';
import {
  type JobOutcome,
  type ProbeJob,
  removeProbeObjects,
  runProbeJob,
} from '../server/processes/probe-job.ts';
import { print, printJson, printTable } from './output.ts';
import {
  addProbeFlags,
  describeBytes,
  estimateBytes,
  type ProbeFlags,
  readJob,
} from './probe-flags.ts';
import { CountProgress, formatCount } from './progress.ts';

const help = `
Series: "sizes" writes and reads pairs of objects of each size; "latency" the same with 4096 bytes;
"surge" has more and more threads for a time each; "parts" uploads an object in parallel parts.
What it writes is named bursar-probe-… under the prefix, and removed again.

Keys: those of the other commands for their gateway; for another --endpoint AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, or a profile (--profile, AWS_PROFILE) of ~/.aws/credentials.

Examples:
  bursar probe --bucket lab
  bursar probe --endpoint https://s3.eu-west-1.amazonaws.com --region eu-west-1 --bucket lab \\
    --for 7d --mean-interval 30m --spend-max 5.00
  bursar probe --bucket lab --series surge,parts --threads 1-6 --surge-seconds 60 --parts 1,2,4,8
  bursar report --out report.html`;

export function addProbeCommand(program: Command): void {
  const command = program
    .command('probe')
    .description('measure an S3 server: latency, bandwidth, availability; see bursar report')
    .addHelpText('after', help)
    .action(async (flags: ProbeFlags) => {
      if (flags.clean) await clean(flags);
      else await probe(flags);
    });
  addProbeFlags(command);
}

async function probe(flags: ProbeFlags): Promise<void> {
  const job = readJob(flags);
  const progress = new CountProgress(process.stderr as WriteStream, 'samples');
  const summary = new ProbeSummary();
  const { stop, abandon } = signals();
  announce(job);
  const outcome = await runProbeJob(job, {
    stop,
    abandon,
    onSample: (sample) => {
      summary.add(sample);
      progress.show(summary.count);
    },
    onNotice: (text) => {
      progress.clear();
      process.stderr.write(`bursar: ${text}\n`);
    },
  });
  progress.clear();
  answer(flags, job, summary, outcome);
  if (outcome.reason === 'refused' || summary.count === summary.failed) {
    const why = outcome.message ?? 'every request failed';
    throw new CommandFailure('failed', `${job.endpoint} could not be measured: ${why}`);
  }
}

/** Says how much will be moved, since that may cost more than expected. */
function announce(job: ProbeJob): void {
  const bytes = estimateBytes(job);
  if (bytes === null) return;
  process.stderr.write(`bursar: measures with ${formatBytes(bytes)} each way\n`);
}

async function clean(flags: ProbeFlags): Promise<void> {
  const job = readJob(flags);
  try {
    const removed = await removeProbeObjects(job, signals().stop);
    if (flags.json) printJson({ removed });
    else print(`${formatCount(removed)} objects and uploads were removed`);
  } catch (error) {
    throw new CommandFailure('failed', messageOfFailure(error), error);
  }
}

/**
 * The first signal ends the measuring, a second one the removing of objects, a third the process.
 */
function signals(): { stop: AbortSignal; abandon: AbortSignal } {
  const stop = new AbortController();
  const abandon = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (abandon.signal.aborted) process.exit(1);
      (stop.signal.aborted ? abandon : stop).abort();
    });
  }
  return { stop: stop.signal, abandon: abandon.signal };
}

function answer(
  { json }: ProbeFlags,
  job: ProbeJob,
  summary: ProbeSummary,
  { reason, message, spent }: JobOutcome,
): void {
  const rows = summary.rows();
  const cost = job.places.every(({ prices }) => prices === null) ? null : formatUsd(spent);
  printTable(json, {
    json: {
      ...{ endpoint: job.endpoint, samples: job.samples, count: summary.count },
      ...{ failed: summary.failed, ended: reason, message, estimatedUsd: cost, rows },
    },
    heading: [
      'SERIES',
      'KIND',
      'SIZE',
      'SIDE BY SIDE',
      'COUNT',
      'FAILED',
      'RETRIES',
      'MEDIAN',
      '95%',
      'RATE',
    ],
    rows: rows.map(cellsOf),
  });
  if (json) return;
  print('');
  const price = cost === null ? '' : `, for an estimated ${formatUsd(spent, 6)} USD`;
  print(`${formatCount(summary.count)} samples are in ${job.samples}${price}`);
  if (reason !== 'done' && reason !== 'refused') print(`Ended early: ${message}`);
}

function cellsOf(row: SummaryRow): string[] {
  const { series, kind, sizeBytes, threads, parallelParts, count, failed, retries } = row;
  const rate = row.medianMs === null ? '' : `${formatBytes((sizeBytes / row.medianMs) * 1000)}/s`;
  return [
    ...[series, kind, describeBytes(sizeBytes), String(threads ?? parallelParts ?? '')],
    ...[formatCount(count), formatCount(failed), formatCount(retries)],
    ...[describeMs(row.medianMs), describeMs(row.p95Ms), rate],
  ];
}

function describeMs(ms: number | null): string {
  if (ms === null) return '';
  return ms < 10_000 ? `${ms.toFixed(ms < 10 ? 2 : 0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
