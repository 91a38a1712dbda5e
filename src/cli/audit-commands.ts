// `bursar audit`: what auditors take away, and what is erased. Invariant: a bundle is under its
// name only when it is whole, so that what has the name can be verified.
import type { WriteStream } from 'node:tty';
import { type Command, InvalidArgumentError } from 'commander';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi } from './api-client.ts';
import { addAuditAccessCommand } from './audit-access-command.ts';
import { connect } from './command-arguments.ts';
import { print, printJson, streamOutput } from './output.ts';
import { CountProgress, formatCount } from './progress.ts';
import { timeForms, timeOrIndex } from './times.ts';

interface ExportFlags {
  from?: string;
  to?: string;
  out: string;
}

/** The gateway takes at most so many in one call. */
const erasedMax = 100;

const exportHelp = `
The file holds every leaf of the range, of all tenants, and opens those of this one: "bursar verify
bundle FILE --key KEY" sees offline that no record of the tenant is missing. A range of times is
turned into one of log indexes; --from with the "to" of the bundle before leaves no gap.

Examples:
  bursar audit export cms --out cms.jsonl
  bursar audit export cms --from 2026-10-01T00:00:00Z --to 2026-11-01T00:00:00Z \\
    --out october.jsonl
  bursar audit export cms --from 81920 --out later.jsonl`;

export function addAuditCommands(program: Command): void {
  const audit = program
    .command('audit')
    .description('take records away to be audited; erase records');
  audit
    .command('export')
    .description("write a tenant's records with the proof that none is missing")
    .argument('<tenant>', 'of what its principals did, and what was done in its buckets')
    .option(
      '--from <place>',
      `not before this log index, or time: ${timeForms} (default: the first)`,
      timeOrIndex,
    )
    .option(
      '--to <place>',
      'before this log index, or time (default: what is signed now)',
      timeOrIndex,
    )
    .requiredOption('--out <file>', 'the bundle; a file of this name is replaced')
    .addHelpText('after', exportHelp)
    .action(async (tenant: string, given: ExportFlags, command: Command) => {
      const { connection, flags } = connect(command);
      await exportBundle(connection, { ...given, tenant }, flags.json === true);
    });
  addAuditAccessCommand(audit);
  audit
    .command('erase')
    .description('erase records: what they say and what opens their leaves; the log stays as it is')
    .argument('<index...>', 'log indexes of the records', parseIndexes)
    .requiredOption('--reason <text>', 'why; it is recorded, and must say nothing of the content')
    .option('--tenant <name>', 'whose principals asked for them (default: your own)')
    .action(async (indexes: number[], given: EraseFlags, command: Command) => {
      const { connection, flags } = connect(command);
      const erased = await eraseRecords(connection, indexes, given);
      if (flags.json) printJson({ erased });
      else print(`${formatCount(erased.length)} erased; the log verifies as before`);
    });
}

interface Head {
  from: number;
  to: number;
}

async function exportBundle(
  connection: Connection,
  { tenant, from, to, out }: ExportFlags & { tenant: string },
  asJson: boolean,
): Promise<void> {
  const path = ['tenants', tenant, 'bundle'];
  const begun = await callApi(connection, { method: 'GET', path, query: { from, to } });
  const head = begun.json as Head;
  const progress = new CountProgress(process.stderr as WriteStream, 'leaves');
  let records = 0;
  try {
    await streamOutput(out, { mode: 0o666 }, async (append) => {
      await append(`${begun.text}\n`);
      for (let at = head.from; at < head.to; ) {
        const { next, lines } = await readPart(connection, [...path, String(at)], head);
        await append(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
        records += lines.filter((line) => 'opening' in line).length;
        at = next;
        progress.show(at - head.from);
      }
    });
  } catch (error) {
    if (error instanceof CommandFailure) throw error;
    throw new CommandFailure('failed', `${out}: ${messageOfFailure(error)}`, error);
  } finally {
    progress.clear();
  }
  if (asJson) printJson({ out, from: head.from, to: head.to, records });
  else {
    const range = `log indexes ${head.from} to before ${head.to}`;
    print(`${out}: ${formatCount(records)} records of ${tenant}, ${range}`);
  }
}

type Part = Answers['ReadBundle'];

async function readPart(connection: Connection, path: string[], { to }: Head): Promise<Part> {
  const query = { to: String(to) };
  const part = (await callApi(connection, { method: 'GET', path, query })).json as Part;
  if (Number(path.at(-1)) < part.next && part.next <= to) return part;
  throw new CommandFailure('failed', 'the gateway gave another part of the log than was asked for');
}

interface EraseFlags {
  reason: string;
  tenant?: string;
}

async function eraseRecords(
  connection: Connection,
  indexes: number[],
  { reason, tenant }: EraseFlags,
): Promise<number[]> {
  const path = ['tenants', tenant ?? (await ownTenant(connection)), 'erasures'];
  for (let at = 0; at < indexes.length; at += erasedMax) {
    const body = { indexes: indexes.slice(at, at + erasedMax), reason };
    await callApi(connection, { method: 'POST', path, body });
  }
  return indexes;
}

async function ownTenant(connection: Connection): Promise<string> {
  const { json } = await callApi(connection, { method: 'GET', path: ['whoami'] });
  return (json as Answers['WhoAmI']).tenant;
}

function parseIndexes(value: string, before: number[] = []): number[] {
  const index = Number(value);
  if (!/^\d{1,15}$/.test(value)) throw new InvalidArgumentError('Must be a log index.');
  return before.includes(index) ? before : [...before, index];
}
