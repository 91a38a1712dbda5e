// Every change that can be made to who there is and what they may: plain data, so that it can cross
// to the ledger's thread. Each family has a file of its own.
import type { Tx } from '../core/database.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { Steps } from './change-steps.ts';
import { type GrantChange, grantSteps } from './grant-changes.ts';
import { type IdentityChange, identitySteps } from './identity-changes.ts';
import { type IssuerChange, issuerSteps } from './issuer-changes.ts';
import { type MountChange, mountSteps } from './mount-changes.ts';
import { type PublicKeyChange, publicKeySteps } from './public-key-changes.ts';
import { type ShareChange, shareSteps } from './share-changes.ts';
import { type TokenChange, tokenSteps } from './token-changes.ts';

export type AuthzChange =
  | IdentityChange
  | GrantChange
  | MountChange
  | IssuerChange
  | PublicKeyChange
  | ShareChange
  | TokenChange;

export type Verdict = { ok: true } | { ok: false; code: ErrorCode };

/** Keeps in memory something that the tables say. */
export interface Follower {
  /**
   * Called before a change is committed. What it gives is called afterwards, before the change is
   * answered, however the commit ended: it makes the memory what the tables say then.
   */
  follow(change: AuthzChange): Promise<() => void | Promise<void>>;
}

const steps = {
  ...identitySteps,
  ...grantSteps,
  ...mountSteps,
  ...issuerSteps,
  ...publicKeySteps,
  ...shareSteps,
  ...tokenSteps,
};

/**
 * Checks a change and, if nothing stands against it, writes it. Runs inside the ledger's
 * transaction. Returns the reason when it is refused, and has then written nothing.
 */
export async function applyAuthzChange(
  tx: Tx,
  change: AuthzChange,
  { timeMs, seq }: { timeMs: number; seq: number },
): Promise<Verdict> {
  const code = await checkAuthzChange(tx, change);
  if (code !== undefined) return { ok: false, code };
  await writeAuthzChange(tx, change, { timeMs, seq });
  return { ok: true };
}

/** The reason to refuse it, if there is one. */
export function checkAuthzChange(tx: Tx, change: AuthzChange): Promise<ErrorCode | undefined> {
  return (steps[change.type] as Steps<AuthzChange>).check(tx, change);
}

/** Writes what nothing stands against. */
export function writeAuthzChange(
  tx: Tx,
  change: AuthzChange,
  { timeMs, seq }: { timeMs: number; seq: number },
): Promise<void> {
  return (steps[change.type] as Steps<AuthzChange>).write(tx, change, timeMs, seq);
}
