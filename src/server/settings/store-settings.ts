// The settings of stores besides the data folder's: `--store s3://bucket/prefix` with its flags, or
// `--store file:///folder`, and named ones under the key `stores`. Invariant: what is given is
// understood or refused with the path of its key; two stores never share a place.

import { awsClasses, isArchiveClass } from '../../core/aws-classes.ts';
import { CommandFailure } from '../../core/command-failure.ts';
import { isObject } from '../../core/json.ts';
import { chunkBytes, extentBytesMax } from '../../core/limits.ts';
import { localStoreName } from '../../core/manifest.ts';
import { isName, nameWords } from '../../core/names.ts';
import { classForm } from '../../quota/prices/price-book.ts';
import { freeMarket } from '../../quota/prices/price-books.ts';
import type { DeclaredPlace, PlaceKind } from '../../tiering/classes/declared-place.ts';
import type { S3StoreOptions } from '../../tiering/stores/s3/options.ts';
import { kindOf } from '../../tiering/stores/store-place.ts';
import {
  parseCount,
  parseDuration,
  parseSize,
  parseSwitch,
  parseUrl,
  within,
} from './quantities.ts';
import { parseDocument } from './yaml-text.ts';

/** One store as it is to be opened. Milliseconds and bytes; undefined: the driver's default. */
export interface StoreSettings
  extends Pick<S3StoreOptions, 'name' | 'url' | 'endpoint' | 'region' | 'pathStyle' | 'profile'>,
    Pick<S3StoreOptions, 'extentBytesMax' | 'connectionsMax' | 'connectTimeoutMs'>,
    Pick<S3StoreOptions, 'firstByteTimeoutMs' | 'stallTimeoutMs' | 'storageClass'> {
  /** The market whose prices it has, such as `aws/us-east-1`; undefined: that of all stores. */
  prices?: string;
  /** What may fail as one: `disk1`, `host1`, `site1`; undefined: nothing is declared. */
  domains?: readonly string[];
  /** The share of what it holds that is expected to be lost in a year; undefined: not declared. */
  annualLoss?: number;
  /** Whether what is in it is read at once; undefined: online. */
  kind?: PlaceKind;
  /** How long an archive takes until what is asked for is there. */
  recallDelayMs?: number;
  /** Whether drills may hide what is in it; undefined: no. */
  drills?: boolean;
}

/** What `--store` names: a store by its place, or one that is configured, or `local`. */
export type ChosenStore = { url: string } | { name: string };

export interface StoreChoice {
  /** The stores without the local one. */
  stores: StoreSettings[];
  /** Where buckets go that name no store: a name of one of them, or `local`. */
  defaultStore: string;
}

/** The names of the stores that `--store s3://…` and `--store file:///…` give. */
export const flagStoreNames = { s3: 's3', folder: 'folder' } as const;
/** `catalog` is what health and metrics call the database. */
const reservedNames = [localStoreName, 'inline', 'catalog'];
const storesMax = 200;
/** What a store in a folder can be told besides its place. */
const folderKeys = [
  ...['url', 'prices', 'extentBytes', 'connectionsMax', 'stallTimeout'],
  ...['domains', 'annualLoss', 'kind', 'recallDelay', 'drills'],
];
const domainsMax = 16;
const timeoutMsMax = 10 * 60_000;
const recallDelayMsMax = 48 * 3_600_000;

const parsers: {
  [K in Exclude<keyof StoreSettings, 'name'>]-?: {
    key: string;
    parse: (text: string) => NonNullable<StoreSettings[K]>;
  };
} = {
  url: { key: 'url', parse: parseStoreUrl },
  endpoint: { key: 'endpoint', parse: parseUrl },
  region: { key: 'region', parse: parseStoreRegion },
  pathStyle: { key: 'pathStyle', parse: parseSwitch },
  profile: { key: 'profile', parse: parseProfile },
  prices: { key: 'prices', parse: parseMarket },
  extentBytesMax: { key: 'extentBytes', parse: parseExtentBytes },
  connectionsMax: { key: 'connectionsMax', parse: within(parseCount, 1, 1024, '1 to 1024') },
  connectTimeoutMs: { key: 'connectTimeout', parse: parseTimeout },
  firstByteTimeoutMs: { key: 'firstByteTimeout', parse: parseTimeout },
  stallTimeoutMs: { key: 'stallTimeout', parse: parseTimeout },
  domains: { key: 'domains', parse: parseDomains },
  annualLoss: { key: 'annualLoss', parse: parseShare },
  kind: { key: 'kind', parse: parseKind },
  recallDelayMs: { key: 'recallDelay', parse: parseRecallDelay },
  drills: { key: 'drills', parse: parseSwitch },
  storageClass: { key: 'storageClass', parse: parseStorageClass },
};

/** Throws an Error that says what would have fitted. */
export function parseChosenStore(text: string): ChosenStore {
  if (text.includes(':')) return { url: parseStoreUrl(text) };
  if (!isStoreName(text))
    throw new Error('must be s3://BUCKET/PREFIX, file:///FOLDER or the name of a store');
  return { name: text };
}

/**
 * The named stores of a YAML (or JSON) text: `{cold: {url: s3://bucket/prefix, …}, …}`. Throws an
 * Error whose message goes on after the name of what holds the text, with a dot or a colon.
 */
export function parseStores(text: string): StoreSettings[] {
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error) throw new Error(`: ${error.message.split('\n')[0]?.replace(/:$/, '')}`);
  const named = mapping(document.toJS(), '');
  if (named.length > storesMax) throw new Error(`: must be at most ${storesMax} stores`);
  return named.map(([name, content]) => parseStore(name, content));
}

/** The stores of a start, checked against each other. Throws `CommandFailure` (usage). */
export function chooseStores(config: {
  store: ChosenStore;
  stores: StoreSettings[] | undefined;
  storeEndpoint: string | undefined;
  storeRegion: string | undefined;
  storePathStyle: boolean;
}): StoreChoice {
  const { store, storeEndpoint: endpoint, storeRegion: region, storePathStyle: pathStyle } = config;
  const stores = [...(config.stores ?? [])];
  const hasFlags = endpoint !== undefined || region !== undefined || pathStyle;
  const isServer = 'url' in store && kindOf(store.url) === 's3';
  if (isServer)
    stores.push({ name: flagStoreNames.s3, url: store.url, endpoint, region, pathStyle });
  else if (hasFlags) {
    const message = 'the store endpoint, region and path style go with --store s3://BUCKET/PREFIX';
    throw new CommandFailure('usage', message);
  } else if ('url' in store) stores.push({ name: flagStoreNames.folder, url: store.url });
  const places = new Map<string, string>();
  for (const one of stores) {
    const place = locationOf(one);
    const other = places.get(place);
    if (other !== undefined) {
      const what = other === one.name ? `is configured twice` : `and ${other} are at one place`;
      throw new CommandFailure('usage', `the store ${one.name} ${what}, ${place}`);
    }
    places.set(place, one.name);
  }
  const defaultStore = 'url' in store ? flagStoreNames[kindOf(store.url)] : store.name;
  if ('url' in store && stores.filter((one) => one.name === defaultStore).length > 1) {
    const message = `--store ${store.url} is called ${defaultStore}`;
    throw new CommandFailure('usage', `${message}, but stores.${defaultStore} is another`);
  }
  if (defaultStore !== localStoreName && !stores.some((one) => one.name === defaultStore)) {
    throw new CommandFailure('usage', `--store ${defaultStore} is not among the configured stores`);
  }
  if (isArchiveClass(stores.find((one) => one.name === defaultStore)?.storageClass)) {
    const message = `--store ${defaultStore} is an archive, which a class can lie in and no bucket`;
    throw new CommandFailure('usage', message);
  }
  return { stores, defaultStore };
}

/** What is declared of a store; null: it is not configured, or has no settings. */
export function declaredBy(settings: StoreSettings | null): DeclaredPlace {
  const { kind, domains, annualLoss, storageClass, recallDelayMs, drills } = settings ?? {};
  return {
    ...{
      kind: kind ?? (isArchiveClass(storageClass) ? 'archive' : 'online'),
      domains: domains ?? [],
      annualLoss: annualLoss ?? null,
    },
    ...{ storageClass: storageClass ?? null, drills: drills ?? false },
    recallDelayMs: recallDelayMs ?? null,
  };
}

/** Where a store is, as the catalog remembers it. */
export function locationOf({ url, endpoint }: Pick<StoreSettings, 'url' | 'endpoint'>): string {
  return endpoint === undefined ? url : `${url} at ${endpoint}`;
}

function parseStore(name: string, content: unknown): StoreSettings {
  if (!isStoreName(name) || reservedNames.includes(name)) {
    throw new Error(
      `.${name} must be named with 1 to 63 lower-case letters, digits and hyphens, not ` +
        `${reservedNames.join(' or ')}`,
    );
  }
  const settings: Record<string, unknown> = { name };
  for (const [key, value] of mapping(content, `.${name}`)) {
    const known = Object.entries(parsers).find(([, one]) => one.key === key);
    if (!known) throw new Error(`: unknown key ${name}.${key}`);
    const [property, { parse }] = known;
    settings[property] = parseAt(`.${name}.${key}`, parse, value);
  }
  if (settings.url === undefined) throw new Error(`.${name}.url is missing`);
  if (kindOf(String(settings.url)) === 'folder') {
    const odd = mapping(content, '').find(([key]) => !folderKeys.includes(key))?.[0];
    if (odd !== undefined) throw new Error(`.${name}.${odd} is for stores in S3, not in a folder`);
  }
  const { storageClass, kind } = settings as unknown as StoreSettings;
  if (kind === 'online' && isArchiveClass(storageClass)) {
    throw new Error(
      `.${name}.kind must be archive, or left out, with storageClass ${storageClass}`,
    );
  }
  return settings as unknown as StoreSettings;
}

function parseAt(path: string, parse: (text: string) => unknown, value: unknown): unknown {
  // A list of plain values is one text, so that YAML can write what a variable does.
  if (Array.isArray(value) && parse === parseDomains) {
    return parseAt(path, parse, value.map(String).join(','));
  }
  if (!['string', 'number', 'boolean'].includes(typeof value)) {
    throw new Error(`${path} must be a plain value`);
  }
  try {
    return parse(String(value));
  } catch (error) {
    throw new Error(`${path} ${JSON.stringify(value)} ${(error as Error).message}`);
  }
}

function mapping(value: unknown, path: string): [string, unknown][] {
  if (isObject(value)) return Object.entries(value);
  throw new Error(path === '' ? ': must hold stores by name' : `${path} must hold settings`);
}

function isStoreName(text: string): boolean {
  return /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(text);
}

/** `s3://BUCKET/PREFIX` or `file:///FOLDER`, without a slash at its end. */
export function parseStoreUrl(text: string): string {
  return kindOf(text) === 'folder' ? parseFolderUrl(text) : parseS3Url(text);
}

function parseFolderUrl(text: string): string {
  const url = URL.parse(text);
  const isPlain = url && url.host === '' && url.search === '' && url.hash === '';
  if (!isPlain || !/^file:\/\/\/[^/]/.test(text) || /%2f|%00/i.test(text)) {
    throw new Error('must be file:///FOLDER, with the path of a folder that exists');
  }
  return url.href.replace(/\/+$/, '');
}

export function parseS3Url(text: string): string {
  const match = /^s3:\/\/([A-Za-z0-9][A-Za-z0-9._-]{2,254})(\/[A-Za-z0-9!_.*'()/-]*)?$/.exec(text);
  const prefix = (match?.[2] ?? '').replace(/^\/|\/$/g, '');
  const names = prefix === '' ? [] : prefix.split('/');
  const isOdd = names.some((name) => name === '' || name === '.' || name === '..');
  if (!match || isOdd || prefix.length > 512) {
    const letters = "letters, digits and !_.*'()-";
    throw new Error(
      `must be s3://BUCKET or s3://BUCKET/PREFIX, of ${letters}, at least 3 and at most 512`,
    );
  }
  return [`s3://${match[1]}`, ...names].join('/');
}

/** As requests to the store name it: each provider has names of its own. */
export function parseStoreRegion(text: string): string {
  if (/^[A-Za-z0-9_-]{1,64}$/.test(text)) return text;
  throw new Error('must be a region name such as us-east-1');
}

/** A provider's region, or `none`, where nothing has a price. */
export function parseMarket(text: string): string {
  if (text === 'none') return freeMarket;
  if (/^[a-z0-9.-]{1,63}\/[a-z0-9.-]{1,63}$/.test(text)) return text;
  throw new Error('must be PROVIDER/REGION such as aws/us-east-1, or none');
}

function parseProfile(text: string): string {
  if (/^[^\s[\]]{1,128}$/.test(text)) return text;
  throw new Error('must be the name of a profile in the AWS configuration files');
}

function parseExtentBytes(text: string): number {
  const bytes = parseSize(text);
  if (bytes >= chunkBytes && bytes <= extentBytesMax && bytes % chunkBytes === 0) return bytes;
  throw new Error('must be a multiple of 256KiB, at most 16MiB');
}

/** Names of what fails as one, separated by commas. */
function parseDomains(text: string): readonly string[] {
  const domains = text.split(',').map((one) => one.trim());
  const isOdd = !domains.every(isName);
  if (!isOdd && domains.length <= domainsMax && new Set(domains).size === domains.length) {
    return domains;
  }
  throw new Error(
    `must be 1 to ${domainsMax} different names, each of ${nameWords}, such as ` +
      '[disk1, host1, site1]',
  );
}

function parseShare(text: string): number {
  const share = Number(text);
  if (/^(0|0?\.\d{1,15}|0\.\d{1,15}|\d(\.\d{1,6})?e-\d{1,2}|1)$/.test(text) && share <= 1) {
    return share;
  }
  throw new Error('must be a share from 0 to 1, such as 0.001 or 1e-6');
}

function parseKind(text: string): PlaceKind {
  if (text === 'online' || text === 'archive') return text;
  throw new Error('must be online or archive');
}

function parseRecallDelay(text: string): number {
  return within(parseDuration, 0, recallDelayMsMax, '0ms to 48h')(text);
}

/** As the header `x-amz-storage-class` has it. Other servers than Amazon's have more names. */
function parseStorageClass(text: string): string {
  if (classForm.test(text)) return text;
  const those = [...awsClasses].join(', ');
  throw new Error(`must be a storage class of Amazon S3 (${those}) or of a server of the same API`);
}

function parseTimeout(text: string): number {
  return within(parseDuration, 1, timeoutMsMax, '1ms to 10m')(text);
}
