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
export function readCredentials(path: string, profile: string): Section | undefined {
  const sections = readSections(path);
  return sections?.get(profile) ?? sections?.get(`profile ${profile}`);
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

/** Settings by name; those below another, indented, have both names: `s3.endpoint_url`. */
export type Section = Partial<Record<string, string>>;

/** The sections of a file, by what is in their brackets; undefined: there is no file. */
export function readSections(path: string): ReadonlyMap<string, Section> | undefined {
  const text = readIfExists(path);
  return text === undefined ? undefined : parseSections(text);
}

function parseSections(text: string): Map<string, Section> {
  const sections = new Map<string, Section>();
  let current: Section = {};
  let above: string | null = null;
  for (const line of text.split(/\r?\n/)) {
    const title = /^\s*\[\s*([^\]]+?)\s*\]/.exec(line)?.[1];
    if (title !== undefined) {
      const name = title.replace(/\s+/g, ' ');
      current = sections.get(name) ?? {};
      sections.set(name, current);
      above = null;
      continue;
    }
    const [, indent, key, value] = /^(\s*)([^#;=\s][^=]*?)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (key === undefined || value === undefined) continue;
    const isBelow = indent !== '' && above !== null;
    current[isBelow ? `${above}.${key}` : key] = value;
    if (!isBelow) above = value === '' ? key : null;
  }
  return sections;
}

function readIfExists(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
