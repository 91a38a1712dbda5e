// Credentials files as AWS tools read and write them (shared credentials file, INI). `serve` and
// `key new --sigv4a` write one with a single profile; the administration commands read any.
import { readFileSync } from 'node:fs';
import { writeFileDurably } from '../../core/durable-file.ts';

export interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  region: string;
  /** Undefined while the gateway does not know its address yet. */
  endpoint: string | undefined;
  /** Where the native API is, if that has an address of its own. */
  adminUrl?: string | null;
}

export const profileDefault = 'bursar';
export const adminUrlName = 'bursar_admin_url';

/** The profile's settings; undefined when the file or the profile is missing. */
export function readCredentials(
  path: string,
  profile: string,
): Partial<Record<string, string>> | undefined {
  const text = readIfExists(path);
  return text === undefined ? undefined : parseProfiles(text).get(profile);
}

/** Writes the profile `bursar`, whole or not at all, mode 0600, unless it is there already. */
export function writeCredentials(path: string, credentials: Credentials): void {
  const comment = 'Written by "bursar serve": the access key of the first operator, default/admin.';
  // Else AWS CLI 1 and boto3 presign URLs by the old Signature V2 for an endpoint that is not
  // AWS's.
  const signing = 's3 =\n    signature_version = s3v4\n';
  const text = `${renderCredentials(comment, credentials)}${signing}`;
  if (readIfExists(path) === text) return;
  writeFileDurably(path, text, { mode: 0o600, ifExists: 'replace' });
}

/** A file with the profile `bursar`. */
export function renderCredentials(comment: string, credentials: Credentials): string {
  const { accessKeyId, secretAccessKey, region, endpoint, adminUrl = null } = credentials;
  const lines = [
    `# ${comment}`,
    `[${profileDefault}]`,
    `aws_access_key_id = ${accessKeyId}`,
    `aws_secret_access_key = ${secretAccessKey}`,
    `region = ${region}`,
    ...(endpoint === undefined ? [] : [`endpoint_url = ${endpoint}`]),
    // For Bursar's own commands; others pass it over.
    ...(adminUrl === null ? [] : [`${adminUrlName} = ${adminUrl}`]),
  ];
  return `${lines.join('\n')}\n`;
}

function parseProfiles(text: string): Map<string, Record<string, string>> {
  const profiles = new Map<string, Record<string, string>>();
  let current: Record<string, string> = {};
  for (const line of text.split(/\r?\n/)) {
    const section = /^\s*\[\s*(?:profile\s+)?([^\]]+?)\s*\]/.exec(line)?.[1];
    if (section !== undefined) {
      current = profiles.get(section) ?? {};
      profiles.set(section, current);
      continue;
    }
    const [, key, value] = /^\s*([^#;=\s][^=]*?)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (key !== undefined && value !== undefined) current[key] = value;
  }
  return profiles;
}

function readIfExists(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
