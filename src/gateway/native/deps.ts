// What the native API needs from the rest of the gateway, so that it can be tried without an S3
// side.

import type { FastifyRequest } from 'fastify';
import type { ShownRecords } from '../../audit/shown-records.ts';
import type { Identity as Authenticated } from '../../authz/identity.ts';
import type { TokenKeys } from '../../authz/token-keys.ts';
import type { RetryCopies } from '../../catalog/extent-copies.ts';
import type { AmendWork, LeaseWork } from '../../catalog/work.ts';
import type { ErrorCode, IntegrityError } from '../../core/errors.ts';
import type { MetricRegistry } from '../../instruments/metric-registry.ts';
import type { IdentityChange } from '../../ledger/commands/identities.ts';
import type { Change } from '../../ledger/commands/index.ts';
import type { Released } from '../../ledger/commit.ts';
import type { Decision, KnownRights } from '../../ledger/known-rights.ts';
import type { Scope } from '../../ledger/scopes.ts';
import type { BucketBeginnings } from '../changes/bucket-beginnings.ts';
import type { DataVerifier, Finding } from '../data-verifier.ts';
import type { Health } from '../health.ts';
import type { Origin } from '../http/trusted-proxies.ts';
import type { Access } from '../s3/access.ts';
import type { Services } from '../services.ts';

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

/** What a call can change. A key that is added is durable in its file already. */
export type NativeChange =
  | IdentityChange
  | Extract<
      Change,
      {
        kind:
          | 'setLimits'
          | 'forgetLost'
          | 'rotateLogKey'
          | 'revokeLogKey'
          | 'eraseRecords'
          | 'setAlarmHook'
          | 'setRecordReads'
          | 'setReadPayer'
          | 'changeOwner'
          | 'transferUpload'
          | 'setUndelete'
          | 'purgeHeld'
          | 'createSnapshot'
          | 'deleteSnapshot'
          | 'addRootKey'
          | 'confirmClock'
          | 'drillStore';
      }
    >;

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
  /** Where it changes nothing, its record may be one with others. */
  isPolled?: boolean;
  /** HTTP status of the answer if the change is accepted. */
  status: number;
  /** Null: nothing changes, the call is only recorded. */
  change: NativeChange | null;
  /** Why the call was refused before it could change anything. */
  refused?: ErrorCode;
}

/** What calls use: services of the gateway, and what is made of them for the native API. */
export interface NativeDeps
  extends Pick<
    Services,
    | 'alarms'
    | 'bookOf'
    | 'buckets'
    | 'changes'
    | 'deepRuns'
    | 'drills'
    | 'directory'
    | 'grants'
    | 'inventories'
    | 'keyring'
    | 'log'
    | 'logKeys'
    | 'metricsToken'
    | 'mounts'
    | 'notifier'
    | 'outside'
    | 'limitedAccounts'
    | 'priceBooks'
    | 'publicUrl'
    | 'rates'
    | 'read'
    | 'recentRequests'
    | 'region'
    | 'revocations'
    | 'rootKeys'
    | 'search'
    | 'sealer'
    | 'shareUrl'
    | 'snapshots'
    | 'stores'
    | 'usageRollUp'
    | 'witnesses'
  > {
  /** Which buckets are not served, since what is stored of them is not what was written. */
  sealFaults: Pick<Services['sealFaults'], 'isEmpty' | 'checkBucket'>;
  bucketBeginnings: Pick<BucketBeginnings, 'find'>;
  records: Pick<ShownRecords, 'readRecord' | 'readRun'>;
  tokenKeys: Pick<TokenKeys, 'current' | 'jwks'>;
  /** Authenticates a request whose whole body is `body`. Throws `Refusal`. */
  authenticate(request: FastifyRequest, body: Buffer): Promise<Identity>;
  /**
   * The caller of a request that was authenticated at `atMs`, as things are now. Throws `Refusal`
   * where the credential is no longer valid.
   */
  renew(request: FastifyRequest, who: Identity, atMs: number): Promise<Identity>;
  /** What `who` may do with buckets and objects, by S3's rights. */
  accessOf(request: FastifyRequest, who: Identity): Pick<Access, 'demand' | 'allows'>;
  /** Answers a query for objects, which is a listing as S3's are. */
  serveFind(request: FastifyRequest): void;
  /** Resolves when the rows of accounts have what was charged until now. */
  writeAccounts(): Promise<void>;
  /** The rights that calls are decided by. */
  rights: Pick<KnownRights, 'epoch'>;
  /** Leases jobs, or says what becomes of one, or of copies; gives how many that was done to. */
  work(what: LeaseWork | AmendWork | RetryCopies): Promise<number>;
  /** Whether it came to the administration's own address. */
  isAdministration(request: FastifyRequest): boolean;
  /** Where a request came from, as proxies that are trusted tell it. */
  originOf(request: FastifyRequest): Origin;
  /**
   * Commits a change with its record and charge; gives the log index, or null where the record is
   * one with others. Throws `Refusal` when the change is refused inside the transaction, and has
   * then recorded that refusal. `decision`: null for what is recorded whatever rights are.
   */
  commit(
    entry: NativeEntry,
    decision: Decision | null,
  ): Promise<{
    index: number | null;
    /** Of a purge. */
    released?: Released;
    /**
     * Waits for the journals in S3 stores; gives the stores whose journals do not tell of it yet.
     */
    untold?: () => Promise<string[]>;
  }>;
  verifier: Pick<DataVerifier, 'verify'>;
  /** Records and counts what the call of `entry` found damaged. Throws `Refusal`. */
  commitFindings(entry: NativeEntry, findings: readonly Finding[]): Promise<void>;
  /** Counts and logs what stored records turned out to be damaged or missing. */
  onIntegrityFailure: (error: IntegrityError, requestId: string) => void;
  metrics: Pick<MetricRegistry, 'read'>;
  /** How the gateway is; `detail` is for operators. */
  health(): Promise<Health & { detail: Record<string, unknown> }>;
}
