// Costs side by side: a column for each case and a row for each meter, or a line of CSV for each
// case. In JSON and CSV amounts are exact; the table shows as many decimals as are needed, up to 9.
import { formatUsd, type Picodollars } from '../core/money.ts';
import { costOfYear, picocentsPerBitYear, type WorkloadCost } from '../quota/cost/workload-cost.ts';
import { print, printCsv, printJson, printTable } from './output.ts';

export interface CostCase {
  readonly name: string;
  readonly book: string | null;
  readonly class: string | null;
  /** The share of reads that a cache answers, from 0 to 1. */
  readonly cacheHits: number;
  readonly cost: WorkloadCost;
}

export interface CostAnswer {
  /** What was priced. */
  readonly of: Readonly<Record<string, string | number | undefined>>;
  /** The first is what the others are compared with. */
  readonly cases: readonly CostCase[];
  /**
   * How many months a workload is priced for; null where records are priced. A workload also has a
   * cost per year.
   */
  readonly months: number | null;
  readonly storedBytes?: bigint;
  /** The assumptions that pricing needed. */
  readonly notes: readonly string[];
}

const meters: readonly (readonly [keyof WorkloadCost, string])[] = [
  ['puts', 'PUT requests'],
  ['gets', 'GET requests'],
  ['ingress', 'transfer in'],
  ['egress', 'transfer out'],
  ['retrieval', 'retrieval'],
  ['storage', 'storage'],
  ['earlyDeletion', 'early deletion'],
  ['total', 'total'],
];
const decimalsMax = 9;

/** Writes the answer: a table, with --json or --csv for programs. */
export function printCosts(answer: CostAnswer, form: { json?: boolean; csv?: boolean }): void {
  const { of, cases, notes } = answer;
  if (form.json) {
    const shown = cases.map(({ cost, ...one }) => {
      return { ...one, ...inUsd(cost), ...ofYear(cost, answer) };
    });
    printJson({ of, cases: shown, notes });
  } else if (form.csv) {
    const heading = ['case', 'book', 'class', 'cacheHits', ...meters.map(([name]) => name)];
    printCsv(heading, cases.map(lineOf));
    for (const note of notes) process.stderr.write(`${note}\n`);
  } else {
    printColumns(answer);
    for (const note of notes) print(note);
  }
}

function ofYear({ total }: WorkloadCost, { months, storedBytes = 0n }: CostAnswer): object {
  if (months === null) return {};
  const year = costOfYear(total, months);
  return { year: formatUsd(year), picocentsPerBitYear: picocentsPerBitYear(year, storedBytes) };
}

function lineOf({ name, book, class: of, cacheHits, cost }: CostCase): string[] {
  const amounts = meters.map(([meter]) => formatUsd(cost[meter]));
  return [name, book ?? '', of ?? '', String(cacheHits), ...amounts];
}

function inUsd(cost: WorkloadCost): Record<string, string> {
  return Object.fromEntries(meters.map(([meter]) => [meter, formatUsd(cost[meter])]));
}

function printColumns({ cases, months, storedBytes = 0n }: CostAnswer): void {
  const rows = meters.map(([meter, title]) => amountRow(title, cases, (cost) => cost[meter]));
  const [first, ...others] = cases;
  if (months !== null) {
    const yearOf = ({ total }: WorkloadCost): bigint => costOfYear(total, months);
    rows.push(amountRow('a year', cases, yearOf));
    if (storedBytes > 0n) {
      const picocents = cases.map(({ cost }) => picocentsPerBitYear(yearOf(cost), storedBytes));
      rows.push(['picocents per bit and year', ...picocents.map(String)]);
    }
  }
  if (first && others.length > 0) {
    const shares = others.map(({ cost }) => change(first.cost.total, cost.total));
    rows.push(['beside the first', '', ...shares]);
  }
  const [heading = [], ...aligned] = alignRight([
    ['USD', ...cases.map(({ name }) => name)],
    ...rows,
  ]);
  printTable(false, { json: null, heading, rows: aligned });
}

function amountRow(
  title: string,
  cases: readonly CostCase[],
  amountOf: (cost: WorkloadCost) => Picodollars,
): string[] {
  return [title, ...cases.map(({ cost }) => formatUsd(amountOf(cost), decimalsMax))];
}

/** `+12.3%`; nothing for what cannot be compared. */
function change(from: Picodollars, to: Picodollars): string {
  if (from === 0n) return '';
  const permille = Number(((to - from) * 2000n + from) / (2n * from));
  return `${permille < 0 ? '' : '+'}${(permille / 10).toFixed(1)}%`;
}

/** All but the first column to the right, and decimal points below each other. */
function alignRight(rows: readonly string[][]): string[][] {
  const aligned = rows.map((row) => [...row]);
  for (let i = 1; i < (rows[0]?.length ?? 0); i++) {
    const decimals = Math.max(...rows.map((row) => decimalsOf(row[i])));
    const cells = rows.map((row) => padDecimals(row[i] ?? '', decimals));
    const width = Math.max(...cells.map((cell) => cell.length));
    cells.forEach((cell, at) => {
      (aligned[at] as string[])[i] = cell.padStart(width);
    });
  }
  return aligned;
}

/** A cell that is no amount is not aligned. */
function padDecimals(cell: string, decimals: number): string {
  const own = decimalsOf(cell);
  return own === 0 ? cell : cell.padEnd(cell.length + decimals - own);
}

function decimalsOf(cell = ''): number {
  return /^-?\d+\.(\d+)$/.exec(cell)?.[1]?.length ?? 0;
}
