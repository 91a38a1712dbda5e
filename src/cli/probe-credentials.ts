// With whose keys a probe signs: those of the administration commands where the gateway is
// measured, else those that AWS's clients would use. Invariant: the keys of this gateway's operator
// sign for no other server unless they were named. Specification: "Configuration and credential
// precedence" of the AWS SDKs and tools reference.
import { homedir } from 'node:os';
import { join } from 'node:path';
import { CommandFailure } from '../core/command-failure.ts';
import type { ProbeCredentials } from '../instruments/probe/probe-target.ts';
import { profileDefault, readCredentials } from '../server/folder/credentials-file.ts';
import { readAwsEnvironment, readClientEnvironment } from '../server/settings/config.ts';
import { type ConnectionFlags, endpointDefault, findConnection } from './api-client.ts';

export interface ProbeConnection {
  endpoint: string;
  region: string;
  credentials: ProbeCredentials;
}

interface ProbeConnectionFlags extends ConnectionFlags {
  region?: string;
}

const regionDefault = 'us-east-1';

/** Throws `CommandFailure` that says what is missing. */
export function findProbeConnection(flags: ProbeConnectionFlags): ProbeConnection {
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
