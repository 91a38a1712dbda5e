// What requests are decided by, in memory: each part is a projection of the ledger's feed of
// events, or a cache that the feed corrects, and nothing else changes what they say. Invariant:
// what is found here is what the tables say as of `index` or later.
import type { AddressPolicy } from '../authz/oidc/address-policy.ts';
import { RecentTokens } from '../authz/recent-tokens.ts';
import type { RecentChains } from '../authz/tokens/verified-chains.ts';
import { type BucketEncryption, readEncryptionSetting } from '../catalog/bucket-encryption.ts';
import type { MetricsConfiguration } from '../catalog/bucket-metrics.ts';
import { parseConfigurations } from '../catalog/configurations.ts';
import { type Lifecycle, readLifecycle } from '../catalog/lifecycle.ts';
import { type Notifications, parseNotifications } from '../catalog/notifications.ts';
import { parseWindow, type UndeleteWindow } from '../catalog/undelete-window.ts';
import { readWebsite, type Website } from '../catalog/website.ts';
import type { Reader } from '../core/database.ts';
import type { Keyring } from '../core/keyring.ts';
import type { Followed } from '../core/loads.ts';
import type { Sealer } from '../core/sealing.ts';
import { type SteadyClock, steadyClock } from '../core/steady-clock.ts';
import type { LedgerEvent } from '../ledger/events.ts';
import type { FeedEntry, Subscriber } from '../ledger/feed.ts';
import { BucketCache } from './bucket-cache.ts';
import { ClassBook } from './class-book.ts';
import { Directory } from './directory.ts';
import { GrantBook } from './grant-book.ts';
import { KeptMoments } from './kept-moments.ts';
import { AccountLimits } from './limits.ts';
import { MountBook } from './mount-book.ts';
import { OutsideTokens } from './outside-tokens.ts';
import { ReadRecording } from './read-recording.ts';
import { Revocations } from './revocations.ts';
import { Sessions } from './sessions.ts';
import { SettingCache } from './setting-cache.ts';
import { SnapshotCache } from './snapshot-cache.ts';
import { TenantKeys } from './tenant-keys.ts';

export interface StateOptions<Cors> {
  read: Reader;
  keyring: Keyring;
  sealer: Sealer;
  /** The addresses at which outside issuers may be asked for their keys. */
  issuerPolicy: AddressPolicy;
  /** Told why an issuer gave no keys, for the operator. */
  onProblem?: (reason: string) => void;
  /** Told of a row that is no grant, which no gateway can have stored. */
  onUnreadable?: (error: unknown) => void;
  readCors: (document: string) => Cors;
  /** Absent: the clock of this thread. */
  clock?: Pick<SteadyClock, 'confirm'>;
}

/** A part of the state, which events change. */
interface Projection {
  /** `index`: log index of the change that has caused the event. */
  apply(event: LedgerEvent, index: number): void | Promise<void>;
}

const MiB = 1024 * 1024;

/** The parts that are read whole. */
type Loaded =
  | 'directory'
  | 'grants'
  | 'mounts'
  | 'classes'
  | 'outside'
  | 'revocations'
  | 'readRecording'
  | 'limits'
  | 'tenantKeys';

export class State<Cors = unknown> implements Followed, Subscriber {
  readonly keyring: Keyring;
  readonly directory: Directory;
  readonly sessions: Sessions;
  /** Chains of tokens that were verified. */
  readonly chains: RecentChains;
  readonly buckets: BucketCache;
  readonly snapshots: SnapshotCache;
  /** Which pages of other origins may ask for what, by bucket. */
  readonly cors: SettingCache<Cors>;
  readonly encryption: SettingCache<BucketEncryption>;
  readonly lifecycle: SettingCache<Lifecycle>;
  /** Which requests of buckets are counted by themselves. */
  readonly metricsConfigurations: SettingCache<MetricsConfiguration[]>;
  /** Of which changes buckets tell whom. */
  readonly notifications: SettingCache<Notifications>;
  /** How far back buckets can be shown as they were. */
  readonly windows: SettingCache<UndeleteWindow>;
  /** Which buckets are websites, and how. */
  readonly websites: SettingCache<Website>;
  readonly grants: GrantBook;
  readonly mounts: MountBook;
  readonly classes: ClassBook;
  /** Principals that act with tokens of outside issuers. */
  readonly outside: OutsideTokens;
  readonly revocations: Revocations;
  readonly readRecording: ReadRecording;
  readonly limits: AccountLimits;
  /** What the bytes of tenants are encrypted under. */
  readonly tenantKeys: TenantKeys;
  /** In this order: what comes later is made of what comes before. */
  readonly #projections: readonly Projection[];
  readonly #clock: Pick<SteadyClock, 'confirm'>;
  readonly #followed: { index: number };

  /** Reads what is kept whole. No change may be committed until it is subscribed to the feed. */
  static async load<Cors>(options: StateOptions<Cors>): Promise<State<Cors>> {
    const { read, keyring, sealer, issuerPolicy: policy, onProblem, onUnreadable } = options;
    const followed = { index: -1 };
    const directory = new Directory({ read, sealer, followed });
    const issuers = { policy, ...(onProblem && { onProblem }) };
    return new State(options, followed, {
      directory,
      grants: await GrantBook.load(read, onUnreadable),
      mounts: await MountBook.load(read),
      classes: await ClassBook.load(read),
      outside: await OutsideTokens.load({ read, directory, followed, ...issuers }),
      revocations: await Revocations.load(read),
      readRecording: await ReadRecording.load(read),
      limits: await AccountLimits.load(read),
      tenantKeys: await TenantKeys.load({ read, keyring, sealer }),
    });
  }

  private constructor(
    { read, keyring, readCors, clock = steadyClock }: StateOptions<Cors>,
    followed: { index: number },
    loaded: Pick<State, Loaded>,
  ) {
    const { directory, grants, mounts, outside, revocations, readRecording } = loaded;
    const { limits, tenantKeys } = loaded;
    this.#clock = clock;
    this.#followed = followed;
    this.keyring = keyring;
    this.directory = directory;
    this.grants = grants;
    this.mounts = mounts;
    this.classes = loaded.classes;
    this.outside = outside;
    this.revocations = revocations;
    this.readRecording = readRecording;
    this.limits = limits;
    this.tenantKeys = tenantKeys;
    this.sessions = new Sessions({ read, directory, keyring, outside, followed });
    this.chains = new RecentTokens(followed, 8 * MiB);
    this.buckets = new BucketCache(read, followed);
    this.cors = new SettingCache('cors', readCors, { read, followed });
    this.encryption = new SettingCache('encryption', readEncryptionSetting, { read, followed });
    this.lifecycle = new SettingCache('lifecycle', readLifecycle, { read, followed });
    const readMetrics = parseConfigurations<MetricsConfiguration>;
    this.metricsConfigurations = new SettingCache('metrics', readMetrics, { read, followed });
    this.notifications = new SettingCache('notification', parseNotifications, { read, followed });
    this.windows = new SettingCache('undelete', parseWindow, { read, followed });
    this.websites = new SettingCache('website', readWebsite, { read, followed });
    const moments = new KeptMoments(read, this.windows);
    this.snapshots = new SnapshotCache(read, followed, moments);
    this.#projections = [
      ...[
        tenantKeys,
        directory,
        outside,
        revocations,
        this.sessions,
        grants,
        mounts,
        loaded.classes,
        readRecording,
        limits,
      ],
      ...[this.buckets, this.snapshots, this.cors, this.encryption, this.lifecycle],
      ...[this.metricsConfigurations, this.notifications, this.windows, this.websites],
    ];
  }

  /** Log index of the newest change of which all events are applied. */
  get index(): number {
    return this.#followed.index;
  }

  async apply({ index, events }: FeedEntry): Promise<void> {
    for (const event of events) {
      this.#applyHere(event, index);
      for (const projection of this.#projections) await projection.apply(event, index);
    }
    this.#followed.index = index;
  }

  #applyHere(event: LedgerEvent, index: number): void {
    switch (event.kind) {
      case 'rootKey':
        this.keyring.begin(event.epoch);
        break;
      case 'clock':
        this.#clock.confirm();
        break;
      // What a chain was verified with, or is bound to.
      case 'publicKey':
      case 'principal':
      case 'tenant':
        this.chains.clear(index);
    }
  }
}
