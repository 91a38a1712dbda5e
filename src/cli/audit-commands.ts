// `bursar audit`: what auditors take away, and what is erased.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi } from './api-client.ts';
import { addAuditAccessCommand } from './audit-access-command.ts';
import { addAuditReportCommand } from './audit-report-command.ts';
import { exportBundle } from './bundle-file.ts';
import { connect } from './command-arguments.ts';
import { print, printJson } from './output.ts';
import { formatCount } from './progress.ts';
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
      const { from, to, records } = await exportBundle(connection, { ...given, tenant });
      const { out } = given;
      if (flags.json) printJson({ out, from, to, records });
      else {
        const range = `log indexes ${from} to before ${to}`;
        print(`${out}: ${formatCount(records)} records of ${tenant}, ${range}`);
      }
    });
  addAuditReportCommand(audit);
  addAuditAccessCommand(audit);
  audit
    .command('erase')
    .description('erase records: what they say and what opens their leaves; the log stays as it is')
    .argument(
      '<words...>',
      'the tenant whose principals asked for them (default: your own), and their log indexes',
    )
    .requiredOption('--reason <text>', 'why; it is recorded, and must say nothing of the content')
    .action(async (words: string[], { reason }: EraseFlags, command: Command) => {
      const { connection, flags } = connect(command);
      const { tenant, indexes } = readErased(words);
      const erased = await eraseRecords(connection, indexes, { reason, tenant });
      if (flags.json) printJson({ erased });
      else print(`${formatCount(erased.length)} erased; the log verifies as before`);
    });
}

interface EraseFlags {
  reason: string;
}

async function eraseRecords(
  connection: Connection,
  indexes: number[],
  { reason, tenant }: EraseFlags & { tenant: string | undefined },
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

/** `cms 1042 1043`, or indexes alone; what is not a number is a tenant. */
function readErased(words: readonly string[]): { tenant: string | undefined; indexes: number[] } {
  const [first = ''] = words;
  const isNamed = !/^\d/.test(first);
  const indexes = new Set(isNamed ? words.slice(1) : words);
  for (const index of indexes) {
    if (!/^\d{1,15}$/.test(index)) throw new CommandFailure('usage', `${index} is no log index`);
  }
  if (indexes.size === 0) throw new CommandFailure('usage', 'say which log indexes');
  return { tenant: isNamed ? first : undefined, indexes: [...indexes].map(Number) };
}
