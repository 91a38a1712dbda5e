// `bursar records`: what happened.

import { type Command, InvalidArgumentError } from 'commander';
import type { AuditRecord as Recorded } from '../audit/verify/opening.ts';
import { printable } from '../core/printable.ts';
import { type Connection, callApi } from './api-client.ts';
import { connect } from './command-arguments.ts';
import { print, writeOutput } from './output.ts';
import { time, timeForms } from './times.ts';

/** What was found in the place of a record that was altered. */
interface AlteredMark {
  altered: true;
  index: number;
}

interface AuditRecord
  extends Pick<Recorded, 'index' | 'time' | 'tenant' | 'principal' | 'action' | 'status'>,
    Pick<Recorded, 'bucket' | 'key' | 'target' | 'error'> {
  altered?: undefined;
}

interface RecordFlags {
  from?: string;
  to?: string;
  tenant?: string;
  principal?: string;
  bucket?: string;
  prefix?: string;
  action?: string;
  token?: string;
  status?: string;
  address?: string;
  after?: string;
  limit?: number;
}

const pageMax = 1000;

export function addRecordsCommand(program: Command): void {
  program
    .command('records')
    .description('audit records, in the order of the log; with --json one canonical record a line')
    .option('--from <time>', `not before this time: ${timeForms}`, time)
    .option('--to <time>', 'before this time', time)
    .option('--tenant <name>', 'of principals of this tenant, and about its buckets')
    .option('--principal <name>', 'of this principal (alice or cms/alice)')
    .option('--bucket <name>', 'about this bucket')
    .option('--prefix <text>', 'about keys that begin so')
    .option('--action <name>', 'of this action (s3:PutObject, bursar:CreateTenant)')
    .option('--token <jti>', 'made with this token, or one below it')
    .option('--status <code>', 'of this HTTP status', parseStatus)
    .option('--address <address>', 'from this address')
    .option('--after <index>', 'behind this log index', parseIndex)
    .option('--limit <count>', 'at most so many records (default: all)', parseLimit)
    .action(async (given: RecordFlags, command: Command) => {
      const { connection, flags } = connect(command);
      for await (const page of readRecords(connection, given)) {
        for (const record of page) print(flags.json ? JSON.stringify(record) : lineOf(record));
      }
    });
}

/**
 * Gives pages of records. JSON.stringify gives the canonical text back, since members keep their
 * order.
 */
export async function* readRecords(
  connection: Connection,
  given: RecordFlags,
): AsyncGenerator<(AuditRecord | AlteredMark)[]> {
  const { from, to, tenant, principal, bucket, prefix, action, token, status, address } = given;
  const about = { tenant, principal, bucket, prefix, action, token, status, address };
  const filters = { from, to, ...about };
  let left = given.limit ?? Number.POSITIVE_INFINITY;
  let cursor = given.after;
  do {
    const query = { ...filters, cursor, limit: String(Math.min(left, pageMax)) };
    const { json } = await callApi(connection, { method: 'GET', path: ['records'], query });
    const page = json as { records: (AuditRecord | AlteredMark)[]; next: string | null };
    yield page.records;
    left -= page.records.length;
    cursor = page.next ?? undefined;
  } while (cursor !== undefined && left > 0);
}

function lineOf(record: AuditRecord | AlteredMark): string {
  if (record.altered) return `${record.index}  ALTERED  it is not what was recorded`;
  const object = record.bucket === undefined ? undefined : [record.bucket, record.key];
  const subject = record.target ?? object?.filter((part) => part !== undefined).join('/') ?? '';
  const outcome = record.error ?? String(record.status);
  const who = `${record.tenant}/${record.principal}`;
  // A text that is shown differently from what it is, is quoted, so that nobody takes an escape for
  // the key's own text.
  const shown = printable(subject) === subject ? subject : printable(JSON.stringify(subject));
  const columns = [record.index, record.time, who, record.action, outcome, shown];
  return columns.join('  ').trimEnd();
}

function parseStatus(value: string): string {
  if (!/^[1-5]\d{2}$/.test(value)) throw new InvalidArgumentError('Must be 100 to 599.');
  return value;
}

function parseIndex(value: string): string {
  if (!/^\d{1,15}$/.test(value)) throw new InvalidArgumentError('Must be a log index.');
  return value;
}

function parseLimit(value: string): number {
  const limit = Number(value);
  if (!/^\d+$/.test(value) || limit < 1 || !Number.isSafeInteger(limit)) {
    throw new InvalidArgumentError('Must be a whole number from 1 on.');
  }
  return limit;
}

// `bursar receipt show`: the proof that an operation is in the audit log, for whoever wants to keep
// it.

export function addReceiptCommands(program: Command): void {
  const receipt = program.command('receipt').description('proofs of what was done');
  receipt
    .command('show')
    .description('show the receipt of an operation; "bursar verify receipt" needs no gateway')
    .argument(
      '<index>',
      'the x-bursar-receipt of its answer, or the index of its record',
      parseReceiptIndex,
    )
    .option('--out <file>', 'write it to this file (default: to stdout)')
    .action(async (index: string, { out }: { out?: string }, command: Command) => {
      const { connection } = connect(command);
      const { text } = await callApi(connection, { method: 'GET', path: ['receipts', index] });
      if (out === undefined) process.stdout.write(text);
      else writeOutput(out, text, { mode: 0o600, ifExists: 'replace' });
    });
}

function parseReceiptIndex(value: string): string {
  if (/^(?:0|[1-9][0-9]{0,15})$/.test(value)) return value;
  throw new InvalidArgumentError('Must be a whole number from 0 on.');
}
