// What the main thread and the other HTTP threads tell each other, besides what the ledger tells
// each of them. Plain data.
import type { IntegrityError } from '../../core/errors.ts';
import type { ClaimOutcome } from '../../core/fair-share.ts';
import type { RootKey } from '../../core/keyring.ts';
import type { Unsealed } from '../../core/seals/row-seal.ts';
import type { MeasuredMetric } from '../../instruments/metric-registry.ts';
import type { RequestStory } from '../../instruments/recent-requests.ts';
import type { Sample } from '../../instruments/sample.ts';
import type { LedgerEnd } from '../../ledger/ends.ts';
import type { RoomQuestion } from '../../quota/remote-rooms.ts';
import type { Config } from '../settings/config.ts';
import type { SharedMemory } from './links.ts';
import type { TurnMessage } from './shared-turns.ts';
import type { StoreAnswer, StoreNews, StoreQuestion } from './store-desk.ts';
import type { StoreDoor } from './thread-stores.ts';

/** What an HTTP thread is begun with. */
export interface HttpThreadData {
  config: Config;
  /** Its number; the main thread is 0. */
  thread: number;
  /** How many threads share the connections, and what is bounded by memory. */
  count: number;
  rootKeys: readonly RootKey[];
  end: LedgerEnd;
  shared: SharedMemory;
  /** How many `ToHttpThread` messages were sent to each thread: an Int32Array of one word. */
  told: SharedArrayBuffer;
  /** Where all of them listen. */
  place: { host: string; port: number };
  publicUrl: string;
  /** The stores over a network. */
  doors: readonly StoreDoor[];
  /** Where new buckets go. */
  defaultStore: string;
  /** The Unix socket of the main thread. */
  socketPath: string;
  unsealed: readonly Unsealed[];
  /** Why nothing may be written; null: it may. */
  refusal: string | null;
}

export type ToHttpThread =
  /** All rows that are not authentic now. */
  | { unsealed: readonly Unsealed[] }
  /** Nothing may be written any more. */
  | { refusal: string }
  /** Rows may be sealed under it soon. */
  | { rootKey: RootKey }
  /** A store's gate was opened or shut. */
  | { door: StoreDoor }
  /** Asks for `measured`. */
  | { measure: number }
  /** Asks for `held`: which of these extents, hex, are being read? */
  | { holds: number; ids: readonly string[] }
  /** Asks for `recounted`: what became of this request? */
  | { recount: number; id: string }
  /** Asks for `gaveUp`: another thread is short of what is free of these accounts. */
  | { giveUp: number; accounts: string[] }
  /** The answer to `recall`. */
  | { recalled: number }
  /** The answer to `promise`. */
  | { promised: number; outcome: ClaimOutcome }
  /** The answer to `storeAsked`. */
  | { storeAnswered: number; answer: StoreAnswer }
  /** The answer to a `TurnMessage`. */
  | { turnCame: number }
  | { close: { timeoutMs: number } };

export type FromHttpThread =
  /** It listens. */
  | { ready: true }
  /** It came upon a row that is not authentic. */
  | { unsealed: Unsealed }
  /** What is stored turned out not to be what was written. */
  | { integrity: Pick<IntegrityError, 'store' | 'kind'> }
  /** Whole lines of the log. */
  | { lines: string }
  /** Drawn of its requests. */
  | { samples: readonly Sample[] }
  /** For the operator. */
  | { warning: string }
  | { fatal: string }
  | { measured: number; metrics: MeasuredMetric[] }
  | { held: number; ids: string[] }
  | { recounted: number; story: RequestStory | undefined }
  | { gaveUp: number }
  /** Asks for `recalled`: the others are to give up what they have free of these accounts. */
  | { recall: number; accounts: string[] }
  /** Asks for `promised`: is there room for a body, or for what has come of it? */
  | { promise: number; question: RoomQuestion }
  /** Asks for `storeAnswered`. */
  | { storeAsked: number; question: StoreQuestion }
  | { storeNews: StoreNews }
  | TurnMessage
  /** Nothing more comes there. */
  | { closedRoom: number };
