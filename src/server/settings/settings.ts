// Every setting of `bursar serve`, in one table. Flags, environment variables, the keys of the YAML
// file and the help are all derived from it, so they cannot disagree. What a setting is, is in
// setting.ts; those of what is measured are a table of their own (measuring-settings.ts).
import { inlineBytesMax } from '../../core/limits.ts';
import { localStoreName } from '../../core/manifest.ts';
import { measuringSettings } from './measuring-settings.ts';
import {
  parseCount,
  parseDuration,
  parseListen,
  parseSize,
  parseSwitch,
  parseUrl,
  parseWord,
} from './quantities.ts';
import { optional, type Setting, setting } from './setting.ts';
import {
  atLeast,
  parseAccessKeyId,
  parseBackupInterval,
  parseDomains,
  parseEncryption,
  parseHosts,
  parseInlineBytes,
  parseKmsKey,
  parseLifecycleDay,
  parseLogOrigin,
  parseNetworks,
  parseObjectIndex,
  parsePrivateHosts,
  parseRegion,
  parseSecret,
  parseShippingInterval,
  parseSmtp,
  parseStoredPages,
  parseText,
  parseThreads,
  parseTimer,
  parseWitnesses,
} from './setting-values.ts';
import { parseChosenStore, parseMarket, parseStoreRegion, parseStores } from './store-settings.ts';

/** Properties of `Config`, units last. */
export const settings = {
  data: setting({
    key: 'data',
    placeholder: 'DIR',
    description: 'folder for everything that is kept',
    default: './bursar-data',
    parse: parseText,
  }),
  listen: setting({
    key: 'listen',
    placeholder: 'HOST:PORT',
    description: 'address to listen on; port 0 takes a free one',
    default: '127.0.0.1:9000',
    parse: parseListen,
  }),
  adminListen: optional({
    key: 'adminListen',
    placeholder: 'HOST:PORT',
    description:
      'an address of its own for the native API, health and metrics, which leave --listen',
    parse: parseListen,
  }),
  config: optional({
    key: 'config',
    placeholder: 'FILE',
    description: 'YAML file with any of these settings',
    notInFile: true,
    parse: parseText,
  }),
  domains: optional({
    key: 'domain',
    placeholder: 'NAME',
    description: 'base of virtual-host-style names, BUCKET.NAME; comma-separated if several',
    parse: parseDomains,
  }),
  publicUrl: optional({
    key: 'publicUrl',
    placeholder: 'URL',
    description: 'how clients reach the gateway, where that is not the listening address',
    parse: parseUrl,
  }),
  acceptHosts: optional({
    key: 'acceptHosts',
    placeholder: 'NAME',
    description:
      'more host names to answer for, *.NAME for all below one; comma-separated if several',
    parse: parseHosts,
  }),
  shareUrl: optional({
    key: 'shareUrl',
    placeholder: 'URL',
    description: 'what share links begin with, on a host for them alone; without it, --public-url',
    parse: parseUrl,
  }),
  storedPages: setting({
    key: 'storedPages',
    placeholder: 'HOW',
    default: 'sandbox',
    description: 'how browsers run stored pages: sandbox, apart from all others; or same-origin',
    parse: parseStoredPages,
  }),
  trustedProxies: optional({
    key: 'trustedProxies',
    placeholder: 'CIDR',
    description:
      'proxies whose X-Forwarded-For and -Proto are believed; comma-separated if several',
    parse: parseNetworks,
  }),
  logOrigin: optional({
    key: 'logOrigin',
    placeholder: 'NAME',
    description: 'name of the audit log, for good; without it one that is random',
    parse: parseLogOrigin,
  }),
  region: setting({
    key: 'region',
    placeholder: 'NAME',
    description: 'region that buckets are said to be in (any is taken in signatures)',
    default: 'us-east-1',
    parse: parseRegion,
  }),
  blockPublicAccess: setting({
    key: 'blockPublicAccess',
    placeholder: 'yes|no',
    description: 'block public access to each new bucket, until its owner takes the block away',
    default: 'yes',
    isSwitch: true,
    parse: parseSwitch,
  }),
  rootAccessKey: optional({
    key: 'rootAccessKey',
    placeholder: 'ID',
    description: "the operator's access key id, instead of a generated one",
    secret: true,
    parse: parseAccessKeyId,
  }),
  rootSecretKey: optional({
    key: 'rootSecretKey',
    placeholder: 'SECRET',
    description: "the operator's secret access key; both or none",
    secret: true,
    parse: parseSecret,
  }),
  store: setting({
    key: 'store',
    placeholder: 'STORE',
    description:
      'where new buckets keep bytes: s3://BUCKET/PREFIX, file:///FOLDER, a named store or local',
    default: localStoreName,
    parse: parseChosenStore,
  }),
  storeEndpoint: optional({
    key: 'storeEndpoint',
    placeholder: 'URL',
    description: "the S3 server of --store s3://…, if it is not Amazon's",
    parse: parseUrl,
  }),
  storeRegion: optional({
    key: 'storeRegion',
    placeholder: 'NAME',
    description: "the region of --store s3://…, if it is not that of the AWS SDK's settings",
    parse: parseStoreRegion,
  }),
  storePathStyle: setting({
    key: 'storePathStyle',
    placeholder: 'yes|no',
    description: 'ask the server of --store s3://… for /BUCKET/KEY instead of BUCKET.HOST',
    default: 'no',
    isSwitch: true,
    parse: parseSwitch,
  }),
  journalWithKeys: setting({
    key: 'journalWithKeys',
    placeholder: 'yes|no',
    description: 'tell S3 stores, sealed, the secrets of access keys, so that a rebuild has them',
    default: 'no',
    isSwitch: true,
    parse: parseSwitch,
  }),
  stores: optional({
    key: 'stores',
    placeholder: 'YAML',
    description: 'S3 stores by name, each with url, endpoint, region and more',
    isMapping: true,
    parse: parseStores,
  }),
  prices: setting({
    key: 'prices',
    placeholder: 'PROVIDER/REGION',
    description: 'whose prices the use of the stores has; none: nothing has a price',
    default: 'aws/us-east-1',
    parse: parseMarket,
  }),
  priceBooks: optional({
    key: 'priceBooks',
    placeholder: 'DIR',
    description: 'folder with price books besides those that come with Bursar',
    parse: parseText,
  }),
  bufferMemoryBytes: setting({
    key: 'bufferMemory',
    placeholder: 'SIZE',
    description: 'memory for the object data that is on its way, at least 16MiB',
    default: '128MiB',
    parse: atLeast(parseSize, 16 * 1024 * 1024, '16MiB'),
  }),
  objectMemoryBytes: setting({
    key: 'objectMemory',
    placeholder: 'SIZE',
    description: 'memory for small objects that are read often; 0: none',
    default: '32MiB',
    parse: parseSize,
  }),
  kmsKey: optional({
    key: 'kmsKey',
    placeholder: 'KEY',
    description: 'key of AWS KMS (id, alias or ARN) that protects the key file',
    parse: parseKmsKey,
  }),
  kmsRegion: optional({
    key: 'kmsRegion',
    placeholder: 'NAME',
    description: "the region of --kms-key, if it is not that of the AWS SDK's settings",
    parse: parseRegion,
  }),
  kmsEndpoint: optional({
    key: 'kmsEndpoint',
    placeholder: 'URL',
    description: "the server of --kms-key, if it is not Amazon's",
    parse: parseUrl,
  }),
  stallTimeoutMs: setting({
    key: 'stallTimeout',
    placeholder: 'DURATION',
    description: 'cut a client that neither sends nor reads for this long',
    default: '30s',
    parse: atLeast(parseTimer, 1, '1ms'),
  }),
  minRate: setting({
    key: 'minRate',
    placeholder: 'SIZE',
    description: 'what a client must send of a body, a second, over two stall timeouts; 0: any',
    default: '1KiB',
    parse: parseSize,
  }),
  refusalRecords: setting({
    key: 'refusalRecords',
    placeholder: 'COUNT',
    description: 'how many refusals of a principal a minute have a record of their own',
    default: '300',
    parse: parseCount,
  }),
  revokedDownloads: setting({
    key: 'revokedDownloads',
    placeholder: 'WHAT',
    description: 'what becomes of downloads under way whose right is taken away: cut, finish',
    default: 'cut',
    parse: (value) => parseWord(value, ['cut', 'finish'] as const),
  }),
  drainMs: setting({
    key: 'drain',
    placeholder: 'DURATION',
    description: 'when stopping, answer for so long that health is bad and all else as before',
    default: '0s',
    parse: parseDuration,
  }),
  freeBytesMin: setting({
    key: 'freeMin',
    placeholder: 'SIZE',
    description: 'with less free room on its disks health says that nothing can be written',
    default: '64MiB',
    parse: parseSize,
  }),
  shutdownTimeoutMs: setting({
    key: 'shutdownTimeout',
    placeholder: 'DURATION',
    description: 'let requests finish for this long when stopping',
    default: '30s',
    parse: parseTimer,
  }),
  sweepIntervalMs: setting({
    key: 'sweepInterval',
    placeholder: 'DURATION',
    description: 'look for what failed uploads left behind this often',
    default: '60s',
    parse: atLeast(parseTimer, 100, '100ms'),
  }),
  sweepGraceMs: setting({
    key: 'sweepGrace',
    placeholder: 'DURATION',
    description: 'leave what no object holds alone for this long',
    default: '1h',
    parse: parseDuration,
  }),
  lifecycleDayMs: setting({
    key: 'lifecycleDay',
    placeholder: 'DURATION',
    description: 'how long a day lasts for lifecycle rules, 1s to 24h; shorter only for tests',
    default: '24h',
    parse: parseLifecycleDay,
  }),
  encryption: setting({
    key: 'encryption',
    placeholder: 'on|off',
    default: 'on',
    description: 'whether what is written is encrypted at rest; what was is read in any case',
    parse: parseEncryption,
  }),
  inlineBytes: setting({
    key: 'inlineBytes',
    placeholder: 'SIZE',
    description: 'keep objects up to this size in the database, at most 64KiB',
    default: String(inlineBytesMax),
    parse: parseInlineBytes,
  }),
  objectIndex: setting({
    key: 'objectIndex',
    placeholder: 'all|off|NAME,…',
    default: 'all',
    description:
      'index objects by their tags and by all user metadata, or by the metadata of these names ' +
      'alone; off: not at all',
    parse: parseObjectIndex,
  }),
  httpThreads: setting({
    key: 'httpThreads',
    placeholder: 'COUNT',
    description: 'threads that take connections, at most 64',
    default: '1',
    parse: parseThreads,
  }),
  connectionsMax: setting({
    key: 'connectionsMax',
    placeholder: 'COUNT',
    description: 'client connections at a time',
    default: '4096',
    parse: atLeast(parseCount, 1, '1'),
  }),
  privateIssuers: optional({
    key: 'privateIssuers',
    placeholder: 'HOST:PORT',
    description:
      'hosts with private addresses that tenants may have as OIDC issuers; comma-separated ' +
      'if several',
    parse: parsePrivateHosts,
  }),
  privateWebhooks: optional({
    key: 'privateWebhooks',
    placeholder: 'HOST:PORT',
    description:
      "hosts with private addresses that tenants' webhooks may be at; comma-separated if several",
    parse: parsePrivateHosts,
  }),
  smtp: optional({
    key: 'smtp',
    placeholder: 'URL',
    description:
      'mail server for alarms: smtps://USER:PASSWORD@HOST?from=ADDRESS, or smtp:// with STARTTLS',
    secret: true,
    parse: parseSmtp,
  }),
  mailDomains: optional({
    key: 'mailDomains',
    placeholder: 'DOMAIN',
    description: 'where tenants may have alarms mailed to; comma-separated if several',
    parse: parseDomains,
  }),
  migrateWithoutCopy: setting({
    key: 'migrateWithoutCopy',
    placeholder: 'yes|no',
    description: "bring an older release's database to this one's schema without a copy of it",
    default: 'no',
    isSwitch: true,
    parse: parseSwitch,
  }),
  trustTraceparent: setting({
    key: 'trustTraceparent',
    placeholder: 'yes|no',
    description: "let clients' traceparent have requests traced beyond OTEL_TRACES_SAMPLER",
    default: 'no',
    isSwitch: true,
    parse: parseSwitch,
  }),
  witnesses: optional({
    key: 'witness',
    placeholder: 'VERIFIER URL',
    description: 'who cosigns the audit log, its verifier key and its URL; may be repeated',
    parse: parseWitnesses,
  }),
  backupTo: optional({
    key: 'backupTo',
    placeholder: 'PLACE',
    description: 'make backups by itself in this folder or s3://BUCKET/PREFIX',
    parse: parseText,
  }),
  backupEveryMs: optional({
    key: 'backupEvery',
    placeholder: 'DURATION',
    description: 'between the backups of --backup-to, 1m to 24d; without it 24h',
    parse: parseBackupInterval,
  }),
  backupShipEveryMs: optional({
    key: 'backupShipEvery',
    placeholder: 'DURATION',
    description:
      'ship changes of the database to --backup-to so often, 100ms to 1h; without it not',
    parse: parseShippingInterval,
  }),
  backupKeep: setting({
    key: 'backupKeep',
    placeholder: 'COUNT',
    description: 'so many of the newest backups of --backup-to are kept',
    default: '30',
    parse: atLeast(parseCount, 1, '1'),
  }),
  backupEndpoint: optional({
    key: 'backupEndpoint',
    placeholder: 'URL',
    description: "the S3 server of --backup-to s3://…, if it is not Amazon's",
    parse: parseUrl,
  }),
  backupRegion: optional({
    key: 'backupRegion',
    placeholder: 'NAME',
    description: "the region of --backup-to s3://…, if it is not that of the AWS SDK's settings",
    parse: parseStoreRegion,
  }),
  backupPathStyle: setting({
    key: 'backupPathStyle',
    placeholder: 'yes|no',
    description: 'ask the server of --backup-to s3://… for /BUCKET/KEY instead of BUCKET.HOST',
    default: 'no',
    isSwitch: true,
    parse: parseSwitch,
  }),
  archiveAfterMs: setting({
    key: 'archiveAfter',
    placeholder: 'DURATION',
    description: 'move audit records that are older into a store, compressed; 0: never',
    default: '90d',
    // `0` means never: no record becomes that old, and none is late.
    parse: (value) => (value === '0' ? 0 : parseDuration(value)) || Number.POSITIVE_INFINITY,
  }),
  archiveStore: optional({
    key: 'archiveStore',
    placeholder: 'NAME',
    description: 'the store that takes them; without it, that of --store',
    parse: parseText,
  }),
  ...measuringSettings,
};

type Settings = typeof settings;
type Value<S> = S extends Setting<infer T> ? T : never;

/** What `bursar serve` runs with. Milliseconds and bytes. */
export type Config = {
  [K in keyof Settings]: Settings[K] extends { default: string }
    ? Value<Settings[K]>
    : Value<Settings[K]> | undefined;
};
