// `bursar audit report`: a page for people who do not read JSON, of who did what, was charged what
// and was refused what in a tenant. Invariant: it is made of a bundle that was verified, and says
// itself what was verified, and what was not.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { type VerifiedBundle, verifyBundle } from '../audit/bundle.ts';
import { RecordSummary } from '../audit/record-summary.ts';
import type { AuditRecord } from '../audit/verify/opening.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { type Picodollars, parseUsd } from '../core/money.ts';
import { type ChargedRecord, partsOfRecord } from '../quota/roll-up/charged-record.ts';
import { type GivenTrust, readTrust } from '../server/folder/given-trust.ts';
import { type Connection, callApi } from './api-client.ts';
import { renderAuditPage } from './audit-report-page.ts';
import { bundleLines, exportBundle } from './bundle-file.ts';
import { addTrustFlags, connect } from './command-arguments.ts';
import { print, printJson, writeOutput } from './output.ts';
import { CountProgress, formatCount } from './progress.ts';
import { timeForms, timeOrIndex } from './times.ts';

interface ReportFlags extends GivenTrust {
  from?: string;
  to?: string;
  bundle?: string;
  out: string;
}

const help = `
The page is HTML that loads nothing, and can be printed. Without --key the gateway's own key counts,
and the page says so. With --bundle no gateway is asked.

Examples:
  bursar audit report cms --from 2026-11-01 --to 2026-12-01 --key log.key --out november.html
  bursar audit report --bundle cms.jsonl --key log.key --out cms.html`;

export function addAuditReportCommand(audit: Command): void {
  const command = audit
    .command('report')
    .description('write a page of who did what, was charged what and was refused what')
    .argument('[tenant]', 'of what its principals did, and what was done in its buckets')
    .option('--from <place>', `not before this log index, or time: ${timeForms}`, timeOrIndex)
    .option('--to <place>', 'before this log index, or time', timeOrIndex)
    .option('--bundle <file>', 'what "bursar audit export" wrote, instead of asking the gateway');
  addTrustFlags(command)
    .requiredOption('--out <file>', 'the page; a file of this name is replaced')
    .addHelpText('after', help)
    .action(run);
}

async function run(
  tenant: string | undefined,
  given: ReportFlags,
  command: Command,
): Promise<void> {
  const { bundle, out } = given;
  if ((tenant === undefined) === (bundle === undefined)) {
    throw new CommandFailure('usage', 'say the tenant, such as cms, or --bundle FILE');
  }
  const json = command.optsWithGlobals<{ json?: boolean }>().json === true;
  if (bundle !== undefined) return report(bundle, given, { out, json, isOwnKey: false });
  const { connection } = connect(command);
  const folder = mkdtempSync(join(tmpdir(), 'bursar-audit-'));
  try {
    const file = join(folder, 'bundle.jsonl');
    const { from, to } = given;
    await exportBundle(connection, { tenant: tenant as string, from, to, out: file });
    const isOwnKey = !given.key && given.keys === undefined;
    const keys = join(folder, 'keys.json');
    if (isOwnKey) writeFileSync(keys, await readPublishedKeys(connection));
    const trust = isOwnKey ? { ...given, keys } : given;
    await report(file, trust, { out, json, isOwnKey });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function readPublishedKeys(connection: Connection): Promise<string> {
  return (await callApi(connection, { method: 'GET', path: ['log', 'keys'] })).text;
}

interface Output {
  out: string;
  json: boolean;
  /** The key came from the gateway. */
  isOwnKey: boolean;
}

async function report(
  file: string,
  given: GivenTrust,
  { out, json, isOwnKey }: Output,
): Promise<void> {
  const trust = readTrust(given);
  const progress = new CountProgress(process.stderr, 'records verified');
  const summary = new RecordSummary();
  let signed = 0;
  const found = await verifyBundle(bundleLines(file), {
    trust,
    onRecord: ({ record, evidence }, of) => {
      summary.add(record, chargeTo(`tenant:${of}`, record));
      if (evidence.state === 'proven') signed++;
      progress.show(summary.records);
    },
  });
  progress.clear();
  if (!found.ok) throw new CommandFailure('failed', `the records cannot be believed: ${found.why}`);
  const { tenant, from, to, fromTime, toTime } = found;
  const verified = sayVerified(found, signed);
  const notVerified = sayNotVerified(found, { summary, signed, isOwnKey });
  const madeAt = `${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const page = renderAuditPage({
    ...{ tenant, from, to, fromTime, toTime, madeAt, verified, notVerified, summary },
  });
  writeOutput(out, page, { mode: 0o666, ifExists: 'replace' });
  const { records } = summary;
  if (json) printJson({ out, tenant, from, to, records, verified, notVerified });
  else print(`${out}: ${formatCount(records)} records of ${tenant}`);
}

/** As usage and costs have it: the same function names whom a record charged. */
function chargeTo(account: string, record: AuditRecord): Picodollars {
  const { cost, storageCost = '0' } = record as unknown as ChargedRecord;
  const isNone = [cost, storageCost].some((one) => parseUsd(String(one)) === undefined);
  const parts = isNone ? [] : partsOfRecord(record as unknown as ChargedRecord);
  return parts.reduce((sum, part) => (part.account === account ? sum + part.spend : sum), 0n);
}

function sayVerified({ records, tenant, from, to, checkpoint }: VerifiedBundle, signed: number) {
  const { origin, size, keyIds, witnesses } = checkpoint;
  const by = [...keyIds, ...witnesses.map(({ name }) => name)].join(', ');
  return [
    `Each of the ${formatCount(records)} records is what the log ${origin} has at its index.`,
    `No entry at the indexes ${from} to before ${to} that bears the pseudonym of ${tenant} lacks ` +
      'its record, but for those that are told below.',
    `The log had ${formatCount(size)} entries then, and its head was signed by ${by}.`,
    ...(signed > 0
      ? [`${formatCount(signed)} have a genuine signature by a key that only its owner has.`]
      : []),
  ];
}

function sayNotVerified(
  found: VerifiedBundle,
  { summary, signed, isOwnKey }: { summary: RecordSummary; signed: number; isOwnKey: boolean },
): string[] {
  const { checkpoint, erased, unexplained, altered } = found;
  const few = (all: readonly number[]) => all.slice(0, 20).join(', ');
  const unsigned = summary.records - signed;
  const said = [
    isOwnKey &&
      'The key that signed the log is the one that the gateway gave: give the key that you kept ' +
        'before (--key), or a gateway that made another log would not be noticed.',
    checkpoint.witnesses.length === 0 &&
      'That the gateway shows everybody the same log: no witness was demanded (--witness).',
    unsigned > 0 &&
      `That the people asked for it themselves: of ${formatCount(unsigned)} records there is no ` +
        'signature here that the gateway could not have made.',
    'That the times are right: they are those of the clock of the gateway, which never goes back.',
    'That the indexes are those of the time that was asked for: which they are, the gateway said.',
    erased > 0 && `${formatCount(erased)} records were erased, and are not on this page.`,
    unexplained.length > 0 && `No record here tells who erased ${few(unexplained)}.`,
    altered.length > 0 && `The gateway has no more what was logged at ${few(altered)}.`,
    'What operators of the gateway did in the tenant is in the records of their own tenant, and ' +
      'not on this page.',
    'That what was stored is still there: bursar verify data and verify deep look.',
  ];
  return said.filter((one): one is string => one !== false);
}
