// Gives what accounts reached of their limits its places in the log, at the end of the batch that
// did it. Invariant: alarm, record and what it tells of are one transaction, so there is one of
// each or none.
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import type { RecordLog } from '../audit/record-log.ts';
import { findBucket } from '../catalog/buckets.ts';
import { noStorage } from '../catalog/outcome.ts';
import type { Reader, Tx } from '../core/database.ts';
import { parseAccount } from '../quota/accounts.ts';
import { amountText } from '../quota/cap-report.ts';
import { type Alarm, appendAlarm, type Reached } from '../quota/limits/alarms.ts';

export async function raiseAlarms(
  tx: Tx,
  all: readonly Reached[],
  { log, timeMs }: { log: RecordLog; timeMs: number },
): Promise<Alarm[]> {
  const alarms: Alarm[] = [];
  for (const reached of all) {
    const id = log.size;
    const { token: _, ...told } = reached;
    const alarm = { ...told, ...(await holderOf(tx, reached)), id, timeMs };
    await appendAlarm(tx, alarm);
    await recordAlarm(log, alarm);
    alarms.push(alarm);
  }
  return alarms;
}

function recordAlarm(log: RecordLog, alarm: Alarm): Promise<void> {
  const { id: index, timeMs, account, tenant, principal, meter, window, percent } = alarm;
  const draft = draftRecord(unasked(tenant, principal), ownOrigin(), {
    action: 'bursar:BudgetAlarm',
    target: `accounts/${account}`,
    alarm: {
      limit: amountText(meter, alarm.limit),
      meter,
      percent,
      used: amountText(meter, alarm.used),
      window,
    },
    status: 200,
  });
  return log.append(draft, { index, timeMs, ...noStorage, cost: null });
}

/** Whom it is for. Of a tenant, or of a bucket that is gone, there is no principal. */
async function holderOf(
  read: Reader,
  { account, token }: Reached,
): Promise<{ tenant: string; principal: string }> {
  if (token) return { tenant: token.tenant, principal: token.principal };
  const parsed = parseAccount(account);
  switch (parsed?.kind) {
    case 'tenant':
      return { tenant: parsed.tenant, principal: '' };
    case 'principal':
      return { tenant: parsed.tenant, principal: parsed.name };
    case 'bucket':
    case 'prefix': {
      const name = parsed.kind === 'bucket' ? parsed.name : parsed.bucket;
      const bucket = await findBucket(read, parsed.tenant, name);
      return { tenant: parsed.tenant, principal: bucket?.owner ?? '' };
    }
    case 'writer': {
      const { tenant, writer } = parsed;
      if (writer.tenant === tenant) return { tenant, principal: writer.name };
      const bucket = await findBucket(read, tenant, parsed.bucket ?? '');
      return { tenant, principal: bucket?.owner ?? '' };
    }
    default:
      throw new Error(`nobody has the account ${account}`);
  }
}
