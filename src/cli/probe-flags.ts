// The flags of `bursar probe`, and the run that they ask for. Invariant: what makes no sense, or
// would measure something else than was meant, is refused by its flag's name before anything is
// sent.
import { isIP } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { parseUsd } from '../core/money.ts';
import { latencyBytes, type ProbeSeries } from '../instruments/probe/probe.ts';
import type { ProbeCredentials } from '../instruments/probe/probe-target.ts';
import { probeSizes, retryPauseMs } from '../instruments/sample.ts';
import { usualClass } from '../quota/prices/price-book.ts';
import { freeMarket } from '../quota/prices/price-books.ts';
import { profileDefault, readCredentials } from '../server/folder/credentials-file.ts';
import { openPriceBooks } from '../server/folder/store-prices.ts';
import type { ProbeJob } from '../server/processes/probe-job.ts';
import { type ProbePlace, tellPrices } from '../server/processes/probe-place.ts';
import { readAwsEnvironment, readClientEnvironment } from '../server/settings/config.ts';
import {
  parseCount,
  parseDuration,
  parseSize,
  parseSwitch,
  parseUrl,
  within,
} from '../server/settings/quantities.ts';
import { parseMarket } from '../server/settings/store-settings.ts';
import { type ConnectionFlags, endpointDefault, findConnection } from './find-connection.ts';
import { addPriceBooksFlag } from './price-commands.ts';
import { findSamplesFolder } from './samples-folder.ts';

export interface ProbeFlags {
  endpoint?: string;
  bucket?: string;
  prefix: string;
  target?: string;
  region?: string;
  pathStyle?: string;
  credentials?: string;
  profile?: string;
  series: string;
  sizes: string;
  count?: string;
  for?: string;
  meanInterval?: string;
  threads: string;
  surgeSeconds: string;
  surgeSize: string;
  parts: string;
  partSize: string;
  freshConnections?: boolean;
  timeout: string;
  samples?: string;
  data?: string;
  spendMax?: string;
  prices?: string;
  priceBooks?: string;
  class: string;
  keep?: boolean;
  clean?: boolean;
  json?: boolean;
  supervised?: boolean;
}

const MiB = 1024 * 1024;
const GiB = 1024 * MiB;
const allSeries: readonly ProbeSeries[] = ['sizes', 'latency', 'surge', 'parts'];
const countDefault = '3';
const intervalDefaults = { count: '1s', for: '15m' } as const;
/** The longest that a timer can wait. */
const forMsMax = 24 * 86_400_000;

export function addProbeFlags(command: Command): Command {
  const sizes = probeSizes.map((bytes) => describeBytes(bytes)).join(',');
  command
    .option('--endpoint <url>', 'S3 server to measure (default: the gateway of other commands)')
    .option('--bucket <name>', 'bucket to measure with; it must exist')
    .option('--prefix <text>', 'what keys begin with', '')
    .option('--target <name>', "what samples call it (default: the endpoint's host)")
    .option('--region <name>', 'region to sign for')
    .option('--path-style [yes|no]', '/BUCKET/KEY, not BUCKET.HOST (default: yes unless AWS)')
    .option('--credentials <file>', 'credentials file')
    .option('--profile <name>', 'profile in the credentials file')
    .option('--series <list>', `what to measure: ${allSeries.join(', ')}`, 'sizes,latency')
    .option('--sizes <list>', 'sizes of objects of the series "sizes"', sizes)
    .option('--count <number>', `rounds of all series (default: ${countDefault})`)
    .option('--for <duration>', 'not rounds but so long, such as 7d')
    .option(
      '--mean-interval <duration>',
      `mean of the pauses (default: ${intervalDefaults.count}, with --for ${intervalDefaults.for})`,
    )
    .option('--threads <range>', 'threads of "surge", one number after another', '1-6')
    .option('--surge-seconds <number>', 'reading, and writing, with each number of threads', '10')
    .option('--surge-size <size>', 'size of the objects of "surge"', '1MiB')
    .option('--parts <list>', 'parts of "parts" that are sent at a time', '1,2,4,8')
    .option('--part-size <size>', 'size of a part', '8MiB')
    .option('--fresh-connections', 'a connection for each request, whose making is measured too')
    .option('--timeout <duration>', 'give up a try when nothing moves for so long', '60s')
    .option('--samples <dir>', 'folder for the samples (default: DIR/samples of the gateway)')
    .option('--data <dir>', 'data folder of a gateway (default: where its credentials file is)')
    .option('--spend-max <usd>', 'end before it is estimated to have cost more')
    .option('--prices <provider/region>', 'whose prices (default: aws/us-east-1 of AWS, else none)')
    .option('--class <name>', 'storage class whose prices count', usualClass)
    .option('--keep', 'leave the objects where they are')
    .option('--clean', 'measure nothing: remove what probes left under the prefix')
    .option('--json', 'answer with JSON');
  addPriceBooksFlag(command);
  return command;
}

/** Throws `CommandFailure` (usage). */
export function readJob(flags: ProbeFlags): ProbeJob {
  const connection = findProbeConnection(flags);
  const endpoint = given('--endpoint', connection.endpoint, parseUrl);
  const bucket = given('--bucket', flags.bucket ?? '', parseBucket);
  const isPathStyle = readStyle(flags, endpoint, bucket);
  const { host } = new URL(endpoint);
  const series = given('--series', flags.series, listOf(parseSeries));
  const { prices, spendMax } = readSpending(flags, host);
  return {
    ...{ ...connection, endpoint, isPathStyle, series },
    places: [{ bucket, name: given('--target', flags.target ?? host, parseName), prices }],
    spendMax,
    prefix: given('--prefix', flags.prefix, parsePrefix),
    sizesBytes: given('--sizes', flags.sizes, listOf(within(parseSize, 1, 5 * GiB, '1B to 5GiB'))),
    surge: readSurge(flags),
    parts: {
      parallel: given('--parts', flags.parts, listOf(within(parseCount, 1, 64, '1 to 64'))),
      partBytes: given(
        '--part-size',
        flags.partSize,
        within(parseSize, 5 * MiB, GiB, '5MiB to 1GiB'),
      ),
    },
    ...readTimes(flags),
    line: {
      isFresh: flags.freshConnections === true,
      silenceMsMax: given(
        ...(['--timeout', flags.timeout] as const),
        within(parseDuration, 100, 600_000, '100ms to 10m'),
      ),
    },
    retryPauseMs,
    isKept: flags.keep === true,
    samples: flags.samples ?? findSamplesFolder(flags),
  };
}

function readTimes(flags: ProbeFlags): Pick<ProbeJob, 'count' | 'forMs' | 'meanIntervalMs'> {
  if (flags.count !== undefined && flags.for !== undefined) {
    throw new CommandFailure('usage', '--count or --for, not both');
  }
  const isFor = flags.for !== undefined;
  const interval = flags.meanInterval ?? intervalDefaults[isFor ? 'for' : 'count'];
  const duration = (min: number, shown: string) => within(parseDuration, min, forMsMax, shown);
  return {
    count: isFor
      ? null
      : given('--count', flags.count ?? countDefault, within(parseCount, 1, 1e6, '1 to 1000000')),
    forMs: isFor ? given('--for', flags.for ?? '', duration(1000, '1s to 24d')) : null,
    meanIntervalMs: given('--mean-interval', interval, duration(0, '0s to 24d')),
  };
}

function readSurge(flags: ProbeFlags): ProbeJob['surge'] {
  const [, first = '', last = first] = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(flags.threads) ?? [];
  const [threadsMin, threadsMax] = [Number(first), Number(last)];
  if (first === '' || threadsMin < 1 || threadsMax < threadsMin || threadsMax > 64) {
    throw new CommandFailure('usage', `--threads ${flags.threads} must be such as 1-6, at most 64`);
  }
  const seconds = within(parseCount, 1, 3600, '1 to 3600');
  return {
    threadsMin,
    threadsMax,
    eachMs: given('--surge-seconds', flags.surgeSeconds, seconds) * 1000,
    sizeBytes: given('--surge-size', flags.surgeSize, within(parseSize, 1, GiB, '1B to 1GiB')),
  };
}

/** DNS names of private hosts seldom exist for their buckets as well. */
function readStyle({ pathStyle }: ProbeFlags, endpoint: string, bucket: string): boolean {
  const { hostname } = new URL(endpoint);
  const isAws = hostname.endsWith('.amazonaws.com');
  const isPathStyle = given('--path-style', String(pathStyle ?? !isAws), parseStyle);
  const isName = /^[a-z0-9][a-z0-9.-]*$/.test(bucket);
  if (!isPathStyle && (isIP(hostname.replace(/^\[(.*)\]$/, '$1')) > 0 || !isName)) {
    throw new CommandFailure('usage', `${bucket}.${hostname} is no host: give --path-style`);
  }
  return isPathStyle;
}

function readSpending(
  flags: ProbeFlags,
  host: string,
): Pick<ProbeJob, 'spendMax'> & Pick<ProbePlace, 'prices'> {
  const marketDefault = host.endsWith('.amazonaws.com') ? 'aws/us-east-1' : freeMarket;
  const market = given('--prices', flags.prices ?? marketDefault, parseMarket);
  const spendMax = flags.spendMax === undefined ? null : given('--spend-max', flags.spendMax, usd);
  if (market === freeMarket) {
    if (spendMax === null) return { prices: null, spendMax: null };
    throw new CommandFailure('usage', '--spend-max needs prices: give --prices PROVIDER/REGION');
  }
  const book = openPriceBooks(flags.priceBooks ?? readClientEnvironment().priceBooks).inForce(
    market,
    Date.now(),
  );
  if (!book?.classes.has(flags.class)) {
    const what = book ? `no class ${flags.class}` : 'no price book in force';
    throw new CommandFailure('usage', `--prices ${market} has ${what}: see bursar price list`);
  }
  return { prices: tellPrices(book, flags.class), spendMax };
}

function usd(text: string): string {
  const amount = parseUsd(text);
  if (amount === undefined || amount === 0n) throw new Error('must be US dollars such as 0.50');
  return String(amount);
}

function given<T>(flag: string, text: string, parse: (text: string) => T): T {
  try {
    return parse(text);
  } catch (error) {
    const shown = text === '' ? 'is missing: it' : JSON.stringify(text);
    throw new CommandFailure('usage', `${flag} ${shown} ${messageOfFailure(error)}`);
  }
}

/** Drops repetitions. */
function listOf<T>(parse: (text: string) => T) {
  return (text: string): T[] => [...new Set(text.split(',').map((one) => parse(one.trim())))];
}

function parseSeries(text: string): ProbeSeries {
  const found = allSeries.find((one) => one === text);
  if (found) return found;
  throw new Error(`must be of ${allSeries.join(', ')}`);
}

function parseStyle(text: string): boolean {
  return text !== 'false' && parseSwitch(text);
}

function parseBucket(text: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._:-]{1,254}$/.test(text)) return text;
  throw new Error('must be the name of a bucket');
}

function parseName(text: string): string {
  if (/^[^\p{Cc}]{1,100}$/u.test(text)) return text;
  throw new Error('must be 1 to 100 characters');
}

function parsePrefix(text: string): string {
  const { byteLength } = new TextEncoder().encode(text);
  if (byteLength <= 512 && !/[\p{Cc}]/u.test(text) && !text.startsWith('/')) return text;
  throw new Error('must be at most 512 bytes, and not begin with a slash');
}

/** `1B`, `16MiB`, as the flags take it. */
export function describeBytes(bytes: number): string {
  if (bytes >= MiB && bytes % MiB === 0) return `${bytes / MiB}MiB`;
  return bytes >= 1024 && bytes % 1024 === 0 ? `${bytes / 1024}KiB` : `${bytes}B`;
}

/** How many bytes the rounds move one way, as far as that is known beforehand. */
export function estimateBytes(job: ProbeJob): number | null {
  if (job.count === null || job.series.includes('surge')) return null;
  const { partBytes, parallel } = job.parts;
  const perRound: Record<Exclude<ProbeSeries, 'surge'>, number> = {
    sizes: job.sizesBytes.reduce((sum, bytes) => sum + 2 * bytes, 0),
    latency: 2 * latencyBytes,
    parts: partBytes * Math.max(...parallel) * parallel.length,
  };
  const chosen = job.series.filter((one) => one !== 'surge');
  return job.count * chosen.reduce((sum, one) => sum + perRound[one], 0);
}

// With whose keys a probe signs: those of the administration commands where the gateway is
// measured, else those that AWS's clients would use. Invariant: the keys of this gateway's operator
// sign for no other server unless they were named. Specification: "Configuration and credential
// precedence" of the AWS SDKs and tools reference.

interface ProbeConnection {
  endpoint: string;
  region: string;
  credentials: ProbeCredentials;
}

interface ProbeConnectionFlags extends ConnectionFlags {
  region?: string;
}

const regionDefault = 'us-east-1';

/** Throws `CommandFailure` that says what is missing. */
function findProbeConnection(flags: ProbeConnectionFlags): ProbeConnection {
  const { endpoint, region } = flags;
  if (endpoint === undefined || isOwnGateway(flags, endpoint)) {
    const found = findConnection(flags);
    const { accessKeyId, secretAccessKey } = found;
    const credentials = { accessKeyId, secretAccessKey };
    return { endpoint: found.s3Endpoint, region: region ?? found.region, credentials };
  }
  const aws = readAwsEnvironment();
  const { accessKeyId, secretAccessKey, sessionToken } = aws;
  const file = flags.credentials ?? aws.credentialsFile ?? join(homedir(), '.aws', 'credentials');
  const name = flags.profile ?? aws.profile ?? 'default';
  const profile = readCredentials(file, name);
  const given = { endpoint, region: region ?? aws.region ?? profile?.region ?? regionDefault };
  // A profile that is named wins over keys in the environment, as in the AWS CLI.
  const isNamed = flags.profile !== undefined || flags.credentials !== undefined;
  if (!isNamed && accessKeyId !== undefined && secretAccessKey !== undefined) {
    return { ...given, credentials: { accessKeyId, secretAccessKey, sessionToken } };
  }
  const { aws_access_key_id: id, aws_secret_access_key: secret } = profile ?? {};
  if (id === undefined || secret === undefined) {
    throw new CommandFailure(
      'usage',
      `no credentials for ${endpoint}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give ` +
        `a profile with keys (${file} has none in [${name}])`,
    );
  }
  const token = profile?.aws_session_token;
  const credentials = { accessKeyId: id, secretAccessKey: secret, sessionToken: token };
  return { ...given, credentials };
}

/** Whether the environment, or the credentials file, names this endpoint. */
function isOwnGateway({ credentials, profile }: ConnectionFlags, endpoint: string): boolean {
  const environment = readClientEnvironment();
  const file = credentials ?? environment.credentialsFile ?? join(environment.data, 'credentials');
  const stored = readCredentials(file, profile ?? environment.profile ?? profileDefault);
  const { accessKeyId } = environment;
  const usual = accessKeyId === undefined ? undefined : endpointDefault;
  const known = environment.endpoint ?? stored?.endpoint_url ?? usual;
  return known !== undefined && originOf(known) === originOf(endpoint);
}

function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url;
}
