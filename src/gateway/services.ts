// What requests are served with. Invariant: server/composition.ts makes it once and hands it on
// whole; what needs less of it says so by its type.

import type { ChangeLog } from '../audit/changes/change-log.ts';
import type { RecordStore } from '../audit/record-store.ts';
import type { RecordSearch } from '../audit/search/record-search.ts';
import type { TokenUse } from '../authz/token-use.ts';
import type { Reader } from '../core/database.ts';
import type { FairShare } from '../core/fair-share.ts';
import type { RootKeyFile } from '../core/root-keys.ts';
import type { Sealer } from '../core/sealing.ts';
import type { Turns } from '../core/turns.ts';
import type { Instruments } from '../instruments/instruments.ts';
import type { Logger } from '../instruments/logger.ts';
import type { Metrics } from '../instruments/metrics.ts';
import type { RecentEverywhere } from '../instruments/recent-requests.ts';
import type { BackendUpkeep } from '../ledger/backend-upkeep.ts';
import type { IntentPool } from '../ledger/intent-pool.ts';
import type { Journals, RequestJournals } from '../ledger/journal/journals.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { LogKeyFile } from '../ledger/log-key-file.ts';
import type { CopyMemories } from '../quota/copy-memory.ts';
import type { BodyRooms } from '../quota/disk-room.ts';
import type { LeaseHolder } from '../quota/leases/lease-holder.ts';
import type { LimitedAccounts } from '../quota/limited-accounts.ts';
import type { PriceBook } from '../quota/prices/price-book.ts';
import type { PriceBooks } from '../quota/prices/price-books.ts';
import type { Rates } from '../quota/rates.ts';
import type { ObjectSearch } from '../search/object-search.ts';
import type { State } from '../state/state.ts';
import type { ExtentCopies } from '../tiering/extent-copies.ts';
import type { ObjectReader } from '../tiering/object-reader.ts';
import type { ObjectWriter } from '../tiering/object-writer.ts';
import type { ReadLeases } from '../tiering/read-leases.ts';
import type { AlarmNotifier } from './alarms/alarm-notifier.ts';
import type { AlteredRecords } from './altered-records.ts';
import type { BucketMetrics } from './bucket-metrics.ts';
import type { HealthFacts } from './health.ts';
import type { StoredPages } from './http/origins.ts';
import type { Inventories } from './inventory/inventories.ts';
import type { LogHead } from './log/log-head.ts';
import type { Witnesses } from './log/witnesses.ts';
import type { Losses } from './losses.ts';
import type { DeepRuns } from './native/verify-routes.ts';
import type { Notifier } from './notifications/notifier.ts';
import type { Remakes } from './remakes.ts';
import type { CorsRules } from './s3/buckets/cors.ts';
import type { ObjectMemory } from './s3/objects/object-memory.ts';
import type { RecordFolding } from './s3/record-folding.ts';
import type { SealFaults } from './seal-faults.ts';
import type { StoreDrills } from './store-drills.ts';
import type { StoreList } from './store-list.ts';

/** What S3 operations and share links are served with. */
export interface RequestServices
  extends Pick<
    State<CorsRules>,
    | 'buckets'
    | 'chains'
    | 'classes'
    | 'cors'
    | 'directory'
    | 'encryption'
    | 'grants'
    | 'keyring'
    | 'lifecycle'
    | 'mounts'
    | 'notifications'
    | 'outside'
    | 'readRecording'
    | 'revocations'
    | 'sessions'
    | 'snapshots'
    | 'websites'
  > {
  /** Committed state, read-only. */
  read: Reader;
  /** What finds objects by what is said of them. */
  objects: Pick<ObjectSearch, 'find'>;
  /** Whom it does not serve. */
  sealFaults: SealFaults;
  folding: RecordFolding;
  /** Who has the ledger do much at once, by id of principal. */
  bulkTurns: Pick<Turns, 'take'>;
  tokenUse: TokenUse;
  /** The gateway's own URL, which tokens are for and by. Throws until it listens. */
  publicUrl(): string;
  /** What share links begin with. Throws until it listens. */
  shareUrl(): string;
  ledger: Ledger;
  /** The newest checkpoint of the audit log. */
  log: LogHead;
  /** Who cosign it. */
  witnesses: Pick<Witnesses, 'state'>;
  journals: RequestJournals;
  /** Ids for extents that are about to be written. */
  intents: IntentPool;
  writer: ObjectWriter;
  reader: ObjectReader;
  /** Where else extents are, and what was found of that. */
  copies: ExtentCopies;
  /** What no store has any more. */
  losses: Losses;
  /** What is counted of buckets whose owners configured it. */
  bucketMetrics: BucketMetrics;
  /** Makes it again of what is uploaded. */
  remakes: Remakes;
  /** Small objects that were read lately. */
  objectMemory: ObjectMemory;
  leases: ReadLeases;
  diskRoom: BodyRooms;
  copyMemory: CopyMemories;
  /** Memory of bodies that are collected before they are used. */
  smallBodies: FairShare;
  leaseHolder: LeaseHolder;
  /** Prefixes of keys, and writers, that have limits. */
  limitedAccounts: LimitedAccounts;
  /** How fast accounts may go. */
  rates: Rates;
  /** The prices in force of a store, by its number. */
  bookOf(store: number): PriceBook;
  priceBooks: PriceBooks;
  stores: StoreList;
  /** How long a day lasts for rules and restores. Milliseconds. */
  dayMs: number;
  /** What is asked of stores for no operation. */
  upkeep: Pick<BackendUpkeep, 'add'>;
  /** Does a download end where the right to it is taken away? */
  cutsRevoked: boolean;
  region: string;
  /** Is public access to a new bucket blocked? */
  blocksNewBuckets: boolean;
  /** Bases of names of buckets, those of websites too. */
  domains: readonly string[];
  /** The bases of websites. */
  websiteDomains: readonly string[];
  /** Is what is written encrypted? */
  encrypts: boolean;
  storedPages: StoredPages;
}

/** What the native API needs besides. */
export interface Services extends RequestServices {
  journals: Journals;
  sealer: Sealer;
  rootKeys: RootKeyFile;
  logKeys: LogKeyFile;
  /** Adds up usage until now. */
  usageRollUp: { catchUp(): Promise<void> };
  deepRuns: DeepRuns;
  /** Losses that are tried out. */
  drills: StoreDrills;
  records: RecordStore;
  altered: AlteredRecords;
  search: RecordSearch;
  changes: ChangeLog;
  alarms: Pick<AlarmNotifier, 'mailer' | 'policyOf' | 'stateOf' | 'test'>;
  /** Tells targets of changes. */
  inventories: Pick<Inventories, 'stateOf' | 'begin'>;
  notifier: Pick<Notifier, 'stateOf' | 'test' | 'renew'>;
  metrics: Metrics;
  instruments: Instruments;
  recentRequests: RecentEverywhere;
  logger: Logger;
  /** With it `/_/metrics` names tenants and accounts; undefined: there is none. */
  metricsToken: string | undefined;
  /** What its health is judged by; `detail` is for operators. */
  lookAtHealth: () => Promise<{
    facts: Omit<HealthFacts, 'isUndamaged'>;
    detail: Record<string, unknown>;
  }>;
}
