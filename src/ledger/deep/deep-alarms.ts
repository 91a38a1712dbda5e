// Where alarms are told, and which nobody was told of yet, against the records. Invariant: of a
// webhook's URL the records know where it leads, not its path, which may be a secret.
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import { isObject, parseJson } from '../../core/json.ts';
import { type Meter, meters } from '../../core/quota-terms.ts';
import { amountText } from '../../quota/cap-report.ts';
import { originOf, scopeOf } from '../../quota/limits/alarm-hooks.ts';
import { ComparedThings, type Comparison, rowsOf, walkTable } from './compared-things.ts';
import type { Staging } from './staging.ts';

export class DeepAlarms {
  readonly #hooks: ComparedThings;
  readonly #readText: (index: number) => Promise<string | undefined>;

  constructor(staging: Staging, readText: (index: number) => Promise<string | undefined>) {
    this.#hooks = new ComparedThings(staging, 'webhook of');
    this.#readText = readText;
  }

  async visit(index: number, fields: RecordFields): Promise<void> {
    if (!isDone(fields)) return;
    const { action, target = '', change, time } = fields;
    const [, tenant = null, principal = null] =
      /^tenants\/([^/]+)(?:\/principals\/([^/]+))?/.exec(target) ?? [];
    const id = scopeOf({ tenant, principal });
    switch (action) {
      case 'bursar:PutAlarmHook':
        // A message that tries it out is recorded as well, and changes nothing.
        if (typeof change?.origin === 'string') {
          const { origin } = change;
          await this.#hooks.put(id, index, { origin, createdMs: Date.parse(time) });
        }
        return;
      case 'bursar:RestoreAlarmWebhook':
        return this.#hooks.put(id, index, { origin: change?.origin });
      case 'bursar:DeleteAlarmHook':
        return this.#hooks.delete(id);
      case 'bursar:DeletePrincipal':
        if (principal !== null) await this.#hooks.delete(id);
        return;
      case 'bursar:DeleteTenant':
        if (tenant !== null) await this.#deleteAllOf(tenant);
    }
  }

  /** With a tenant go its webhook and those of its principals. */
  async #deleteAllOf(tenant: string): Promise<void> {
    await this.#hooks.delete(scopeOf({ tenant, principal: null }));
    for await (const [id] of this.#hooks.entries()) {
      if (id.startsWith(`principal:${tenant}/`)) await this.#hooks.delete(id);
    }
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    await this.#hooks.compare(listHooks(read), comparison);
    await this.#compareUntold(read, comparison);
  }

  /** Each has its record, and one that somebody was told of is gone. */
  async #compareUntold(read: Reader, comparison: Comparison): Promise<void> {
    const walked = {
      columns: `id, account, tenant, principal, meter, window, percent, amount, used,
        time_ms AS timeMs`,
      from: 'quota_alarms',
      keys: ['id'],
    };
    for await (const row of walkTable<Record<string, unknown>>(read, walked)) {
      const id = row.id as number;
      const said = parseJson((await this.#readText(id)) ?? 'null');
      if (said === undefined && comparison.lastErased >= id) comparison.onUnknown();
      else if (!isSaid(said, row)) {
        const what = 'it is not what its record says';
        comparison.tell({ where: `alarm ${id}`, what });
      }
    }
  }
}

const listHooks = rowsOf(
  {
    columns: 'scope, tenant, url, created_ms AS createdMs',
    from: 'alarm_hooks',
    keys: ['scope'],
  },
  ({ scope, tenant, url, createdMs }) => {
    const origin = originOf(String(url)) ?? url;
    const own = scopeOf({ tenant: tenant as string | null, principal: null });
    const isOwn = scope === own || String(scope).startsWith(`principal:${tenant}/`);
    // One of another tenant than its name says is none that a record made.
    const id = isOwn ? String(scope) : `${scope}, of ${own}`;
    return { id, members: { origin, createdMs } };
  },
);

function isSaid(said: unknown, row: Record<string, unknown>): boolean {
  if (!isObject(said) || said.action !== 'bursar:BudgetAlarm' || !isObject(said.alarm))
    return false;
  const { meter, window, percent, limit, used } = said.alarm;
  const amounts: [unknown, unknown][] = [
    [limit, row.amount],
    [used, row.used],
  ];
  return (
    said.target === `accounts/${row.account}` &&
    said.tenant === row.tenant &&
    said.principal === row.principal &&
    said.time === timeOf(row.timeMs) &&
    meter === row.meter &&
    window === row.window &&
    percent === row.percent &&
    amounts.every(([text, stored]) => text === amountOf(meter, stored))
  );
}

function amountOf(meter: unknown, stored: unknown): string | undefined {
  const isAmount = typeof stored === 'string' && /^-?\d{1,60}$/.test(stored);
  if (!isAmount || !meters.includes(meter as Meter)) return undefined;
  return amountText(meter as Meter, BigInt(stored));
}

function timeOf(ms: unknown): string | undefined {
  const time = new Date(typeof ms === 'number' ? ms : Number.NaN);
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString();
}
