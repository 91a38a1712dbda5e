// The settings of a bucket as a rebuild or a restore puts them back: what of them depends on what
// came before in the log, or is held, begins anew.
import { putBackNotifications } from './notifications.ts';
import type { Moment } from './outcome.ts';
import { parseWindow } from './undelete-window.ts';

/**
 * `wanted`, as the record of `moment` stores it. `before`: what the bucket has now; a window that
 * is the same there has what it held until the backup.
 */
export function putBackSettings(
  wanted: Record<string, string>,
  { seq, timeMs }: Pick<Moment, 'seq' | 'timeMs'>,
  before: Record<string, string> = {},
): Record<string, string> {
  const settings = { ...wanted };
  const { undelete, notification } = wanted;
  if (undelete !== undefined && undelete !== before.undelete) {
    const { windowMs } = parseWindow(undelete);
    settings.undelete = JSON.stringify({ windowMs, sinceMs: timeMs });
  }
  if (notification !== undefined) {
    settings.notification = putBackNotifications(notification, seq);
  }
  return settings;
}
