// `bursar verify receipt`: what a receipt proves, without a gateway and without a network.
import type { Command } from 'commander';
import { whyNotEnrolment } from '../audit/verify/proven-evidence.ts';
import { type VerifiedReceipt, verifyReceipt } from '../audit/verify/receipt.ts';
import type { Trust } from '../audit/verify/signed-checkpoint.ts';
import { describeReceipt, type Statement } from '../audit/verify/statement.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import { type GivenTrust, readGivenFile, readTrust } from '../server/folder/given-trust.ts';
import { addTrustFlags } from './command-arguments.ts';
import { print, printJson } from './output.ts';

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
      show(found, flags);
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

function show(found: VerifiedReceipt, { enrolment, json }: ReceiptFlags): void {
  const statement = describeReceipt(found, enrolment !== undefined);
  if (json) {
    printJson(jsonOf(found, statement));
    return;
  }
  print(printable(statement.proves));
  print(printable(statement.provesNot));
  for (const [member, value] of Object.entries(found.record)) {
    print(printable(`  ${member}: ${typeof value === 'string' ? value : JSON.stringify(value)}`));
  }
}

function jsonOf(found: VerifiedReceipt, statement: Statement): object {
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
