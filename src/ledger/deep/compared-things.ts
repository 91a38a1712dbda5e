// What the records tell of things of one kind, and the rows that there are of them. Invariants:
// each row is compared member by member with what the last record that told of it said; a member
// that no record tells of is not compared; and what a record that was erased may have changed is
// counted as unknown, not told as a difference.
import type { Difference } from '../../audit/verify/record-fields.ts';
import { canonicalize } from '../../core/canonical-json.ts';
import type { Reader, SqlValue } from '../../core/database.ts';
import type { StagedMap, Staging } from './staging.ts';

/** By name, what is said of a thing; undefined: it is not told. */
export type Members = Readonly<Record<string, unknown>>;

interface Told {
  /** Of the last record that told of it. */
  index: number;
  members: Members;
  /** Its row was. */
  isMet?: true;
}

export interface Row {
  id: string;
  members: Members;
}

/**
 * The last record that was erased or cannot be read and may have changed what is a tenant's; -1:
 * there is none. undefined: whosever it is.
 */
export type LastErasedOf = (tenant: string | undefined) => Promise<number>;

/** What a comparison of rows with records needs to know, and tells. */
export interface Comparison {
  tell: (difference: Difference) => void;
  /** Of the last record that was erased or cannot be read; -1: there is none. */
  lastErased: number;
  lastErasedOf: LastErasedOf;
  /** Called for each row that cannot be compared for that. */
  onUnknown: () => void;
}

type TenantOf = (id: string, members: Members) => string | undefined;

/** Of what is named `TENANT`, or `TENANT/NAME`. */
export function tenantOfName(id: string): string {
  return id.split('/', 1)[0] as string;
}

/** Of what is its `owner`'s, `TENANT/PRINCIPAL`. */
export function tenantOfOwner(_: string, { owner }: Members): string | undefined {
  return typeof owner === 'string' ? tenantOfName(owner) : undefined;
}

export class ComparedThings {
  readonly #noun: string;
  readonly #tenantOf: TenantOf;
  readonly #told: StagedMap<Told>;

  /**
   * `noun`: what one of them is called, such as `bucket`. `tenantOf`: gives the tenant that it
   * belongs to, where only who is of that tenant, who meets its buckets and operators can change
   * it.
   */
  constructor(staging: Staging, noun: string, tenantOf: TenantOf = () => undefined) {
    this.#noun = noun;
    this.#tenantOf = tenantOf;
    this.#told = staging.map(noun);
  }

  get(id: string): Promise<Told | undefined> {
    return this.#told.get(id);
  }

  entries(): AsyncGenerator<[string, Told]> {
    return this.#told.entries();
  }

  /** A record made it, or says all of it. */
  put(id: string, index: number, members: Members): Promise<void> {
    return this.#told.set(id, { index, members });
  }

  /** A record changed some of it; members that are undefined are not known any more. */
  async change(id: string, index: number, members: Members): Promise<void> {
    const told = await this.#told.get(id);
    await this.#told.set(id, { index, members: { ...told?.members, ...members } });
  }

  delete(id: string): Promise<void> {
    return this.#told.delete(id);
  }

  /** Compares all rows that there are. `mayLack`: may one that records tell of have no row? */
  async compare(
    rows: AsyncIterable<Row> | readonly Row[],
    comparison: Comparison,
    mayLack: (id: string, told: Told) => boolean = () => false,
  ): Promise<void> {
    for await (const row of rows) await this.#compareRow(row, comparison);
    for await (const [id, told] of this.#told.entries()) {
      if (told.isMet || mayLack(id, told)) continue;
      const what = `it is missing, and record ${told.index} told of it last`;
      await this.#conclude(id, told, what, comparison);
    }
  }

  async #compareRow({ id, members }: Row, comparison: Comparison): Promise<void> {
    const told = await this.#told.get(id);
    if (!told) {
      await this.#conclude(id, { index: -1, members }, 'no record made it', comparison);
    } else await this.#told.set(id, { ...told, isMet: true });
    for (const [name, value] of Object.entries(told?.members ?? {})) {
      if (value === undefined || isSame(value, members[name])) continue;
      const [stored, said] = [show(members[name]), show(value)];
      const what =
        `its ${name} is not what record ${told?.index} and those before it say: ${stored}, not ` +
        `${said}`;
      await this.#conclude(id, told ?? { index: -1, members }, what, comparison);
    }
  }

  async #conclude(
    id: string,
    { index, members }: Told,
    what: string,
    comparison: Comparison,
  ): Promise<void> {
    const lastErased = await comparison.lastErasedOf(this.#tenantOf(id, members));
    if (lastErased > index) comparison.onUnknown();
    else comparison.tell({ where: `${this.#noun} ${id}`, what });
  }
}

function isSame(said: unknown, stored: unknown): boolean {
  if (typeof said !== 'object' || said === null) return said === stored;
  return canonicalize(said) === canonicalize(stored);
}

const shownMax = 200;

/** As a difference shows it. */
export function show(value: unknown): string {
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  const text =
    JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? `${one}` : one)) ?? 'nothing';
  return text.length <= shownMax ? text : `${text.slice(0, shownMax)}…`;
}

// Walks through a table in the order of its primary key, a page at a time. Invariant: it ends,
// whatever the keys are: integers beyond those of JavaScript, which are read as others, do not have
// it begin anew.

export interface Walked {
  columns: string;
  /** Table, and a condition that its rows meet, if any. */
  from: string;
  where?: string;
  /** Of the primary key, in its order. */
  keys: readonly string[];
}

const rowsPerPage = 1000;

export async function* walkTable<R>(
  read: Reader,
  { columns, from, where = '1', keys }: Walked,
): AsyncGenerator<R> {
  const named = keys.map((key, i) => `${key} AS walked${i}`);
  const order = keys.join(', ');
  const select = `SELECT ${[...named, columns].join(', ')} FROM ${from} WHERE ${where}`;
  const next = `${select} AND (${order}) > (${keys.map(() => '?').join(', ')})`;
  const page = (sql: string, ...after: SqlValue[]) =>
    read.all<Record<string, SqlValue>>(`${sql} ORDER BY ${order} LIMIT ${rowsPerPage}`, ...after);
  let rows = await page(select);
  for (let last = rows.at(-1); last; last = rows.at(-1)) {
    yield* rows as R[];
    const after = keys.map((_, i) => (last as Record<string, SqlValue>)[`walked${i}`] ?? null);
    rows = await page(next, ...after);
    const isSame = keys.every((_, i) =>
      isEqual(rows.at(-1)?.[`walked${i}`] ?? null, after[i] ?? null),
    );
    if (rows.length > 0 && isSame)
      throw new Error(`rows of ${from} have keys that no gateway gives`);
  }
}

function isEqual(a: SqlValue, b: SqlValue): boolean {
  const areBytes = a instanceof Uint8Array && b instanceof Uint8Array;
  return areBytes ? Buffer.compare(a, b) === 0 : a === b;
}

export type Columns = Record<string, unknown>;
export type ListRows = (read: Reader) => AsyncGenerator<Row>;

/** Lists the rows of a table as they are compared. */
export function rowsOf(walked: Walked, show: (row: Columns) => Row): ListRows {
  return async function* (read) {
    for await (const row of walkTable<Columns>(read, walked)) yield show(row);
  };
}
