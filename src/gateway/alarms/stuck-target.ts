// What is told where alarms are, and is no alarm of a limit: that a target of notifications takes
// nothing. Invariant: it is a state of the gateway and no entry of the ledger. After a restart it
// is found again, if it lasts, and told again.
import { isoTime } from '../../core/clock.ts';
import type { Alarm } from '../../quota/limits/alarms.ts';
import type { Message } from './webhook.ts';

export interface StuckTarget {
  tenant: string;
  target: string;
  /** As the tenant's admins may read it. */
  reason: string;
  timeMs: number;
}

/** Whatever is sent to webhooks and addresses of alarms. */
export type Told = Alarm | StuckTarget;

export function isStuckTarget(told: Told): told is StuckTarget {
  return 'target' in told;
}

/** The same one has the same id however often it is sent. */
export function idOf(told: Told): string {
  if (!isStuckTarget(told)) return String(told.id);
  const { tenant, target, timeMs } = told;
  return `stuck_${tenant}_${target}_${timeMs}`;
}

/** The message to a webhook. */
export function stuckMessage(stuck: StuckTarget, instance: string): Message {
  const { tenant, target, reason, timeMs } = stuck;
  const data = { tenant, target, reason };
  const body = { type: 'target.stuck', timestamp: isoTime(timeMs), data };
  return { id: `msg_${instance}_${idOf(stuck)}`, body: JSON.stringify(body) };
}
