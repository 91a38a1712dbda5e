// To which gateway a command talks, and as whom. In this order: flags and BURSAR_ variables, what
// the environment tells AWS's clients, `./bursar-data/credentials`, which `bursar serve` writes,
// and the files in `~/.aws`. So what is said counts before what happens to be there.
import { join } from 'node:path';
import { CommandFailure, orFail } from '../core/command-failure.ts';
import {
  adminUrlName,
  profileDefault,
  readCredentials,
} from '../server/folder/credentials-file.ts';
import { type ClientEnvironment, readClientEnvironment } from '../server/settings/config.ts';
import { parseUrl } from '../server/settings/quantities.ts';
import type { Connection } from './api-client.ts';
import { type AwsPlace, findAwsPlace, type Keys } from './aws-profile.ts';

/** Global flags of the administration commands. */
export interface ConnectionFlags {
  endpoint?: string;
  credentials?: string;
  profile?: string;
}

export const endpointDefault = 'http://127.0.0.1:9000';
const regionDefault = 'us-east-1';

interface Place {
  endpoint: string | undefined;
  adminUrl: string | undefined;
  region: string | undefined;
  keys: Keys | undefined;
}

/**
 * Where to and as whom. Throws `CommandFailure` that says what is missing and where it was looked
 * for.
 */
export function findConnection(flags: ConnectionFlags): Connection & { s3Endpoint: string } {
  const environment = readClientEnvironment();
  const own = ownKeys(environment);
  const place = findPlace(flags, environment);
  const given = flags.endpoint ?? environment.endpoint;
  const s3Endpoint = given ?? place.endpoint ?? endpointDefault;
  const keys = own ?? place.keys;
  if (keys === undefined) throw lacking(flags, environment);
  const checked = (url: string) => orFail('usage', `endpoint ${url} `, () => parseUrl(url));
  return {
    endpoint: checked(given ?? place.adminUrl ?? s3Endpoint),
    s3Endpoint: checked(s3Endpoint),
    ...keys,
    region: place.region ?? regionDefault,
  };
}

function ownKeys({ accessKeyId, secretAccessKey }: ClientEnvironment): Keys | undefined {
  if ((accessKeyId === undefined) !== (secretAccessKey === undefined)) {
    const names = 'BURSAR_ACCESS_KEY_ID and BURSAR_SECRET_ACCESS_KEY';
    throw new CommandFailure('usage', `${names} must be given both or not at all`);
  }
  return accessKeyId && secretAccessKey ? { accessKeyId, secretAccessKey } : undefined;
}

function findPlace(flags: ConnectionFlags, environment: ClientEnvironment): Place {
  const profile = flags.profile ?? environment.profile;
  const named = flags.credentials ?? environment.credentialsFile;
  const own = readOwn(named ?? join(environment.data, 'credentials'), profile ?? profileDefault);
  if (named !== undefined) return own ?? nowhere;
  const hasGateway = (flags.endpoint ?? environment.endpoint) !== undefined;
  const aws = findAwsPlace(profile);
  // Where AWS's own endpoint would be asked, no gateway is meant.
  if (aws.isNamed && profile === undefined && aws.endpoint !== undefined) return placeOf(aws);
  if (own) return own;
  return aws.endpoint !== undefined || hasGateway ? placeOf(aws) : nowhere;
}

const nowhere: Place = {
  ...{ endpoint: undefined, adminUrl: undefined, region: undefined, keys: undefined },
};

function placeOf(aws: AwsPlace): Place {
  return { ...aws, keys: aws.keys() };
}

/** The profile of one file, as `bursar serve` writes it. */
function readOwn(file: string, profile: string): Place | undefined {
  const stored = orFail('failed', '', () => readCredentials(file, profile));
  if (stored === undefined) return undefined;
  const { aws_access_key_id: id, aws_secret_access_key: secret, aws_session_token: token } = stored;
  return {
    endpoint: stored.endpoint_url,
    adminUrl: stored[adminUrlName],
    region: stored.region,
    keys:
      id && secret ? { accessKeyId: id, secretAccessKey: secret, sessionToken: token } : undefined,
  };
}

function lacking(flags: ConnectionFlags, environment: ClientEnvironment): CommandFailure {
  const profile = flags.profile ?? environment.profile;
  const named = flags.credentials ?? environment.credentialsFile;
  const own = named ?? join(environment.data, 'credentials');
  const ownProfile = `${own} has a profile [${profile ?? profileDefault}]`;
  const ways = ['no credentials: set BURSAR_ACCESS_KEY_ID and BURSAR_SECRET_ACCESS_KEY'];
  if (named === undefined) {
    const aws = findAwsPlace(profile);
    const lacks = aws.endpoint === undefined ? 'an endpoint_url and keys' : 'keys';
    ways.push(`or give the profile ${aws.profile} of ${aws.files.join(' and ')} ${lacks}`);
  }
  ways.push(`or run this where ${ownProfile} (--credentials, --profile)`);
  return new CommandFailure('usage', ways.join(', '));
}
