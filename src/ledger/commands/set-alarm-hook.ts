// Sets which webhook is told of alarms, of a tenant or of the gateway.
import { unchanged } from '../../catalog/outcome.ts';
import {
  type SetAlarmHook as AlarmHookSetting,
  setAlarmHook as setAlarmHookRows,
} from '../../quota/limits/alarm-hooks.ts';
import type { Command } from './command.ts';

export interface SetAlarmHook extends AlarmHookSetting {
  kind: 'setAlarmHook';
}

export const setAlarmHook: Command<SetAlarmHook> = {
  apply: async (tx, change, { timeMs }) => {
    if (await setAlarmHookRows(tx, change, timeMs)) return unchanged;
    return { ok: false, code: change.hook ? 'NoSuchTenant' : 'NotFound' };
  },
  takesFrom: null,
  told: {
    things: ({ tenant }) => [{ kind: 'webhook', tenant: tenant ?? '', name: '' }],
    isAwaited: true,
  },
  // The record has only the origin of its URL, because the rest may be a secret.
  account: ({ hook }) => hook && { origin: new URL(hook.url).origin },
  // Webhooks are read when an alarm is to be told.
  causes: null,
};
