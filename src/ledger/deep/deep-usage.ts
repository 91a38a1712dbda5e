// What accounts used, since ever, in the windows of now and by day, against the sums of what the
// records say was charged. Invariants: an account is charged in the transaction of the record that
// says so, so the sums are exact, but for two things: requests that are in no record yet, which are
// added, and records that say nothing any more. Of the tenants of these the counters are at least
// the sums.
import { guarded } from '../../audit/verify/guard.ts';
import { type RecordFields, readFields } from '../../audit/verify/record-fields.ts';
import { stepMsMax } from '../../core/clock.ts';
import type { Reader } from '../../core/database.ts';
import { parseUsd, picodollarsPerUsd } from '../../core/money.ts';
import { isLevel, type Meter, meters } from '../../core/quota-terms.ts';
import { type MarkedWindow, markedWindows } from '../../quota/leases/account-state.ts';
import { readLimited } from '../../quota/leases/account-tables.ts';
import { limitedAccountOf } from '../../quota/limited-accounts.ts';
import { windowBeginMs } from '../../quota/limits/windows.ts';
import {
  type ChargedRecord,
  isToken,
  type Part,
  partsOfRecord,
} from '../../quota/roll-up/charged-record.ts';
import { textOfFold } from '../record-folds.ts';
import { readCharged } from '../seal-roots.ts';
import { countStored, readCounts } from '../stored-count.ts';
import { type Comparison, walkTable } from './compared-things.ts';
import type { StagedMap, Staging } from './staging.ts';

/** In the order of `meters`; decimal, since money is more than JSON's numbers hold. */
type Amounts = readonly string[];

interface Mark {
  beginMs: number;
  used: Amounts;
  /** Some of what was charged before it began is in records behind it. */
  isUnsure: boolean;
}

interface Sums {
  used: Amounts;
  marks: { readonly [W in MarkedWindow]?: Mark };
  /** When it was charged last. */
  lastMs: number;
  /** Its row was met. */
  isMet?: true;
}

interface DaySums {
  used: Amounts;
  isMet?: true;
}

/** Whose records say nothing; null: nobody knows. */
export type Silent = { tenant: string; bucketTenant: string | null } | null;

type Charge = Pick<Part, 'account' | 'requests' | 'ingressBytes' | 'egressBytes' | 'spend'> &
  Partial<Pick<Part, 'storedBytes' | 'storedObjects'>>;

const zeros: Amounts = meters.map(() => '0');
const everybody = '';

export class DeepUsage {
  readonly #sums: StagedMap<Sums>;
  readonly #days: StagedMap<DaySums>;
  /** Tenants, or everybody, some of whose records say nothing. */
  readonly #silent: StagedMap<true>;
  readonly #readText: (index: number) => Promise<string | undefined>;

  constructor(staging: Staging, readText: (index: number) => Promise<string | undefined>) {
    this.#sums = staging.map('used');
    this.#days = staging.map('used by day');
    this.#silent = staging.map('silent');
    this.#readText = readText;
  }

  async visit(_: number, fields: RecordFields): Promise<void> {
    const record = fields as RecordFields & ChargedRecord;
    for (const part of partsOfRecord(ownersOf(record))) await this.#addUp(part, record);
    for (const part of partsOfRecord(record)) {
      if (!isToken(part.account)) await this.#addToDay(part, 1n);
    }
    for (const charge of backendOf(record)) await this.#addUp(charge, record);
  }

  async visitSilent(silent: Silent): Promise<void> {
    await this.#silent.set(silent?.tenant ?? everybody, true);
    if (silent?.bucketTenant) await this.#silent.set(silent.bucketTenant, true);
  }

  /** `size`: records that there are. */
  async finish(read: Reader, comparison: Comparison, size: number): Promise<void> {
    const { tell } = comparison;
    await guarded(tell, 'what prefixes and writers store', () => {
      return this.#compareStored(read, comparison);
    });
    await guarded(tell, 'requests without a record', () => this.#addFolds(read));
    await guarded(tell, 'records that accounts are to be charged by', async () => {
      await this.#takeUncharged(await readCharged(read, size), size);
    });
    await guarded(tell, 'what accounts used', () => this.#compareAccounts(read, comparison));
    await guarded(tell, 'windows of accounts', () => this.#compareWindows(read, comparison));
    await guarded(tell, 'what accounts used by day', async () => {
      await this.#takeUnsummed(read, size);
      await this.#compareDays(read, comparison);
    });
  }

  async #addUp(charge: Charge, { time, firstRead }: { time: string; firstRead?: string }) {
    const timeMs = Date.parse(time);
    const sums = (await this.#sums.get(charge.account)) ?? { used: zeros, marks: {}, lastMs: 0 };
    const marks: { [W in MarkedWindow]?: Mark } = { ...sums.marks };
    for (const window of markedWindows) {
      const beginMs = windowBeginMs(window, timeMs);
      const isBegun = (marks[window]?.beginMs ?? -1) >= beginMs;
      const isLate = firstRead !== undefined && Date.parse(firstRead) < beginMs;
      if (isBegun && !isLate) continue;
      const { used = sums.used, isUnsure = false } = isBegun ? (marks[window] ?? {}) : {};
      marks[window] = { beginMs, used, isUnsure: isUnsure || isLate };
    }
    const used = add(sums.used, charge, 1n);
    await this.#sums.set(charge.account, { used, marks, lastMs: timeMs });
  }

  async #addToDay(part: Part, sign: 1n | -1n): Promise<void> {
    const { account, day, action, class: of } = part;
    const id = [account, day, action, of].join('\n');
    const sums = await this.#days.get(id);
    await this.#days.set(id, { used: add(sums?.used ?? zeros, part, sign) });
  }

  /** What was charged and has no record yet. */
  async #addFolds(read: Reader): Promise<void> {
    const walked = {
      columns: 'minute_ms AS minuteMs, same, fold',
      from: 'read_folds',
      keys: ['minute_ms', 'same'],
    };
    const rows = walkTable<{ minuteMs: number; same: string; fold: string }>(read, walked);
    for await (const { minuteMs, same, fold } of rows) {
      const record = JSON.parse(textOfFold(same, fold, minuteMs)) as ChargedRecord;
      const told = record as unknown as RecordFields & ChargedRecord;
      for (const part of partsOfRecord(record)) await this.#addUp(part, record);
      for (const charge of backendOf(told)) await this.#addUp(charge, record);
    }
  }

  /** Takes out again what is in no row of an account yet. */
  async #takeUncharged(from: number, size: number): Promise<void> {
    for (let index = from; index < size; index++) {
      const text = await this.#readText(index);
      const record = text && (readFields(JSON.parse(text)) as unknown as ChargedRecord | undefined);
      for (const part of record ? partsOfRecord(record) : []) {
        const sums = await this.#sums.get(part.account);
        if (!sums) continue;
        await this.#sums.set(part.account, { ...sums, used: add(sums.used, part, -1n) });
      }
    }
  }

  /** What is stored of prefixes and writers with limits, by the rows that are there. */
  async #compareStored(read: Reader, comparison: Comparison): Promise<void> {
    const counts = await readCounts(read);
    for (const { account } of await readLimited(read)) {
      const limited = limitedAccountOf(account);
      if (!limited) continue;
      const counted = await countStored(read, limited, counts.get(account));
      const said = (await this.#sums.get(account))?.used ?? zeros;
      for (const meter of ['storedBytes', 'storedObjects'] as const) {
        const sum = said[meters.indexOf(meter)];
        if (String(counted[meter]) === sum) continue;
        if (await this.#isSilent(account)) comparison.onUnknown();
        else {
          const where = `what is there of ${account}`;
          const what = `its ${meter} is ${counted[meter]}, and the records say ${sum}`;
          comparison.tell({ where, what });
        }
      }
    }
  }

  async #compareAccounts(read: Reader, comparison: Comparison): Promise<void> {
    const columns = [
      'account',
      ...meters.map((meter) => `CAST(${columnOf(meter)} AS TEXT) AS ${meter}`),
    ].join(', ');
    const walked = { columns, from: 'quota_accounts', keys: ['account'] };
    for await (const row of walkTable<Record<string, string>>(read, walked)) {
      const account = String(row.account);
      const sums = await this.#sums.get(account);
      if (sums) await this.#sums.set(account, { ...sums, isMet: true });
      const where = `what ${account} used`;
      await this.#compare(where, account, { stored: row, said: sums?.used ?? zeros }, comparison);
    }
    for await (const [account, { used, isMet }] of this.#sums.entries()) {
      // Tokens are forgotten some time after they ended.
      if (isMet || isToken(account) || used.every((amount) => amount === '0')) continue;
      comparison.tell({ where: `what ${account} used`, what: 'it is missing' });
    }
  }

  /** Windows that began when the records say so, or since the last of them. */
  async #compareWindows(read: Reader, comparison: Comparison): Promise<void> {
    const flows = meters.filter((meter) => !isLevel(meter));
    const columns = [
      'account, window, begin_ms AS beginMs',
      ...flows.map((meter) => `CAST(${columnOf(meter)} AS TEXT) AS ${meter}`),
    ].join(', ');
    const walked = { columns, from: 'quota_windows', keys: ['account', 'window'] };
    type Row = Record<string, string> & { beginMs: number };
    for await (const row of walkTable<Row>(read, walked as typeof walked)) {
      const { account = '', window = '', beginMs } = row;
      const sums = await this.#sums.get(String(account));
      if (!sums) continue;
      const mark = sums.marks[window as MarkedWindow];
      const where = `the ${window} of ${account}`;
      // By a clock that was set back, a window can begin before the time of its first record.
      if (mark && beginMs < mark.beginMs && sums.lastMs - mark.beginMs > stepMsMax) {
        const [stored, said] = [new Date(beginMs), new Date(mark.beginMs)].map(shownTime);
        comparison.tell({ where, what: `it began at ${stored}, and the records say ${said}` });
      }
      if (!mark || beginMs < mark.beginMs || (beginMs === mark.beginMs && mark.isUnsure)) continue;
      const said = beginMs > mark.beginMs ? sums.used : mark.used;
      const stored = { ...row, storedBytes: said[1] ?? '', storedObjects: said[2] ?? '' };
      await this.#compare(
        `${where}, what was used before`,
        String(account),
        { stored, said },
        comparison,
      );
    }
  }

  async #compare(
    where: string,
    account: string,
    { stored, said }: { stored: Readonly<Record<string, unknown>>; said: Amounts },
    comparison: Comparison,
  ): Promise<void> {
    const differing = meters.filter((meter, i) => stored[meter] !== said[i]);
    if (differing.length === 0) return;
    const isLess = differing.some((meter) => {
      return !isLevel(meter) && !isAtLeast(stored[meter], said[meters.indexOf(meter)] ?? '0');
    });
    if (!isLess && (await this.#isSilent(account))) return comparison.onUnknown();
    for (const meter of differing) {
      const sum = said[meters.indexOf(meter)];
      const what = `its ${meter} is ${shownAmount(stored[meter])}, and the records say ${sum}`;
      comparison.tell({ where, what });
    }
  }

  /** Takes out again what is not added up by day yet. */
  async #takeUnsummed(read: Reader, size: number): Promise<void> {
    const rows = await read.all<{ next: number }>(
      'SELECT next_idx AS next FROM usage_progress LIMIT 2',
    );
    const next = rows.length === 1 ? rows[0]?.next : undefined;
    if (next === undefined || !Number.isSafeInteger(next) || next < 0 || next > size) {
      throw new Error('usage_progress is no progress');
    }
    for (let index = next; index < size; index++) {
      const text = await this.#readText(index);
      try {
        const record = readFields(JSON.parse(text ?? 'null')) as unknown as
          | ChargedRecord
          | undefined;
        for (const part of record ? partsOfRecord(record) : []) {
          if (!isToken(part.account)) await this.#addToDay(part, -1n);
        }
      } catch {
        // Nor was it added; that was told.
      }
    }
  }

  async #compareDays(read: Reader, comparison: Comparison): Promise<void> {
    const columns = `account, day, action, class AS "of", requests, ingress_bytes AS ingressBytes,
      egress_bytes AS egressBytes, stored_bytes AS storedBytes, stored_objects AS storedObjects,
      CAST(usd AS TEXT) AS usd, CAST(picodollars AS TEXT) AS picodollars`;
    const keys = ['account', 'day', 'action', 'class'];
    type Row = Record<string, string | number>;
    for await (const row of walkTable<Row>(read, { columns, from: 'usage_days', keys })) {
      const { account, day, action, of, usd, picodollars } = row;
      const id = [account, day, action, of].join('\n');
      const sums = await this.#days.get(id);
      if (sums) await this.#days.set(id, { ...sums, isMet: true });
      const stored: Record<string, string> = { spend: moneyOf(usd, picodollars) };
      for (const meter of meters) if (meter !== 'spend') stored[meter] = String(row[meter]);
      const said = sums?.used ?? zeros;
      const where = `what ${account} used on ${day} by ${action} of ${of}`;
      await this.#compare(where, String(account), { stored, said }, comparison);
    }
    for await (const [id, { used, isMet }] of this.#days.entries()) {
      if (isMet || used.every((amount) => amount === '0')) continue;
      const [account = '', day, action, of] = id.split('\n');
      // An altered record may have been left out.
      if (await this.#isSilent(account)) comparison.onUnknown();
      else {
        const where = `what ${account} used on ${day} by ${action} of ${of}`;
        comparison.tell({ where, what: 'it is missing' });
      }
    }
  }

  /** May records that say nothing have charged it? */
  async #isSilent(account: string): Promise<boolean> {
    if (await this.#silent.get(everybody)) return true;
    const [kind = '', name = ''] = account.split(/:(.*)/s);
    // What writers stored may have been removed by others, of any tenant.
    const ofTenant = ['tenant', 'principal', 'bucket', 'prefix', 'backend'].includes(kind);
    if (ofTenant) return (await this.#silent.get(name.split('/')[0] ?? '')) === true;
    for await (const _ of this.#silent.entries()) return true;
    return false;
  }
}

/** What is restored is charged to the owner of its bucket, in whose name its record is. */
function ownersOf(record: RecordFields & ChargedRecord): ChargedRecord {
  const isRestored = record.action.startsWith('bursar:Restore') && record.bucket !== undefined;
  return isRestored ? { bucketOwner: record.principal, ...record } : record;
}

/** What the stores' providers bill, by store and tenant. */
function backendOf(record: RecordFields): Charge[] {
  const { backend } = record as { backend?: unknown };
  if (!Array.isArray(backend)) return [];
  const { action, tenant, bucketTenant = tenant } = record;
  return backend.flatMap((one) => {
    const { store, puts, gets, frees, sentBytes, receivedBytes, cost } = one;
    const spend = parseUsd(cost);
    if (spend === undefined) throw new Error('a store has a cost that is none');
    const used = { ingressBytes: sentBytes, egressBytes: receivedBytes, spend };
    const charge = { ...used, requests: puts + gets + frees, account: `store:${store}` };
    const isOwn = action === 'bursar:BackendCost';
    return isOwn ? [charge] : [charge, { ...charge, account: `backend:${bucketTenant}` }];
  });
}

function add(sums: Amounts, charge: Charge, sign: 1n | -1n): Amounts {
  return meters.map((meter, i) => {
    const amount = charge[meter] ?? 0;
    return amount === 0 ? (sums[i] ?? '0') : String(BigInt(sums[i] ?? '0') + sign * BigInt(amount));
  });
}

function columnOf(meter: Meter): string {
  return `used_${meter.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)}`;
}

function moneyOf(usd: unknown, picodollars: unknown): string {
  const isWhole = [usd, picodollars].every((one) => /^-?\d+$/.test(String(one)));
  if (!isWhole) return `${usd} USD and ${picodollars}`;
  return String(BigInt(String(usd)) * picodollarsPerUsd + BigInt(String(picodollars)));
}

function isAtLeast(stored: unknown, said: string): boolean {
  return typeof stored === 'string' && /^-?\d+$/.test(stored) && BigInt(stored) >= BigInt(said);
}

function shownAmount(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, 100) : 'nothing';
}

function shownTime(time: Date): string {
  return Number.isNaN(time.getTime()) ? 'no time' : time.toISOString();
}
