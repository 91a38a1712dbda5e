// What `bursar verify` does without a gateway: for whoever holds a receipt, a log or a bundle.
import type { Command } from 'commander';
import { addVerifyBundleCommand } from './verify-bundle-command.ts';
import { addVerifyDeepCommand } from './verify-deep-command.ts';
import { addVerifyLogCommand } from './verify-log-command.ts';
import { addVerifyReceiptCommand } from './verify-receipt-command.ts';

/** Adds the commands to the group `verify`, which may have others already. */
export function addVerifyOfflineCommands(program: Command): void {
  const verify =
    program.commands.find((one) => one.name() === 'verify') ?? program.command('verify');
  addVerifyReceiptCommand(verify);
  addVerifyLogCommand(verify);
  addVerifyBundleCommand(verify);
  addVerifyDeepCommand(verify);
}
