// What most administration commands do: make one call of the native API, or read a listing of it,
// and show what it answered. With --json that is shown as it is.
import type { Command } from 'commander';
import type { Answers } from '../gateway/native/routes.ts';
import { type ApiRequest, type Connection, callApi, listAll } from './api-client.ts';
import { connect, splitId } from './command-arguments.ts';
import { printJson, printTable } from './output.ts';

/** The columns in which entries are shown to people. */
export interface Columns<Entry> {
  heading: readonly string[];
  row: (entry: Entry) => readonly string[];
  /** The same with exact amounts, for --csv; absent: the same. */
  csvRow?: (entry: Entry) => readonly string[];
}

type Action = (...given: unknown[]) => Promise<void>;

/** A request that takes asking the gateway something first. */
type LaterRequest = (connection: Connection) => Promise<ApiRequest>;

/**
 * The action of a command that makes one call. `request` is given the arguments and the flags of
 * the command. `show`: what people are shown of the answer; absent: nothing.
 */
export function calling<Answer, Given extends unknown[]>(
  request: (...given: Given) => ApiRequest | LaterRequest,
  show?: Columns<Answer> | ((answer: Answer) => void),
): Action {
  return async (...given) => {
    const { connection, flags } = connect(given.at(-1) as Command);
    const asked = request(...(given as Given));
    const { json } = await callApi(
      connection,
      typeof asked === 'function' ? await asked(connection) : asked,
    );
    if (typeof show === 'object') printEntries(flags.json, show, json, [json as Answer]);
    else if (flags.json) printJson(json ?? {});
    else show?.(json as Answer);
  };
}

/** The action of a command that shows all of a listing; `member` has the entries of a page. */
export function listing<Entry, Given extends unknown[]>(
  columns: Columns<Entry>,
  member: string,
  path: (...given: Given) => readonly string[],
): Action {
  return async (...given) => {
    const { connection, flags } = connect(given.at(-1) as Command);
    const entries = await listAll<Entry>(connection, path(...(given as Given)), member);
    printEntries(flags.json, columns, entries, entries);
  };
}

export function printEntries<Entry>(
  asJson: boolean | undefined,
  { heading, row, csvRow = row }: Columns<Entry>,
  json: unknown,
  entries: readonly Entry[],
): void {
  printTable(asJson, { json, heading, rows: entries.map(row), csv: entries.map(csvRow) });
}

/** Who asks, by the keys that the command found. */
export async function askWho(connection: Connection): Promise<Answers['WhoAmI']> {
  const { json } = await callApi(connection, { method: 'GET', path: ['whoami'] });
  return json as Answers['WhoAmI'];
}

/** Who asks, as commands name principals. */
export async function askOwnId(connection: Connection): Promise<string> {
  const { tenant, principal } = await askWho(connection);
  return `${tenant}/${principal}`;
}

/** The path of what is called TENANT/NAME, in a collection of its tenant. */
export function pathIn(collection: string, id: string): string[] {
  const [tenant, name] = splitId(id);
  return ['tenants', tenant, collection, name];
}
