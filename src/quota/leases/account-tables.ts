// Accounts in SQLite. Amounts are 64-bit integers, which JavaScript's numbers are not: they are
// read as text, added as bigints, and written as such. What was spent since ever may be more than
// 64 bits hold, 9.2 million USD, and is text there as well.
import type { Reader, SqlValue, Tx } from '../../core/database.ts';
import { pages } from '../../core/pages.ts';
import { isLevel, type Limits, meters } from '../../core/quota-terms.ts';
import { UnsealedRow } from '../../core/seals/row-seal.ts';
import { emptySums, type Sums } from '../amounts.ts';
import { type LimitSet, parseLimitSet } from '../limits/limit-set.ts';
import type { AccountChanges, AccountStorage } from './account-entry.ts';
import type { AccountMac, AccountMacs } from './account-macs.ts';
import { type AccountState, markedWindows, newAccountState } from './account-state.ts';

export const accountSchema = `
CREATE TABLE quota_accounts (      -- whatever was ever charged, or has limits
  account TEXT PRIMARY KEY,        -- tenant:T | principal:T/P | bucket:T/B | token:jti
  limits TEXT,                     -- JSON, as core/quota-terms.ts has it; null: none
  told TEXT,                       -- JSON: of which share of them alarms told; null: of none
  token_tenant TEXT,               -- of a token: in whose name it acts, and until when
  token_principal TEXT,
  token_expires_ms INTEGER,
  used_spend TEXT NOT NULL,        -- picodollars; flows since ever, levels now
  used_stored_bytes INTEGER NOT NULL,
  used_stored_objects INTEGER NOT NULL,
  used_ingress_bytes INTEGER NOT NULL,
  used_egress_bytes INTEGER NOT NULL,
  used_requests INTEGER NOT NULL,
  lost_spend TEXT NOT NULL,        -- leased by runs that died, and never posted
  lost_ingress_bytes INTEGER NOT NULL,
  lost_egress_bytes INTEGER NOT NULL,
  lost_requests INTEGER NOT NULL,
  leases TEXT,                     -- JSON: by holder, what is set aside for a run and not used yet
  epoch INTEGER,                   -- of the root key that the MAC is made under
  mac BLOB                         -- of all this, and of the account's windows
) WITHOUT ROWID;
CREATE INDEX quota_tokens_by_expiry ON quota_accounts (token_expires_ms)
  WHERE token_expires_ms IS NOT NULL;

CREATE TABLE quota_windows (       -- the same counters, as they were when the window began
  account TEXT NOT NULL,
  window TEXT NOT NULL,            -- minute | hour | day | month
  begin_ms INTEGER NOT NULL,
  used_spend TEXT NOT NULL,
  used_ingress_bytes INTEGER NOT NULL,
  used_egress_bytes INTEGER NOT NULL,
  used_requests INTEGER NOT NULL,
  lost_spend TEXT NOT NULL,
  lost_ingress_bytes INTEGER NOT NULL,
  lost_egress_bytes INTEGER NOT NULL,
  lost_requests INTEGER NOT NULL,
  PRIMARY KEY (account, window)
) WITHOUT ROWID;

CREATE TABLE quota_leases (        -- which accounts have leases, by run; how much is in their rows,
  account TEXT NOT NULL,           -- which a charge writes anyway, so that it writes no other page
  holder TEXT NOT NULL,
  PRIMARY KEY (account, holder)
) WITHOUT ROWID;
`;

const flows = meters.filter((meter) => !isLevel(meter));

/** `used_stored_bytes` of `used` and `storedBytes`, in the order of the schema. */
function columnsOf(prefix: string, names: readonly string[]): string[] {
  return names.map((name) => prefix + name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`));
}

const accountColumns = [...columnsOf('used_', meters), ...columnsOf('lost_', flows)];
const windowColumns = [...columnsOf('used_', flows), ...columnsOf('lost_', flows)];

const asText = (table: string, columns: readonly string[], prefix = ''): string =>
  columns.map((name) => `CAST(${table}.${name} AS TEXT) AS ${prefix}${name}`).join(', ');
const places = (count: number): string => Array(count).fill('?').join(', ');

/** One statement, so that everything is of one moment: it gives a row for each window. */
const readAccount = `SELECT a.limits, a.told, a.token_tenant, a.token_principal, a.token_expires_ms,
    a.leases, a.epoch, a.mac, ${asText('a', accountColumns)},
    w.window, w.begin_ms, ${asText('w', windowColumns, 'w_')}
  FROM quota_accounts AS a
  LEFT JOIN quota_windows AS w ON w.account = a.account
  WHERE a.account = ?`;
const tokenColumns = ['token_tenant', 'token_principal', 'token_expires_ms'];
const writeAccount = upsert(
  'quota_accounts',
  ['account'],
  ['limits', 'told', ...tokenColumns, ...accountColumns, 'leases', 'epoch', 'mac'],
);
/**
 * The columns of most writes: none of them has a seal (core/seals/sealed-tables.ts), so no trigger
 * runs.
 */
const useColumns = ['told', ...accountColumns, 'leases', 'epoch', 'mac'];
const writeUse = `UPDATE quota_accounts SET ${useColumns.map((name) => `${name} = ?`).join(', ')}
  WHERE account = ?`;
const writeWindow = upsert('quota_windows', ['account', 'window'], ['begin_ms', ...windowColumns]);

/** Updates a row where it is there: replacing it would delete and insert. */
function upsert(table: string, keys: readonly string[], columns: readonly string[]): string {
  const all = [...keys, ...columns];
  const set = columns.map((column) => `${column} = excluded.${column}`);
  return `INSERT INTO ${table} (${all.join(', ')}) VALUES (${places(all.length)})
    ON CONFLICT DO UPDATE SET ${set.join(', ')}`;
}

type Row = Record<string, string>;
/** Limits, and whose token it is. */
type SealedColumns = readonly [SqlValue, SqlValue, SqlValue, SqlValue];

export class AccountTables implements AccountStorage {
  readonly #tx: Tx;
  readonly #macs: AccountMacs | null;
  /** The MACs of accounts as they were read, or written last. */
  readonly #known = new WeakMap<AccountState, AccountMac>();
  readonly #marks = new WeakMap<AccountState, string>();
  /** The columns that have a seal, as they were written last. */
  readonly #sealed = new WeakMap<AccountState, SealedColumns>();

  /** Without `macs`, rows are written without a MAC, and trusted as they are read. */
  constructor(tx: Tx, macs: AccountMacs | null = null) {
    this.#tx = tx;
    this.#macs = macs;
  }

  /** Throws UnsealedRow for an account that is not what was written. */
  async read(account: string): Promise<AccountState | undefined> {
    const rows = await this.#tx.all<Row>(readAccount, account);
    const [row] = rows;
    if (!row) return undefined;
    const mac = this.#macs?.verify(account, contentOf(row, storedMarks(rows)), row);
    const state = stateOf(account, rows);
    if (mac) this.#known.set(state, mac);
    return state;
  }

  async write(account: string, state: AccountState, changes: AccountChanges): Promise<void> {
    const sealed = sealedColumnsOf(state);
    const told = state.told.size === 0 ? null : JSON.stringify([...state.told]);
    const use: SqlValue[] = [];
    addValues(use, state.used, meters);
    addValues(use, state.lost, flows);
    use.push(renderLeases(state));
    const [limits, ...token] = sealed;
    const content = [limits, told, ...token, ...use];
    const mac = this.#seal(account, state, { content, hasNewMarks: changes.windows.size > 0 });
    const stored = [mac?.epoch ?? null, mac?.mac ?? null];
    const known = this.#sealed.get(state);
    const isUse = known?.every((value, i) => value === sealed[i]);
    // Where the row is gone, what follows finds out whether it may be made.
    if (!isUse || (await this.#tx.run(writeUse, told, ...use, ...stored, account)).changes === 0) {
      await this.#tx.run(writeAccount, account, ...content, ...stored);
      this.#sealed.set(state, sealed);
    }
    for (const window of changes.windows) {
      const { beginMs, used, lost } = state.marks[window];
      const values: SqlValue[] = [];
      addValues(values, used, flows);
      addValues(values, lost, flows);
      await this.#tx.run(writeWindow, account, window, beginMs, ...values);
    }
    for (const holder of changes.holders) {
      const sql = state.leases.has(holder)
        ? 'INSERT OR IGNORE INTO quota_leases VALUES (?, ?)'
        : 'DELETE FROM quota_leases WHERE account = ? AND holder = ?';
      await this.#tx.run(sql, account, holder);
    }
  }

  #seal(
    account: string,
    state: AccountState,
    { content, hasNewMarks }: { content: SqlValue[]; hasNewMarks: boolean },
  ): AccountMac | undefined {
    if (!this.#macs) return undefined;
    let marks = this.#marks.get(state);
    if (marks === undefined || hasNewMarks) {
      marks = renderMarks(state);
      this.#marks.set(state, marks);
    }
    const mac = this.#macs.seal(account, [...content, marks], this.#known.get(state));
    this.#known.set(state, mac);
    return mac;
  }

  async remove(account: string): Promise<void> {
    const state = await this.read(account);
    const mac = state && this.#known.get(state);
    if (mac) this.#macs?.forget(mac);
    for (const table of ['quota_accounts', 'quota_windows', 'quota_leases']) {
      await this.#tx.run(`DELETE FROM ${table} WHERE account = ?`, account);
    }
  }

  async expiredTokens(beforeMs: number, max: number): Promise<string[]> {
    const sql = `SELECT account FROM quota_accounts WHERE token_expires_ms < ?
      AND leases IS NULL LIMIT ?`;
    return (await this.#tx.all<Row>(sql, beforeMs, max)).map((row) => row.account as string);
  }

  async leasedByOthers(run: string, max: number): Promise<string[]> {
    // Of accounts that have the lease: their rows are authentic, these are not.
    const sql = `SELECT DISTINCT account FROM quota_leases AS l
      WHERE holder <> ? AND substr(holder, 1, ?) <> ? AND EXISTS (
        SELECT 1 FROM quota_accounts AS a WHERE a.account = l.account
          AND instr(a.leases, json_quote(l.holder)) > 0) LIMIT ?`;
    return (await this.#tx.all<Row>(sql, run, run.length + 1, `${run}/`, max)).map(
      (row) => row.account as string,
    );
  }
}

/**
 * An account as it was committed last; undefined: it was never charged, and has no limits. Its
 * windows are those of when it was written last: `beginWindows` brings them up to a time.
 */
export async function readAccountState(
  read: Reader,
  account: string,
): Promise<AccountState | undefined> {
  const rows = await read.all<Row>(readAccount, account);
  return rows.length > 0 ? stateOf(account, rows) : undefined;
}

/**
 * Verifies each account; gives those that are not what was written. What there is of MACs is taken
 * into the digests.
 */
export async function verifyAccounts(read: Reader, macs: AccountMacs): Promise<UnsealedRow[]> {
  const wrong: UnsealedRow[] = [];
  const sql = 'SELECT account FROM quota_accounts WHERE account > ? ORDER BY account LIMIT 1000';
  const readPage = (last?: { account: string }) =>
    read.all<{ account: string }>(sql, last?.account ?? '');
  for await (const page of pages(readPage)) {
    for (const { account } of page) {
      const found = await verifyAccount(read, account, macs);
      if (found) wrong.push(found);
    }
  }
  return wrong;
}

/** Gives each account a MAC of what it is now, whatever it was before. */
export async function sealAccounts(tx: Tx, macs: AccountMacs): Promise<void> {
  const accounts = await tx.all<{ account: string }>('SELECT account FROM quota_accounts');
  for (const { account } of accounts) {
    const rows = await tx.all<Row>(readAccount, account);
    const content = contentOf(rows[0] as Row, storedMarks(rows));
    const { epoch, mac } = macs.seal(account, content, undefined);
    const sql = 'UPDATE quota_accounts SET epoch = ?, mac = ? WHERE account = ?';
    await tx.run(sql, epoch, mac, account);
  }
}

async function verifyAccount(
  read: Reader,
  account: string,
  macs: AccountMacs,
): Promise<UnsealedRow | undefined> {
  const rows = await read.all<Row>(readAccount, account);
  const row = rows[0] as Row;
  const content = contentOf(row, storedMarks(rows));
  macs.count(account, content, row);
  try {
    macs.verify(account, content, row);
    return undefined;
  } catch (error) {
    if (error instanceof UnsealedRow) return error;
    throw error;
  }
}

/**
 * What the MAC of an account is over, but for its name: the columns in their order, then the
 * windows.
 */
function contentOf(row: Row, marks: string): SqlValue[] {
  const { limits, told, token_tenant, token_principal, token_expires_ms, leases } = row;
  const amounts = accountColumns.map((column) => row[column]);
  const values = [limits, told, token_tenant, token_principal, token_expires_ms];
  return [...values, ...amounts, leases, marks] as SqlValue[];
}

/**
 * When each window began, and what the counters were then: decimal numbers in the order of the
 * schema.
 */
function renderMarks({ marks }: AccountState): string {
  const numbers: (number | bigint)[] = [];
  for (const window of markedWindows) {
    const { beginMs, used, lost } = marks[window];
    numbers.push(beginMs);
    for (const sums of [used, lost]) for (const meter of flows) numbers.push(sums[meter]);
  }
  return numbers.join(' ');
}

/** The same as it is stored, whatever that is. */
function storedMarks(rows: readonly Row[]): string {
  const texts = markedWindows.flatMap((window) => {
    const row = rows.find((one) => one.window === window);
    const amounts = windowColumns.map((column) => row?.[`w_${column}`] ?? '0');
    return [row?.begin_ms ?? '0', ...amounts];
  });
  return texts.map(String).join(' ');
}

function sealedColumnsOf({ limits, token }: AccountState): SealedColumns {
  const { tenant = null, principal = null, expiresAtMs = null } = token ?? {};
  return [limits && textOf(limits), tenant, principal, expiresAtMs];
}

function stateOf(account: string, rows: readonly Row[]): AccountState {
  const row = rows[0] as Row;
  const state = newAccountState();
  state.limits = row.limits === null ? null : readStoredLimits(row.limits as string, account);
  if (row.told !== null) state.told = new Map(JSON.parse(row.told as string));
  if (row.token_expires_ms !== null) {
    state.token = {
      tenant: row.token_tenant as string,
      principal: row.token_principal as string,
      expiresAtMs: Number(row.token_expires_ms),
    };
  }
  readSums(row, 'used_', meters, state.used);
  readSums(row, 'lost_', flows, state.lost);
  for (const row of rows) if (row.window !== null) readMark(row, state);
  if (row.leases !== null) readLeases(row.leases as string, state);
  return state;
}

function readMark(row: Row, { marks }: AccountState): void {
  const mark = marks[row.window as keyof AccountState['marks']];
  mark.beginMs = Number(row.begin_ms);
  readSums(row, 'w_used_', flows, mark.used);
  readSums(row, 'w_lost_', flows, mark.lost);
}

function readLeases(text: string, { leases }: AccountState): void {
  for (const [holder, amounts] of Object.entries(JSON.parse(text) as Record<string, string[]>)) {
    const sums = emptySums();
    for (const [i, meter] of meters.entries()) sums[meter] = BigInt(amounts[i] as string);
    leases.set(holder, sums);
  }
}

/** Amounts in the meters' order, as text: they may be more than JSON's numbers hold. */
function renderLeases({ leases }: AccountState): string | null {
  if (leases.size === 0) return null;
  const amounts = [...leases].map(([holder, sums]) => [holder, meters.map((m) => `${sums[m]}`)]);
  return JSON.stringify(Object.fromEntries(amounts));
}

/** An account's limits; null: it has none. */
export async function readLimits(read: Reader, account: string): Promise<Limits | null> {
  const sql = 'SELECT limits FROM quota_accounts WHERE account = ?';
  const text = (await read.get<{ limits: string | null }>(sql, account))?.limits ?? null;
  return text === null ? null : (readStoredLimits(text, account)?.limits ?? null);
}

/** All accounts that have limits, except for tokens, whose links say them. */
export async function readLimited(read: Reader): Promise<{ account: string; limits: Limits }[]> {
  const rows = await read.all<{ account: string; limits: string }>(
    `SELECT account, limits FROM quota_accounts WHERE limits IS NOT NULL
       AND (account < 'token:' OR account > 'token;')`,
  );
  // Many accounts have equal limits, which are parsed once and kept once.
  const byText = new Map<string, Limits>();
  return rows.map(({ account, limits: text }) => {
    const limits = byText.get(text) ?? readStoredLimits(text, account)?.limits;
    if (!limits) throw new Error(`${account} has no limits`);
    byText.set(text, limits);
    return { account, limits };
  });
}

/** Limits are written with each charge, though they seldom change: their text is made once. */
const texts = new WeakMap<LimitSet, string>();
function textOf(set: LimitSet): string {
  let text = texts.get(set);
  if (text === undefined) {
    text = JSON.stringify(set.limits);
    texts.set(set, text);
  }
  return text;
}

function readStoredLimits(text: string, account: string): AccountState['limits'] {
  const limits = parseLimitSet(text);
  // Without limits, spending would be unlimited: limits that cannot be read are a failure.
  if (!limits) throw new Error(`the stored limits of ${account} cannot be read`);
  return limits;
}

function readSums(row: Row, prefix: string, names: readonly (keyof Sums)[], into: Sums): void {
  const columns = columnNames[prefix] as Record<keyof Sums, string>;
  for (const name of names) into[name] = BigInt(row[columns[name]] as string);
}

const columnNames: Record<string, Record<string, string>> = Object.fromEntries(
  ['used_', 'lost_', 'w_used_', 'w_lost_'].map((prefix) => {
    const columns = columnsOf(prefix, meters);
    return [prefix, Object.fromEntries(meters.map((meter, i) => [meter, columns[i] as string]))];
  }),
);

function addValues(values: SqlValue[], sums: Sums, names: readonly (keyof Sums)[]): void {
  for (const name of names) {
    const amount = sums[name];
    values.push(name === 'spend' && amount > bitsMax ? String(amount) : amount);
  }
}

/** The most that SQLite's integers are; text takes the others as they come. */
const bitsMax = 2n ** 63n - 1n;
