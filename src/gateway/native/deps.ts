// What the native API needs from the rest of the gateway, so that it can be tried without an S3
// side.
import type { FastifyRequest } from 'fastify';
import type { EraseRecords } from '../../audit/erasure.ts';
import type { RecordSearch } from '../../audit/search/record-search.ts';
import type { ShownRecords } from '../../audit/shown-records.ts';
import type { AuthzChange, Follower } from '../../authz/changes.ts';
import type { Directory } from '../../authz/directory.ts';
import type { Identity as Authenticated } from '../../authz/identity.ts';
import type { OutsideTokens } from '../../authz/oidc/outside-tokens.ts';
import type { Revocations } from '../../authz/revocations.ts';
import type { TokenKeys } from '../../authz/token-keys.ts';
import type { SetRecordReads } from '../../catalog/bucket-changes.ts';
import type { Reader } from '../../core/database.ts';
import type { ErrorCode, IntegrityError } from '../../core/errors.ts';
import type { Keyring, RootKey } from '../../core/keyring.ts';
import type { Limits } from '../../core/quota-terms.ts';
import type { RootKeyFile } from '../../core/root-keys.ts';
import type { Sealer } from '../../core/sealing.ts';
import type { MetricRegistry } from '../../instruments/metric-registry.ts';
import type { Decision, KnownRights } from '../../ledger/known-rights.ts';
import type { LogKeyFile } from '../../ledger/log-key-file.ts';
import type { LogKey } from '../../ledger/log-signing.ts';
import type { Scope } from '../../ledger/rights-epoch.ts';
import type { UsageRollUp } from '../../ledger/usage-roll-up.ts';
import type { LeaseDesk } from '../../quota/leases/lease-desk.ts';
import type { SetAlarmHook } from '../../quota/limits/alarm-hooks.ts';
import type { PriceBooks } from '../../quota/prices/price-books.ts';
import type { AlarmTeller } from '../alarms/alarm-teller.ts';
import type { DataVerifier, Finding } from '../data-verifier.ts';
import type { Health } from '../health.ts';
import type { Rooms } from '../rooms.ts';
import type { StoreList } from '../store-list.ts';
import type { Origin } from '../trusted-proxies.ts';
import type { DeepRuns } from './deep-routes.ts';

/** Who a request was authenticated as, and how. */
export type Identity = Pick<
  Authenticated,
  | 'principal'
  | 'isAnonymous'
  | 'subjects'
  | 'accessKeyId'
  | 'keyThumbprint'
  | 'delegation'
  | 'evidence'
  | 'signed'
  | 'authentication'
>;

/** A change of what accounts may use. */
export type LimitChange =
  | {
      type: 'setLimits';
      account: string;
      /** null: it has none from now on. */
      limits: Limits | null;
      /** Refused unless these are the account's; undefined: whatever it has. */
      before?: Limits | null;
    }
  | { type: 'forgetLost'; account: string };

/** A change of what signs the log. A key that is added is durable in its file already. */
export type LogKeyChange =
  | { type: 'rotateLogKey'; key: LogKey; retireMs: number }
  | { type: 'revokeLogKey'; id: string };

/** What a call can change. A root key is durable in its file already. */
export type NativeChange =
  | AuthzChange
  | LimitChange
  | ({ type: 'eraseRecords'; reason: string } & EraseRecords)
  | ({ type: 'setAlarmHook' } & SetAlarmHook)
  | ({ type: 'setRecordReads' } & SetRecordReads)
  | { type: 'addRootKey'; key: RootKey }
  | { type: 'confirmClock'; stepMs: number }
  | LogKeyChange;

/** One authenticated call, ready to be committed. */
export interface NativeEntry {
  who: Identity;
  requestId: string;
  /** Client address. */
  source: string;
  /** `bursar:CreateTenant` */
  action: string;
  /** `tenants/cms/principals/alice` */
  target: string | null;
  /** Another tenant than the caller's, whose grants let it in; null: none. */
  host: string | null;
  /** What its decision depends on besides the caller. */
  concerns: readonly Scope[];
  bytesIn: number;
  /** HTTP status of the answer if the change is accepted. */
  status: number;
  /** Null: nothing changes, the call is only recorded. */
  change: NativeChange | null;
  /** Why the call was refused before it could change anything. */
  refused?: ErrorCode;
}

export interface NativeDeps
  extends Pick<Rooms, 'grants' | 'mounts' | 'buckets' | 'log' | 'witnesses' | 'rates'> {
  directory: Directory;
  /** Told of an account's limits as they are durable. */
  desk: Pick<LeaseDesk, 'setLimits'>;
  /** Told of each change of who there is and what they may. */
  followers: readonly Follower[];
  sealer: Sealer;
  read: Reader;
  records: Pick<ShownRecords, 'readRecord' | 'readRun'>;
  search: Pick<RecordSearch, 'find'>;
  stores: StoreList;
  outside: Pick<OutsideTokens, 'keysState'>;
  /** The gateway's own URL, which tokens and proofs of keys are for. */
  publicUrl(): string;
  /** What share links begin with. */
  shareUrl(): string;
  tokenKeys: Pick<TokenKeys, 'current' | 'jwks'>;
  revocations: Pick<Revocations, 'has'>;
  rootKeys: Pick<RootKeyFile, 'describe' | 'rotate'>;
  logKeys: Pick<LogKeyFile, 'add' | 'remove'>;
  keyring: Keyring;
  /** Authenticates a request whose whole body is `body`. Throws `Refusal`. */
  authenticate(request: FastifyRequest, body: Buffer): Promise<Identity>;
  /**
   * The caller of a request that was authenticated at `atMs`, as things are now. Throws `Refusal` where
   * the credential is good no more.
   */
  renew(request: FastifyRequest, who: Identity, atMs: number): Promise<Identity>;
  /** Told why memory cannot be what the tables say; it must end the process. */
  onFatal: (reason: string) => void;
  /** By what calls are decided. */
  rights: Pick<KnownRights, 'epoch' | 'follow'>;
  /** Did it come to the administration's own address? */
  isAdministration(request: FastifyRequest): boolean;
  /** Where a request came from, as proxies that are trusted tell it. */
  originOf(request: FastifyRequest): Origin;
  /**
   * Commits a change with its record and charge; gives the log index, or null where the record is one
   * with others, and the epoch that it begins where it takes rights away. Throws `Refusal` when the change is refused inside the transaction,
   * and has then recorded that refusal. `decision`: null for what is recorded whatever rights are.
   */
  commit(
    entry: NativeEntry,
    decision: Decision | null,
  ): Promise<{
    index: number | null;
    epoch?: number | undefined;
    /** Waits for the journals in S3 stores; gives the stores whose journals do not tell of it yet. */
    untold?: () => Promise<string[]>;
  }>;
  verifier: Pick<DataVerifier, 'verify'>;
  deepRuns: DeepRuns;
  /** Records and counts what the call of `entry` found damaged. Throws `Refusal`. */
  commitFindings(entry: NativeEntry, findings: readonly Finding[]): Promise<void>;
  /** Counts and logs what stored records turned out to be damaged or missing. */
  onIntegrityFailure: (error: IntegrityError, requestId: string) => void;
  usageRollUp: Pick<UsageRollUp, 'catchUp'>;
  alarms: Pick<AlarmTeller, 'stateOf' | 'test'>;
  priceBooks: PriceBooks;
  metrics: Pick<MetricRegistry, 'read'>;
  /** With it `/_/metrics` names tenants and accounts; undefined: there is none. */
  metricsToken: string | undefined;
  /** How the gateway is; `detail` is for operators. */
  health(): Promise<Health & { detail: Record<string, unknown> }>;
}
