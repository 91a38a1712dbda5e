// What AWS's clients would use: a profile of ~/.aws/config and ~/.aws/credentials, and variables.
// Specification: "Configuration and credential file settings" and "Service-specific endpoints" of
// the AWS SDKs and tools reference; where that leaves a choice, it is made as the AWS CLI does.
import { spawnSync } from 'node:child_process';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { CommandFailure, orFail } from '../core/command-failure.ts';
import { parseJson } from '../core/json.ts';
import { adminUrlName, readSections, type Section } from '../server/folder/credentials-file.ts';
import { readAwsEnvironment } from '../server/settings/config.ts';

export interface Keys {
  accessKeyId: string;
  secretAccessKey: string;
  /** Of temporary keys. */
  sessionToken?: string | undefined;
}

export interface AwsPlace {
  profile: string;
  /** Where it was looked for, for messages. */
  files: readonly string[];
  /** Whether the environment says anything of it, so that it was meant. */
  isNamed: boolean;
  endpoint: string | undefined;
  adminUrl: string | undefined;
  region: string | undefined;
  /** Throws `CommandFailure`. undefined: there are none. */
  keys(): Keys | undefined;
}

/** `named`: the profile that a flag names. Throws `CommandFailure`. */
export function findAwsPlace(named: string | undefined): AwsPlace {
  const environment = readAwsEnvironment();
  const folder = join(homedir(), '.aws');
  const files = [
    environment.configFile ?? join(folder, 'config'),
    environment.credentialsFile ?? join(folder, 'credentials'),
  ] as const;
  const [config, credentials] = files.map((file) => orFail('failed', '', () => readSections(file)));
  const profile = named ?? environment.profile ?? 'default';
  const title = profile === 'default' ? 'default' : `profile ${profile}`;
  // Of a profile that is in both files, what the credentials file says counts.
  const stored: Section = { ...config?.get(title), ...credentials?.get(profile) };
  const { accessKeyId, secretAccessKey, sessionToken, ...said } = environment;
  return {
    ...{ profile, files, adminUrl: stored[adminUrlName] },
    isNamed: [accessKeyId, said.profile, said.configFile, said.credentialsFile, said.endpoint].some(
      (one) => one !== undefined,
    ),
    endpoint: said.endpoint ?? storedEndpoint(stored, config, said.ignoresEndpoints),
    region: said.region ?? stored.region,
    keys: () => {
      // A profile that a flag names wins over keys in the environment.
      if (named === undefined && accessKeyId !== undefined && secretAccessKey !== undefined) {
        return { accessKeyId, secretAccessKey, sessionToken };
      }
      return storedKeys(stored, profile);
    },
  };
}

function storedEndpoint(
  stored: Section,
  config: ReadonlyMap<string, Section> | undefined,
  ignoresEndpoints: boolean,
): string | undefined {
  if (ignoresEndpoints || stored.ignore_configured_endpoint_urls === 'true') return undefined;
  const services = config?.get(`services ${stored.services}`);
  return services?.['s3.endpoint_url'] || stored.endpoint_url;
}

function storedKeys(stored: Section, profile: string): Keys | undefined {
  const { aws_access_key_id: accessKeyId, aws_secret_access_key: secretAccessKey } = stored;
  if (accessKeyId && secretAccessKey) {
    return { accessKeyId, secretAccessKey, sessionToken: stored.aws_session_token };
  }
  const { credential_process: command } = stored;
  return command ? runProcess(command, profile) : undefined;
}

/** What `credential_process` prints, such as `bursar credentials`. Throws `CommandFailure`. */
function runProcess(command: string, profile: string): Keys {
  const stdio = ['ignore', 'pipe', 'inherit'] as const;
  const { status, stdout } = spawnSync(command, { shell: true, stdio: [...stdio] });
  const told = (parseJson(String(stdout)) ?? {}) as Partial<Record<string, unknown>>;
  const { AccessKeyId: id, SecretAccessKey: secret, SessionToken: token } = told;
  if (status !== 0 || typeof id !== 'string' || typeof secret !== 'string') {
    throw new CommandFailure('failed', `the credential_process of profile ${profile} gave no keys`);
  }
  const sessionToken = typeof token === 'string' ? token : undefined;
  return { accessKeyId: id, secretAccessKey: secret, sessionToken };
}
