// What tells targets of changes, and what it tells of itself.
import type { ChangeLog } from '../audit/changes/change-log.ts';
import { readLagMs } from '../audit/changes/lag.ts';
import { countAllDeadLetters, readCursor } from '../audit/changes/targets.ts';
import { onlyPrivate } from '../authz/oidc/address-policy.ts';
import type { AlarmNotifier } from '../gateway/alarms/alarm-notifier.ts';
import { Notifier } from '../gateway/notifications/notifier.ts';
import { Sender } from '../gateway/notifications/sending.ts';
import type { RequestServices } from '../gateway/services.ts';
import { watchTargets } from '../instruments/target-metrics.ts';
import type { Base } from './base.ts';
import { opened } from './closers.ts';

export async function startNotifier(
  { config, folder, closers, log, metrics }: Base,
  {
    services,
    changes,
    alarms,
  }: { services: RequestServices; changes: ChangeLog; alarms: AlarmNotifier },
): Promise<Notifier> {
  const { read, ledger, log: head } = services;
  const policy = onlyPrivate(config.privateWebhooks ?? []);
  const notifier = await Notifier.open({
    ...services,
    ...{ changes, sender: new Sender({ sealer: folder.sealer, policy }) },
    // An older copy does not know what the newer database has told.
    maySend: () => head.refusal === null,
    onProblem: (text) => log.warn(text),
    onStuck: (stuck) => alarms.tellStuck(stuck),
    onError: (error) => log.warn('a target was not told', error),
  });
  ledger.feed.subscribe(notifier);
  watchTargets(metrics.registry, {
    list: async () => {
      const newest = await changes.newest();
      const all = [...notifier.list()];
      const dead = new Map<string, number>();
      for (const { tenant, name, count } of await countAllDeadLetters(read)) {
        dead.set(`${tenant}/${name}`, count);
      }
      const numbers = all.map(async ({ tenant, name, sent, failed, isStuck, cursor }) => {
        const told = cursor ?? (await readCursor(read, { tenant, name })) ?? newest;
        return {
          ...{ tenant, target: name, sent, failed, isStuck },
          deadLetters: dead.get(`${tenant}/${name}`) ?? 0,
          behind: Math.max(newest - told, 0),
          lagMs: await readLagMs(read, told),
        };
      });
      return Promise.all(numbers);
    },
    followers: () => changes.followers,
  });
  return opened(closers, notifier);
}
