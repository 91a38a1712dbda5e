// People as a table: CSV (RFC 4180) whose first line names the columns, in the form that
// `bursar principal list TENANT --csv` writes. Invariant: a line that is not understood is named,
// and nothing of the file is taken.
import { namePart, nameWords } from '../../core/names.ts';
import { type Entry, type Gathered, type Value, wrong } from './entries.ts';

const columns = ['principal', 'kind', 'role', 'groups', 'active', 'created'];
const idForm = new RegExp(`^${namePart}/${namePart}$`);

/** Throws `CommandFailure` (usage) where it is no table. */
export function readPeople(file: string, text: string, into: Gathered): void {
  const [first, ...rows] = readCsv(file, text);
  if (!first) throw wrong(`${file}:1`, `the first line must name columns: ${columns.join(',')}`);
  for (const [i, name] of first.cells.entries()) {
    if (!columns.includes(name)) throw wrong(`${file}:1`, `${name} is no column of people`);
    if (first.cells.indexOf(name) !== i) throw wrong(`${file}:1`, `${name} is there twice`);
  }
  if (!first.cells.includes('principal')) throw wrong(`${file}:1`, 'no column is principal');
  for (const { line, cells } of rows) {
    into.attempt(() => into.add(readPerson({ line, cells }, first, file)));
  }
}

function readPerson({ line, cells }: Row, heading: Row, file: string): Entry {
  const at = `${file}:${line}`;
  if (cells.length !== heading.cells.length) {
    throw wrong(at, `${cells.length} fields, where there are ${heading.cells.length} columns`);
  }
  const said = new Map(heading.cells.map((name, i) => [name, cells[i] as string]));
  const name = said.get('principal') ?? '';
  if (!idForm.test(name)) {
    throw wrong(at, `principal ${name} must be TENANT/NAME, each of ${nameWords}`);
  }
  return { kind: 'principal', name, value: readRow(said, at), at };
}

function readRow(said: ReadonlyMap<string, string>, at: string): Record<string, Value> {
  const value: Record<string, Value> = {};
  for (const name of ['kind', 'role']) {
    const text = said.get(name);
    if (text) value[name] = text;
  }
  const groups = said.get('groups');
  if (groups !== undefined) value.groups = groups.split(/[,;\s]+/).filter((one) => one !== '');
  const active = said.get('active');
  if (active) {
    if (active !== 'yes' && active !== 'no') throw wrong(at, `active ${active} must be yes or no`);
    value.active = active === 'yes';
  }
  return value;
}

interface Row {
  line: number;
  cells: string[];
}

/** Throws `CommandFailure`. Lines may end with LF, too, and empty ones are passed over. */
export function readCsv(file: string, text: string): Row[] {
  const rows: Row[] = [];
  const cell = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r?\n|$)/y;
  const source = text.startsWith('\uFEFF') ? text.slice(1) : text;
  let row: Row = { line: 1, cells: [] };
  let line = 1;
  while (cell.lastIndex < source.length || row.cells.length > 0) {
    const found = cell.exec(source);
    if (!found) throw wrong(`${file}:${line}`, 'a quote that is not closed, or not at the begin');
    const [, written = '', end] = found;
    line += written.split('\n').length - 1;
    row.cells.push(written.startsWith('"') ? written.slice(1, -1).replaceAll('""', '"') : written);
    if (end === ',') continue;
    if (row.cells.length > 1 || row.cells[0] !== '') rows.push(row);
    line++;
    row = { line, cells: [] };
    if (end === '') break;
  }
  return rows;
}
