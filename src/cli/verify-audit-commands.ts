// `bursar verify log`: whether a log, as files or over HTTP, is what its checkpoint says, and
// begins with what was seen of it before. Invariant: nothing is written but the checkpoint to keep,
// whole, and only after all else was found true.
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { type VerifiedBundle, verifyBundle } from '../audit/bundle.ts';
import type { Checkpoint } from '../audit/log/checkpoint.ts';
import { verifyLog } from '../audit/verify/log.ts';
import { openLogSource, SourceFailure } from '../audit/verify/log-source.ts';
import { type EvidenceState, whyNotEnrolment } from '../audit/verify/proven-evidence.ts';
import { type VerifiedReceipt, verifyReceipt } from '../audit/verify/receipt.ts';
import {
  type SignedCheckpoint,
  type Trust,
  verifyCheckpoint,
} from '../audit/verify/signed-checkpoint.ts';
import { describeReceipt, type Statement } from '../audit/verify/statement.ts';
import { CommandFailure, orFail } from '../core/command-failure.ts';
import { writeFileDurably } from '../core/durable-file.ts';
import { printable } from '../core/printable.ts';
import { type GivenTrust, readGivenFile, readTrust } from '../server/folder/given-trust.ts';
import { bundleLines } from './bundle-file.ts';
import { addTrustFlags, collect } from './command-arguments.ts';
import { print, printJson } from './output.ts';
import { CountProgress, formatCount } from './progress.ts';

interface LogFlags extends GivenTrust {
  since?: string[];
  keep?: string;
  json?: boolean;
}

/** Adds the command to the group `verify`. */
export function addVerifyLogCommand(verify: Command): void {
  const command = verify
    .command('log')
    .argument('<dir-or-url>', 'an exported log, or one such as https://bursar.example/_/log')
    .description('verify a whole log, with its tiles and entries; exit code 1 when it is not true');
  addTrustFlags(command)
    .option('--since <file>', 'a checkpoint that you kept: the log must extend it', collect)
    .option('--keep <file>', 'keep the checkpoint here; one that is there already is a --since')
    .option('--json', 'answer with JSON')
    .action((place: string, flags: LogFlags) => verifyPlace(place, flags));
}

async function verifyPlace(place: string, flags: LogFlags): Promise<void> {
  const trust = readTrust(flags);
  const files = [...(flags.since ?? [])];
  if (flags.keep !== undefined && existsSync(flags.keep)) files.push(flags.keep);
  const kept = files.map((file) => readKept(file, trust));
  const progress = new CountProgress(process.stderr, 'entries verified');
  const findings: string[] = [];
  const found = await refusing(() =>
    verifyLog(openLogSource(place), {
      ...{ trust, kept },
      onProgress: (entries) => progress.show(entries),
      onFinding: (finding) => {
        progress.clear();
        findings.push(finding);
        if (!flags.json) print(printable(finding));
      },
    }),
  );
  progress.clear();
  if (!found.ok) {
    if (flags.json) printJson({ ...found, findings });
    throw new CommandFailure('failed', `${place}: ${found.why}`);
  }
  if (flags.keep !== undefined) keep(flags.keep, found.note);
  conclude(found, kept, flags.json === true);
}

function conclude(found: SignedCheckpoint, kept: readonly Checkpoint[], asJson: boolean): void {
  const { origin, size, root, keyIds, witnesses } = found;
  if (asJson) {
    const since = kept.map((one) => one.size);
    printJson({ ok: true, origin, size, root: root.toString('base64'), keyIds, witnesses, since });
    return;
  }
  const by = [...keyIds, ...witnesses.map(({ name }) => name)].join(', ');
  print(`${formatCount(size)} entries of ${origin}, all as they were signed (${by})`);
  for (const one of kept) print(`it begins with the ${formatCount(one.size)} entries of before`);
  if (kept.length > 0) return;
  print('nothing was compared with before: keep its checkpoint (--keep) for the next time');
}

/** What was kept counts even if its key was revoked since: it is the verifier's own. */
function readKept(file: string, { keys, revoked = [] }: Trust): Checkpoint {
  const found = verifyCheckpoint(readGivenFile(file), { keys: [...keys, ...revoked] });
  if (found.ok) return found;
  throw new CommandFailure('failed', `${file}: ${found.why}`);
}

function keep(file: string, note: string): void {
  orFail('failed', 'cannot keep the checkpoint: ', () =>
    writeFileDurably(file, note, { mode: 0o644, ifExists: 'replace' }),
  );
}

async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SourceFailure) throw new CommandFailure('failed', error.message, error);
    throw error;
  }
}

// `bursar verify receipt`: what a receipt proves, without a gateway and without a network.

interface ReceiptFlags extends GivenTrust {
  enrolment?: string;
  json?: boolean;
}

/** Adds the command to the group `verify`. */
export function addVerifyReceiptCommand(verify: Command): void {
  const command = verify
    .command('receipt')
    .argument('<file>')
    .description('say what a receipt proves; exit code 1 when it proves nothing. Asks no gateway');
  addTrustFlags(command)
    .option('--enrolment <file>', "the receipt of the enrolment of the client's key")
    .option('--json', 'answer with JSON')
    .action((file: string, flags: ReceiptFlags) => {
      const trust = readTrust(flags);
      const found = verifyReceipt(readGivenFile(file), trust);
      if (!found.ok) fail(flags, `${file} proves nothing: ${found.why}`);
      const why = flags.enrolment === undefined ? null : whyNot(flags.enrolment, found, trust);
      if (why !== null) fail(flags, `${flags.enrolment}: ${why}`);
      showReceipt(found, flags);
    });
}

function fail({ json }: ReceiptFlags, why: string): never {
  if (json) printJson({ ok: false, why });
  throw new CommandFailure('failed', why);
}

/** Why the other receipt does not show whose key signed; null: it does. */
function whyNot(file: string, { evidence, record, checkpoint }: VerifiedReceipt, trust: Trust) {
  if (evidence.state !== 'proven' || !evidence.owner) {
    return 'the receipt proves no signature by an enrolled key';
  }
  const enrolment = verifyReceipt(readGivenFile(file), trust);
  if (!enrolment.ok) return enrolment.why;
  const { origin } = enrolment.checkpoint;
  if (origin !== checkpoint.origin) return `it is of another log, ${origin}`;
  return whyNotEnrolment(enrolment, evidence.owner, record);
}

function showReceipt(found: VerifiedReceipt, { enrolment, json }: ReceiptFlags): void {
  const statement = describeReceipt(found, enrolment !== undefined);
  if (json) {
    printJson(receiptJson(found, statement));
    return;
  }
  print(printable(statement.proves));
  print(printable(statement.provesNot));
  for (const [member, value] of Object.entries(found.record)) {
    print(printable(`  ${member}: ${typeof value === 'string' ? value : JSON.stringify(value)}`));
  }
}

function receiptJson(found: VerifiedReceipt, statement: Statement): object {
  const { index, record, checkpoint, evidence } = found;
  const { origin, size, root, keyIds, witnesses } = checkpoint;
  return {
    ok: true,
    ...statement,
    index,
    record,
    evidence: evidence.state,
    enrolledKey: evidence.state === 'proven' ? evidence.owner : null,
    checkpoint: { origin, size, root: root.toString('base64'), keyIds, witnesses },
  };
}

// `bursar verify bundle`: whether the records of a tenant that were handed out are true, and all
// that there are in their range of the log. Without a gateway and without a network; memory does
// not grow with the file.

interface BundleFlags extends GivenTrust {
  json?: boolean;
}

/** How many records have evidence in each of these states. */
type EvidenceCounts = Record<EvidenceState['state'], number>;

/** Adds the command to the group `verify`. */
export function addVerifyBundleCommand(verify: Command): void {
  const command = verify
    .command('bundle')
    .argument('<file>', 'what "bursar audit export" wrote')
    .description('verify that records are true and none is missing; exit code 1 when not so');
  addTrustFlags(command)
    .option('--json', 'answer with JSON')
    .action((file: string, flags: BundleFlags) => verifyFile(file, flags));
}

async function verifyFile(file: string, flags: BundleFlags): Promise<void> {
  const trust = readTrust(flags);
  const progress = new CountProgress(process.stderr, 'records verified');
  const counts: EvidenceCounts = { none: 0, missing: 0, unproven: 0, proven: 0 };
  let records = 0;
  const found = await verifyBundle(bundleLines(file), {
    trust,
    onRecord: ({ evidence }) => {
      counts[evidence.state] += 1;
      records += 1;
      progress.show(records);
    },
  });
  progress.clear();
  if (!found.ok) {
    if (flags.json) printJson({ ok: false, findings: [found.why] });
    else print(printable(found.why));
    throw new CommandFailure('failed', `${file} is not to be believed`);
  }
  if (flags.json) printJson(bundleJson(found, counts));
  else showBundle(found, counts);
  if (found.altered.length === 0) return;
  throw new CommandFailure('failed', `${file} lacks records that the gateway has no more`);
}

function showBundle(found: VerifiedBundle, counts: EvidenceCounts): void {
  const { tenant, from, to, records, erased, unexplained, altered, checkpoint } = found;
  const by = [...checkpoint.keyIds, ...checkpoint.witnesses.map(({ name }) => name)].join(', ');
  const range = `log indexes ${from} to before ${to} of ${checkpoint.origin}`;
  print(printable(`all ${formatCount(records)} records of ${tenant}, ${range}, signed by ${by}`));
  if (erased > 0) print(`besides, ${formatCount(erased)} were erased`);
  if (unexplained.length > 0) {
    print(`no record here tells who erased ${unexplained.slice(0, 20).join(', ')}`);
  }
  if (altered.length > 0) {
    print(`the gateway has no more what was logged at ${altered.slice(0, 20).join(', ')}`);
  }
  const { proven, missing, unproven } = counts;
  const signed = `${formatCount(proven)} with a genuine signature of the client`;
  print(`${signed}, ${formatCount(missing + unproven)} whose signature is not here`);
}

function bundleJson(
  { pseudonym, fromTime, toTime, checkpoint, ...found }: VerifiedBundle,
  evidence: EvidenceCounts,
): object {
  const { origin, size, root, keyIds, witnesses } = checkpoint;
  return {
    ...found,
    ...{ findings: [], pseudonym, fromTime, toTime, evidence },
    checkpoint: { origin, size, root: root.toString('base64'), keyIds, witnesses },
  };
}
