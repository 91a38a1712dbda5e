// Commands of an account's limits.
import { unchanged } from '../../catalog/outcome.ts';
import type { Limits } from '../../core/quota-terms.ts';
import {
  type SetAlarmHook as AlarmHookSetting,
  originOf,
  setAlarmHook as setAlarmHookRows,
} from '../../quota/limits/alarm-hooks.ts';
import type { Command } from './command.ts';

export interface SetLimits {
  kind: 'setLimits';
  account: string;
  /** null: it has none from now on. */
  limits: Limits | null;
  /** Refused unless these are the account's; undefined: whatever it has. */
  before?: Limits | null;
}

/** Sets the limits of an account. */
export const setLimits: Command<SetLimits> = {
  apply: async (_, { account, limits, before }, { accounts, levels, timeMs }) => {
    const { limits: known, used } = await accounts.read(account, timeMs);
    const now = known?.limits ?? null;
    if (before !== undefined && JSON.stringify(before) !== JSON.stringify(now)) {
      return { ok: false, code: 'ConditionalRequestConflict' };
    }
    await accounts.setLimits(account, limits, timeMs);
    await levels.setLimits(account, limits, {
      storedBytes: Number(used.storedBytes),
      storedObjects: Number(used.storedObjects),
    });
    return unchanged;
  },
  takesFrom: null,
  told: {
    things: ({ account }) => [{ kind: 'limits', tenant: '', name: account }],
    isAwaited: true,
  },
  // What is set is the record's `limits`.
  account: null,
  causes: ({ account, limits }) => [{ kind: 'limits', account, limits }],
};

/** Goes on with counting what is stored of an account that got limits. */
export interface CountStored {
  kind: 'countStored';
  account: string;
  /** How many rows it looks at, about. */
  max: number;
}

export const countStored: Command<CountStored> = {
  apply: async (_, { account, max }, { levels }) => {
    await levels.countOn(account, max);
    return unchanged;
  },
  takesFrom: null,
  told: null,
  account: null,
  // What is in memory of limits is how they are, and what is leased.
  causes: null,
};

export interface ForgetLost {
  kind: 'forgetLost';
  account: string;
}

/** Counts as unspent what crashes lost of an account. */
export const forgetLost: Command<ForgetLost> = {
  apply: async (_, { account }, { accounts, timeMs }) => {
    await accounts.forgetLost(account, timeMs);
    return unchanged;
  },
  takesFrom: null,
  told: null,
  account: null,
  // The ledger decides what the leases of an account hold, and memory follows its answers.
  causes: null,
};

// Sets which webhook is told of alarms: of a principal, of a tenant or of the gateway.

export interface SetAlarmHook extends AlarmHookSetting {
  kind: 'setAlarmHook';
}

export const setAlarmHook: Command<SetAlarmHook> = {
  apply: async (tx, change, { timeMs }) => {
    if (await setAlarmHookRows(tx, change, timeMs)) return unchanged;
    if (!change.hook) return { ok: false, code: 'NotFound' };
    return { ok: false, code: change.principal === null ? 'NoSuchTenant' : 'NoSuchPrincipal' };
  },
  takesFrom: null,
  told: {
    things: ({ tenant, principal }) => [
      { kind: 'webhook', tenant: tenant ?? '', name: principal ?? '' },
    ],
    isAwaited: true,
  },
  // The record has only the origin of its URL, because the rest may be a secret.
  account: ({ hook }) => hook && { origin: originOf(hook.url) },
  // Webhooks are read when an alarm is to be told.
  causes: null,
};
