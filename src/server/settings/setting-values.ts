// What values of settings may be. Each function gives the value of a text, or throws an Error that
// says what would have fitted.
import { isIP } from 'node:net';
import { parseWitness, type Witness } from '../../audit/log/witness.ts';
import { type Network, parseNetwork } from '../../authz/grants/networks.ts';
import {
  isLoopbackAddress,
  type PrivateHost,
  parsePrivateHost,
} from '../../authz/oidc/address-policy.ts';
import { timerMsMax } from '../../core/clock.ts';
import { inlineBytesMax } from '../../core/limits.ts';
import { type Picodollars, parseUsd } from '../../core/money.ts';
import { type StoredPages, storedPagesChoices } from '../../gateway/http/origins.ts';
import type { IndexedMetadata } from '../../search/postings.ts';
import { parseDuration, parseSize } from './quantities.ts';

export function parseText(value: string): string {
  if (value === '') throw new Error('must not be empty');
  return value;
}

export function atLeast(parse: (value: string) => number, min: number, shown: string) {
  return (value: string): number => {
    const parsed = parse(value);
    if (parsed < min) throw new Error(`must be at least ${shown}`);
    return parsed;
  };
}

export function parseInlineBytes(value: string): number {
  const parsed = parseSize(value);
  if (parsed > inlineBytesMax) throw new Error(`must be at most ${inlineBytesMax}`);
  return parsed;
}

export function parseLifecycleDay(value: string): number {
  const parsed = parseDuration(value);
  if (parsed < 1000 || parsed > 86_400_000) throw new Error('must be 1s to 24h');
  return parsed;
}

/** The longest that a timer can wait: Node takes a longer time for one millisecond. */
export function parseTimer(value: string): number {
  const parsed = parseDuration(value);
  if (parsed > timerMsMax) throw new Error('must be at most 24d');
  return parsed;
}

export function parseBackupInterval(value: string): number {
  const parsed = parseDuration(value);
  if (parsed < 60_000 || parsed > 24 * 86_400_000) throw new Error('must be 1m to 24d');
  return parsed;
}

export function parseShippingInterval(value: string): number {
  const parsed = parseDuration(value);
  if (parsed < 100 || parsed > 3_600_000) throw new Error('must be 100ms to 1h');
  return parsed;
}

/** The longest that a timer can wait. */
export function parseProbeInterval(value: string): number {
  const parsed = parseDuration(value);
  if (parsed < 1000 || parsed > timerMsMax) throw new Error('must be 1s to 24d');
  return parsed;
}

export function parseSpendMax(value: string): Picodollars {
  const amount = parseUsd(value);
  if (amount === undefined) throw new Error('must be US dollars such as 5.00');
  return amount;
}

export function parseDomains(value: string): string[] {
  const domains = value.split(',').map((domain) => domain.trim().toLowerCase());
  const label = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?';
  const pattern = new RegExp(`^${label}(?:\\.${label})*$`);
  if (!domains.every((domain) => pattern.test(domain))) {
    throw new Error('must be host names such as s3.example.org');
  }
  return domains;
}

/** `server` has the user's name and password, `from` is an address. */
export function parseSmtp(value: string): { server: URL; from: string } {
  const server = URL.canParse(value) ? new URL(value) : undefined;
  const from = server?.searchParams.get('from') ?? '';
  const isServer =
    (server?.protocol === 'smtps:' || server?.protocol === 'smtp:') &&
    server.hostname !== '' &&
    /^\/?$/.test(server.pathname) &&
    server.hash === '' &&
    [...server.searchParams.keys()].join() === 'from';
  if (!server || !isServer || !/^[^@\s<>,;"]{1,64}@[a-z0-9.-]+$/i.test(from)) {
    throw new Error('must be such as smtps://user:password@mail.example.org?from=me@example.org');
  }
  return { server, from };
}

/** `no`, which earlier releases took, is the empty list. */
export function parsePrivateHosts(value: string): PrivateHost[] {
  if (value === 'no') return [];
  return value.split(',').map((text) => {
    const host = parsePrivateHost(text.trim());
    // Earlier releases took `yes` for all hosts.
    if (host && text.trim() !== 'yes') return host;
    throw new Error('must be hosts such as sso.example.org, 10.1.2.3:8443 or [fd00::1]:*');
  });
}

export function parseHosts(value: string): string[] {
  const hosts = value.split(',').map((host) => host.trim().toLowerCase());
  const label = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?';
  const pattern = new RegExp(`^(?:\\*\\.)?${label}(?:\\.${label})*$`);
  if (!hosts.every((host) => isIP(host) !== 0 || pattern.test(host))) {
    throw new Error('must be host names such as s3.example.org, without ports');
  }
  return hosts;
}

export function parseEncryption(value: string): 'on' | 'off' {
  if (value === 'on' || value === 'off') return value;
  throw new Error('must be on or off');
}

/** Names of user metadata are HTTP header fields' (RFC 9110), in lower case as S3 has them. */
const metadataName = /^[a-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
const indexedNamesMax = 256;

export function parseObjectIndex(value: string): ObjectIndexed {
  if (value === 'all' || value === 'off') return value;
  const names = [...new Set(value.split(','))].sort();
  if (names.length <= indexedNamesMax && names.every((name) => metadataName.test(name))) {
    return names;
  }
  const max = `at most ${indexedNamesMax}`;
  throw new Error(`must be all, off or names of metadata in lower case, ${max}, with commas`);
}

/** By which metadata objects are indexed; `off`: they are not. */
export type ObjectIndexed = IndexedMetadata | 'off';

export function parseStoredPages(value: string): StoredPages {
  const found = storedPagesChoices.find((choice) => choice === value);
  if (found === undefined) throw new Error(`must be ${storedPagesChoices.join(' or ')}`);
  return found;
}

export function parseNetworks(value: string): Network[] {
  return value.split(',').map((text) => {
    const network = parseNetwork(text.trim());
    if (!network) throw new Error('must be networks such as 10.0.0.0/8, or addresses');
    return network;
  });
}

export function parseWitnesses(value: string): Witness[] {
  const witnesses = value.split(',').map(parseWitness);
  const names = new Set(witnesses.map(({ key }) => `${key.name}+${key.id}`));
  if (names.size < witnesses.length) throw new Error('must not have a witness twice');
  for (const { url } of witnesses) {
    const { protocol, hostname } = new URL(url);
    // A witness's answer can stop the signing of the log, and nobody signs that answer.
    if (protocol !== 'https:' && !isLoopbackAddress(hostname.replace(/^\[(.*)\]$/, '$1'))) {
      throw new Error('must have https URLs, except on this machine');
    }
  }
  return witnesses;
}

/** Names of keys follow golang.org/x/mod/sumdb/note; files and URLs are named after them, too. */
export function parseLogOrigin(value: string): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$/.test(value)) {
    throw new Error('must be a name such as log.example.com/bursar');
  }
  return value;
}

export function parseRegion(value: string): string {
  if (!/^[a-z0-9-]{1,64}$/.test(value)) {
    throw new Error('must be a region name such as us-east-1');
  }
  return value;
}

export function parseKmsKey(value: string): string {
  if (!/^[A-Za-z0-9:/_-]{1,2048}$/.test(value)) {
    throw new Error('must be the id, the alias or the ARN of a KMS key');
  }
  return value;
}

export function parseAccessKeyId(value: string): string {
  // `/` and `,` separate the parts of a signature's credential.
  if (!/^[A-Za-z0-9._-]{3,128}$/.test(value)) {
    throw new Error('must be 3 to 128 letters, digits, dots, underscores or hyphens');
  }
  return value;
}

export function parseSecret(value: string): string {
  // A short secret could be found by trial from a single signature that was overheard.
  if (!/^[\x21-\x7e]{8,256}$/.test(value)) {
    throw new Error('must be 8 to 256 printable ASCII characters without spaces');
  }
  return value;
}

/** Characters are those of RFC 6750, and it is too long to be found by trial. */
export function parseMetricsToken(value: string): string {
  if (!/^[A-Za-z0-9._~+/-]{16,256}={0,2}$/.test(value)) {
    throw new Error('must be 16 to 256 letters, digits or characters of . _ ~ + / -');
  }
  return value;
}

const httpThreadsMax = 64;

export function parseThreads(text: string): number {
  const count = Number(text);
  if (/^\d+$/.test(text) && count >= 1 && count <= httpThreadsMax) return count;
  throw new Error(`must be 1 to ${httpThreadsMax}`);
}
