// What requests send to the ledger and what they get back. Plain data: it crosses threads, and may
// one day cross processes.

import type { AlteredRow } from '../audit/altered-records.ts';
import type { Pack } from '../audit/archive/archived-tiles.ts';
import type { ToldProgress } from '../audit/changes/targets.ts';
import type { RecordDraft } from '../audit/record.ts';
import type { TokenUses } from '../authz/token-use.ts';
import type { NamedCopy, RetryCopies } from '../catalog/extent-copies.ts';
import type { JournalObjectRow, NotedSnapshot } from '../catalog/journal-objects.ts';
import type { LifecyclePlace } from '../catalog/lifecycle-due.ts';
import type { NamedVersion } from '../catalog/outcome.ts';
import type { UsedVersion } from '../catalog/tiers.ts';
import type { AmendWork, LeaseWork } from '../catalog/work.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { BackendBill } from '../quota/backend-cost.ts';
import type { Charge } from '../quota/charge.ts';
import type {
  DrawAnswer,
  DrawRequest,
  GiveBackRequest,
  Shortage,
} from '../quota/leases/requests.ts';
import type { Change } from './commands/index.ts';
import type { LedgerEvent } from './events.ts';
import type { Tells } from './journal/identity-format.ts';
import type { LogKey } from './log-signing.ts';
import type { MoveDue } from './move-upkeep.ts';
import type { Scope } from './scopes.ts';

/** The gateway's own maintenance. Of objects it changes only what lifecycle rules say. */
export type Maintenance =
  /** `stores`: of extents that may come to be in several, all of them. */
  | { kind: 'declareExtents'; store: number; stores?: number[]; ids: Uint8Array[] }
  | { kind: 'condemnIntents'; expiredBeforeMs: number; max: number }
  | { kind: 'purgeEnded'; max: number }
  | { kind: 'dropLongManifest' }
  | { kind: 'registerStore'; name: string; location: string }
  /** Notes records that are not what was recorded. */
  | { kind: 'noteAltered'; rows: readonly AlteredRow[] }
  /** Writes what is there already: to see whether the disk takes it. */
  | { kind: 'tryWriting' }
  /** The rows of accounts have all that was charged until now. */
  | { kind: 'writeAccounts' }
  /** From now on the log is signed with these; none: with nothing. */
  | { kind: 'signLog'; keys: readonly LogKey[] }
  /** What a witness (`NAME+ID`) has cosigned, in the place of what it had before. */
  | { kind: 'noteCosigned'; witness: string; note: string }
  | { kind: 'beginGeneration'; store: number; generation: string }
  | { kind: 'noteJournaled'; store: number; seq: number }
  | { kind: 'forgetJournaled'; store: number; lastSeq: number; segment: JournalObjectRow }
  /** `tells`: what of identities. */
  | ({ kind: 'noteSnapshot'; tells: Tells } & NotedSnapshot)
  /** From now on changes of identities are kept for the journal in the store; or no more. */
  | { kind: 'beginTelling' | 'endTelling'; store: number }
  /** What belongs to a journal and is neither a segment nor of a snapshot. */
  | { kind: 'noteJournalObject'; store: number; object: JournalObjectRow }
  | { kind: 'restoreStore'; number: number; name: string; generation: string }
  | { kind: 'enterUnnamed'; store: number; ids: Uint8Array[]; state: 'condemned' | 'left' }
  | { kind: 'noteSwept'; ids: Uint8Array[] }
  | { kind: 'deferExtents'; ids: Uint8Array[] }
  /** Copies that are in their stores and were read back. */
  | { kind: 'noteCopies'; made: NamedCopy[] }
  /** Copies that could not be made are tried again then. */
  | { kind: 'deferCopies'; copies: (NamedCopy & { dueMs: number })[] }
  /** Lost versions that are looked at again then, and those that are not there any more. */
  | { kind: 'deferLosses'; losses: { seq: number; dueMs: number }[] }
  | { kind: 'forgetLosses'; seqs: number[] }
  /** Jobs that somebody takes, and what becomes of one. Touches as many as that was done to. */
  | LeaseWork
  | AmendWork
  | RetryCopies
  /** A restore that could not be finished is looked at again then; one of what is gone is none. */
  | { kind: 'deferRestore'; seq: number; dueMs: number }
  | { kind: 'forgetRestore'; seq: number }
  /** Up to `max` each of copies and losses that may be back are looked at again at once. */
  | { kind: 'hastenRepairs'; store: number; max: number }
  | { kind: 'forgetSwept'; beforeMs: number; max: number }
  | { kind: 'forgetCompleted'; beforeMs: number; max: number }
  /** Client tokens of renames. */
  | { kind: 'forgetTokens'; beforeMs: number; max: number }
  | ({ kind: 'noteTokenUse' } & TokenUses)
  | { kind: 'purgeTokens'; max: number }
  /** Adds up to `max` records to the sums of usage by day. Touches as many. */
  | { kind: 'sumUsage'; max: number }
  /** Makes records of up to `max` folds of reads whose minute is over. Touches as many. */
  | { kind: 'closeFolds'; max: number }
  /**
   * Charges what was stored in up to `max` places, of those that were last charged before
   * `beforeMs`, with a record for each. `books`: by number of store the price books in force.
   */
  | { kind: 'chargeStorage'; beforeMs: number; max: number; books: ReadonlyMap<number, string> }
  /**
   * Ends those of a bucket's versions and uploads that are due by its lifecycle rules, with a
   * record for each. Touches as many. `dayMs`: how long a day lasts; `book`: the price book in
   * force.
   */
  | { kind: 'endDue'; bucketId: number; places: LifecyclePlace[]; dayMs: number; book: string }
  /** Moves a version as the rules of its bucket say. Touches 1 where it was, or may be, moved. */
  | MoveDue
  /** From now on reads are noted of versions in classes with tiers, if they were not before. */
  | { kind: 'beginUses' }
  /** Looks at up to `max` versions that were read; gives the last, or 0: there are no more. */
  | { kind: 'forgetUses'; after: number; max: number }
  /** A slice of what a snapshot held that is dying. Touches as many. */
  | { kind: 'releaseHeld'; bucketId: number; seq: number; max: number; book: string }
  | { kind: 'countHeld'; bucketId: number; holder: number }
  /** A pack of old records whose bytes are stored: from now on it is known. */
  | { kind: 'enterPack'; pack: Pack; ids: Uint8Array[] }
  /** The tiles from this one on, whose records are in the database, are to be packed anew. */
  | { kind: 'unpackTiles'; tile: number }
  /** The records of a tile that is in a pack leave the database. Touches as many. */
  | { kind: 'archiveTile'; tile: number }
  /** Touches 1 where the share link allows one more. */
  | { kind: 'countDownload'; id: string }
  /** Takes off the leases of this run what it does not need. */
  | ({ kind: 'giveBack' } & GiveBackRequest)
  /** Alarms that those were told of whom they are for. */
  | { kind: 'noteToldAlarms'; ids: number[] }
  /** How far a target was told of changes. Touches 1 unless that was set elsewhere meanwhile. */
  | ({ kind: 'noteTold' } & ToldProgress)
  /** Accounts of tokens that ended long ago. */
  | { kind: 'purgeTokenAccounts'; max: number };

/** One operation: its change, its charge and its record become durable together, or not at all. */
export interface Commit {
  change: Change;
  /** null: nobody is charged. */
  charge: Charge | null;
  /** What the stores were asked for it: the operator's cost. Absent or null: nothing. */
  backend?: BackendBill | null;
  record: RecordDraft;
  /** What the record's `evidenceHash` is of, where it is kept with this record. */
  evidence?: string | null;
  /** The epoch of rights by which it was decided (rights-epoch.ts); absent: nobody asked for it. */
  epoch?: number | undefined;
  /** What its decision depends on besides who asks and the record's bucket; absent: nothing. */
  concerns?: readonly Scope[];
  /** A version in a class with tiers that it has read; absent: none. */
  used?: UsedVersion;
  /**
   * If it changes nothing, its record is one with others of the same minute (`record-folds.ts`).
   */
  folds?: boolean;
}

export interface Released {
  versions: number;
  bytes: number;
}

export type CommitResult =
  | {
      ok: true;
      /** Log index of the record; null: it is one with others. */
      index: number | null;
      isFolded?: true;
      timeMs: number;
      /** What was made, changed or ended; absent where the bucket never had versioning. */
      version?: NamedVersion;
      /** Of a purge: how much of what was held it has let go of. */
      released?: Released;
      /** The epoch of rights that it has begun; absent: it took none away. */
      epoch?: number;
      /** From where it took them. */
      taken?: Scope;
      /** What it has made another of what is kept in memory; absent: nothing. */
      events?: readonly LedgerEvent[];
      /** Its events and its epoch were told to each end (ends.ts), before this answer. */
      isTold?: true;
    }
  | {
      ok: false;
      code: ErrorCode;
      fields?: Record<string, string>;
      /** Of QuotaExceeded. */
      shortage?: Shortage;
      /**
       * Of the record of the refusal; null: it is one with others, or there is none: none could be
       * made, or this is SlowDown, and is tried again.
       */
      index: number | null;
      /**
       * Rights were taken away after the decision, the last ones in `epoch`: nothing was done, and
       * it is to be decided again. `body`: of an inline body, which was handed over.
       */
      outdated?: { epoch: number; body?: Uint8Array };
      isFolded?: true;
      /** The disk refused to be written: nothing was done, and the same may succeed later. */
      isUnwritten?: true;
    };

export type LedgerRequest =
  | { kind: 'commit'; commit: Commit }
  | ({ kind: 'draw' } & DrawRequest)
  | Maintenance;

/** Maintenance answers how many rows it touched. */
export type LedgerAnswer =
  | CommitResult
  | { ok: true; touched: number }
  | { ok: true; drawn: DrawAnswer };
