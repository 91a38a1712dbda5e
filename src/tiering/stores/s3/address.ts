// Where a store is: from its settings to the origin and the path of its requests, and the client of
// the AWS SDK for the same place. Invariant: the place follows from the settings and AWS's own
// rules; no variable of the environment moves it to another server.
// Specification: "Virtual hosting of general purpose buckets", Amazon S3 user guide.
import type { S3Client } from '@aws-sdk/client-s3';
import { atEnd } from '../../../core/closing.ts';
import type { Timeouts } from './connection.ts';
import type { Credentials, LoadCredentials } from './credentials.ts';
import type { S3StoreOptions } from './options.ts';

export interface StoreAddress {
  bucket: string;
  /** The prefix of all names of the store in the bucket: empty, or with a slash at its end. */
  prefix: string;
  /** `https://bucket.s3.eu-west-1.amazonaws.com`: scheme and authority. */
  origin: string;
  /** The host as it stands in the Host header. */
  host: string;
  /** What precedes a name in a request's path, decoded: begins and ends with a slash. */
  pathStart: string;
  region: string;
}

export interface OpenedAddress {
  address: StoreAddress;
  /** Sends one try of a request, and no more. */
  client: S3Client;
  /** From the chain of the SDK. */
  loadCredentials: LoadCredentials;
}

const defaultRegion = 'us-east-1';
const urlPattern = /^s3:\/\/([^/]+)(?:\/(.*?))?\/?$/s;

/** Throws an Error that says what is wrong with the settings. */
export async function openAddress(
  options: S3StoreOptions,
  timeouts: Timeouts,
): Promise<OpenedAddress> {
  const match = urlPattern.exec(options.url);
  if (!match) throw new Error(`a store's place must be s3://BUCKET/PREFIX, not ${options.url}`);
  const bucket = match[1] as string;
  const prefix = match[2] ? `${match[2]}/` : '';
  const region = options.region ?? (await configuredRegion(options.profile));
  const client = await createClient(options, region, timeouts);
  const { config } = client;
  const { url, properties } = config.endpointProvider({
    Bucket: bucket,
    Region: region,
    Endpoint: options.endpoint,
    ForcePathStyle: options.pathStyle ?? false,
    UseFIPS: await config.useFipsEndpoint(),
    UseDualStack: await config.useDualstackEndpoint(),
  });
  const [scheme] = (properties?.authSchemes ?? []) as SigningScheme[];
  if (scheme?.name !== 'sigv4' || scheme.signingName !== 's3') {
    throw new Error(`${options.url}: only general purpose buckets can be a store`);
  }
  const path = decodeURIComponent(url.pathname).replace(/\/$/, '');
  const address: StoreAddress = {
    bucket,
    prefix,
    origin: url.origin,
    host: url.host,
    pathStart: `${path}/${prefix}`,
    region: scheme.signingRegion ?? region,
  };
  const load = config.credentials as (how: { forceRefresh: boolean }) => Promise<Credentials>;
  return { address, client, loadCredentials: (again) => load({ forceRefresh: again }) };
}

interface SigningScheme {
  name?: string;
  signingName?: string;
  signingRegion?: string;
}

/** Not before a store is opened: loading it takes a quarter of a second of every command. */
export function loadSdk(): Promise<typeof import('@aws-sdk/client-s3')> {
  return import('@aws-sdk/client-s3');
}

/** Resolves to the region of the environment or of the AWS configuration files. */
async function configuredRegion(profile: string | undefined): Promise<string> {
  const { S3Client } = await loadSdk();
  const client = new S3Client({ profile });
  using _client = atEnd(() => client.destroy());
  try {
    return await client.config.region();
  } catch {
    // None is configured. Servers that are not AWS's seldom mind.
    return defaultRegion;
  }
}

/**
 * For the chain of credentials, which is given all settings: a file that an administrator has
 * changed is read again when the server refuses what was in it.
 */
const rereadFiles = { ignoreCache: true };

async function createClient(
  options: S3StoreOptions,
  region: string,
  timeouts: Timeouts,
): Promise<S3Client> {
  const { endpoint, pathStyle, profile, credentials } = options;
  const { S3Client } = await loadSdk();
  return new S3Client({
    region,
    profile,
    endpoint,
    ignoreConfiguredEndpointUrls: true,
    forcePathStyle: pathStyle ?? false,
    credentials,
    ...rereadFiles,
    // The clock is ours: a wrong Date that a proxy sends must not change what is signed.
    disableClockSkewCorrection: true,
    maxAttempts: 1,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: timeouts.connectMs,
      socketTimeout: timeouts.stallMs,
      requestTimeout: timeouts.firstByteMs,
      throwOnRequestTimeout: true,
    },
  });
}
