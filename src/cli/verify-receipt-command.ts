// `bursar verify receipt`: what a receipt proves, without a gateway and without a network.
import type { Command } from 'commander';
import { type VerifiedReceipt, verifyReceipt } from '../audit/verify/receipt.ts';
import { describeReceipt } from '../audit/verify/statement.ts';
import { CommandFailure } from './failure.ts';
import { print, printable, printJson } from './output.ts';
import { addTrustFlags, readGivenFile, readTrust, type TrustFlags } from './verify-trust.ts';

/** Adds the command to the group `verify`. */
export function addVerifyReceiptCommand(verify: Command): void {
  const command = verify
    .command('receipt')
    .argument('<file>')
    .description('say what a receipt proves; exit code 1 when it proves nothing. Asks no gateway');
  addTrustFlags(command)
    .option('--json', 'answer with JSON')
    .action((file: string, flags: TrustFlags & { json?: boolean }) => {
      const trust = readTrust(flags);
      const found = verifyReceipt(readGivenFile(file), trust);
      if (flags.json) printJson(found.ok ? jsonOf(found) : found);
      if (!found.ok) throw new CommandFailure('failed', `${file} proves nothing: ${found.why}`);
      if (!flags.json) show(found);
    });
}

function show(found: VerifiedReceipt): void {
  const { proves, provesNot } = describeReceipt(found);
  print(printable(proves));
  print(printable(provesNot));
  for (const [member, value] of Object.entries(found.record)) {
    print(printable(`  ${member}: ${typeof value === 'string' ? value : JSON.stringify(value)}`));
  }
}

function jsonOf(found: VerifiedReceipt): object {
  const { index, record, checkpoint } = found;
  const { origin, size, root, keyIds, witnesses } = checkpoint;
  return {
    ok: true,
    ...describeReceipt(found),
    index,
    record,
    checkpoint: { origin, size, root: root.toString('base64'), keyIds, witnesses },
  };
}
