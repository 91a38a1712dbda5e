// What a catalog change comes to. Plain data, since it crosses from the ledger's thread.
import type { ErrorCode } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';

export interface StorageDelta {
  storedBytes: number;
  storedObjects: number;
}

export type Outcome<R> =
  | { ok: true; storage: StorageDelta; result: R }
  | { ok: false; code: ErrorCode; fields?: Record<string, string> };

export const noStorage: StorageDelta = { storedBytes: 0, storedObjects: 0 };

export function refused(code: ErrorCode, fields?: Record<string, string>): Outcome<never> {
  return fields ? { ok: false, code, fields } : { ok: false, code };
}

/** Where in the log a change is being made, and the keys that its rows are authenticated with. */
export interface Moment {
  /** The log index of the change's record. */
  seq: number;
  timeMs: number;
  keyring: Keyring;
}
