// Commands that change who there is and what they may. Each has a check, which finds every reason
// to refuse it, and a write. A restore writes without some of the checks (restore-identity.ts).
import { type Outcome, unchanged } from '../../catalog/outcome.ts';
import type { Tx } from '../../core/database.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { Thing } from '../journal/identity-format.ts';
import type { Command, Work } from './command.ts';

/** A thing of a tenant by its name. */
export interface Named {
  tenant: string;
  name: string;
}

/** What belongs to a principal. */
export interface Owned {
  tenant: string;
  principal: string;
}

interface Steps<C> {
  /** Gives the reason to refuse it; undefined: there is none. */
  check(tx: Tx, change: C): Promise<ErrorCode | undefined>;
  /** `seq`: the log index of its record. */
  write(tx: Tx, change: C, timeMs: number, seq: number): Promise<void>;
}

/** An identity command needs only the time and its place in the log. */
export interface IdentityCommand<C> extends Omit<Command<C>, 'apply'>, Steps<C> {
  apply(tx: Tx, change: C, work: Pick<Work, 'timeMs' | 'seq'>): Promise<Outcome<null>>;
}

export function identityCommand<C>(
  command: Steps<C> & Omit<Command<C>, 'apply'>,
): IdentityCommand<C> {
  const { check, write } = command;
  const apply = async (
    tx: Tx,
    change: C,
    { timeMs, seq }: Pick<Work, 'timeMs' | 'seq'>,
  ): Promise<Outcome<null>> => {
    const code = await check(tx, change);
    if (code !== undefined) return { ok: false, code };
    await write(tx, change, timeMs, seq);
    return unchanged;
  };
  return { ...command, apply };
}

/** Journals tell of the one thing that the command names, and its answer waits for them. */
export function tellsOf(kind: Thing['kind']) {
  const things = ({ tenant, name }: Named): Thing[] => [{ kind, tenant, name }];
  return { things, isAwaited: true };
}

/** The same of a command about a tenant. */
export const tellsOfTenant = {
  things: ({ name }: { name: string }): Thing[] => [{ kind: 'tenant', tenant: name, name: '' }],
  isAwaited: true,
};

/** The same of a command about a key: journals tell of its principal, with all of its keys. */
export const tellsOfOwner = {
  things: ({ tenant, principal }: Owned): Thing[] => [
    { kind: 'principal', tenant, name: principal },
  ],
  isAwaited: true,
};

/**
 * What a key that is taken away makes another: its principal, and its public key, if it has one.
 */
export function principalAndKey(change: Owned, thumbprint: string | null | undefined): Thing[] {
  const things = tellsOfOwner.things(change);
  if (thumbprint) things.push({ kind: 'publicKey', tenant: change.tenant, name: thumbprint });
  return things;
}

/** In whose name the tokens were made that are revoked along with a key. */
export function ownerOf({ tenant, principal }: Owned): Owned {
  return { tenant, principal };
}
