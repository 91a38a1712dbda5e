#!/usr/bin/env node
// The `bursar` command. Exit codes: 0 done, 1 could not be done, 2 asked for wrongly; a failure is
// one line on stderr that says what to change.
import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { addAlarmCommands } from './alarm-commands.ts';
import { addAuditCommands } from './audit-commands.ts';
import { addBucketCommands } from './bucket-commands.ts';
import { type Flags, loadConfig, quietenSdk } from './config.ts';
import { addCostCommand } from './cost-command.ts';
import { addCostExampleCommand } from './cost-example-command.ts';
import { addCredentialsCommand } from './credentials-command.ts';
import { addExplainCommands } from './explain-commands.ts';
import { CommandFailure, messageOfFailure } from './failure.ts';
import { addGrantCommands } from './grant-commands.ts';
import { addGroupCommands, addPrincipalCommands, addTenantCommands } from './identity-commands.ts';
import { addIssuedTokenCommands } from './issued-token-commands.ts';
import { addIssuerCommands } from './issuer-commands.ts';
import { addKeyCommands } from './key-commands.ts';
import { addRootKeyCommands } from './keys-commands.ts';
import { addLimitCommands } from './limit-commands.ts';
import { addLogCommands } from './log-commands.ts';
import { addLogForkCommands } from './log-fork-commands.ts';
import { addMountCommands } from './mount-commands.ts';
import { addOwnKeyCommands } from './own-key-commands.ts';
import { addPriceCommands } from './price-commands.ts';
import { addRebuildCommand } from './rebuild-command.ts';
import { addReceiptCommands } from './receipt-command.ts';
import { addRecordsCommand } from './records-command.ts';
import { addSettingFlags } from './setting-flags.ts';
import { addShareCommands } from './share-command.ts';
import { addStoreCommands } from './store-commands.ts';
import { addTokenCommands } from './token-commands.ts';
import { addUsageCommand } from './usage-command.ts';
import { addVerifyCommands } from './verify-commands.ts';
import { addVerifyOfflineCommands } from './verify-offline-commands.ts';

function readVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

function makeProgram(): Command {
  const program = new Command('bursar')
    .description('A secure multi-tenant S3 gateway: serve, and administer over HTTP.')
    .version(readVersion())
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(`bursar: ${oneLine(text)}\n`) })
    .addHelpText('after', clientHelp);
  addServeCommand(program);
  for (const add of [
    addTenantCommands,
    addPrincipalCommands,
    addGroupCommands,
    addKeyCommands,
    addIssuedTokenCommands,
    addGrantCommands,
    addMountCommands,
    addBucketCommands,
    addExplainCommands,
    addIssuerCommands,
    addShareCommands,
    addRootKeyCommands,
    addStoreCommands,
    addLimitCommands,
    addUsageCommand,
    addAlarmCommands,
    addRecordsCommand,
    addAuditCommands,
    addReceiptCommands,
    addLogCommands,
    addCostCommand,
    addVerifyCommands,
  ]) {
    add(program);
  }
  for (const command of program.commands) if (command.name() !== 'serve') addClientFlags(command);
  // These need no gateway: there is none while its database is lost or not what was signed.
  addRebuildCommand(program);
  addLogForkCommands(program);
  // After that: these talk to no gateway.
  addPriceCommands(program);
  addCostExampleCommand(program);
  addOwnKeyCommands(program);
  addTokenCommands(program);
  addCredentialsCommand(program);
  addVerifyOfflineCommands(program);
  return program;
}

const clientHelp = `
Administration commands find the gateway by BURSAR_ENDPOINT, BURSAR_ACCESS_KEY_ID and
BURSAR_SECRET_ACCESS_KEY, else by the profile "bursar" (--profile, BURSAR_PROFILE) of
./bursar-data/credentials (--credentials, BURSAR_CREDENTIALS).`;

/** Adds the flags that lead to a gateway to each command that does something. */
function addClientFlags(command: Command): void {
  if (command.commands.length > 0) {
    for (const one of command.commands) addClientFlags(one);
    return;
  }
  command
    .option('--json', 'answer with JSON')
    .option('--endpoint <url>', 'gateway to talk to')
    .option('--credentials <file>', 'credentials file')
    .option('--profile <name>', 'profile in the credentials file');
}

function addServeCommand(program: Command): void {
  const command = program.command('serve').description('run the gateway');
  addSettingFlags(command).action(async (flags: Flags) => {
    const config = loadConfig(flags);
    // The gateway takes longer to load than all else that the other commands do.
    const { serve } = await import('./serve.ts');
    await serve(config);
  });
}

function oneLine(text: string): string {
  return text
    .trim()
    .replace(/^error: /, '')
    .replaceAll(/\s*\n\s*/g, ' ');
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) {
    // Commander has written its message; help and version are no failures.
    return error.exitCode === 0 || error.code === 'commander.help' ? error.exitCode && 2 : 2;
  }
  if (error instanceof CommandFailure) {
    process.stderr.write(`bursar: ${messageOfFailure(error)}\n`);
    return error.exitCode;
  }
  process.stderr.write(`bursar: ${error instanceof Error ? error.stack : String(error)}\n`);
  return 1;
}

quietenSdk();
// Whoever stops reading, as `head` does, has what they wanted. A gateway goes on serving.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  if (process.argv[2] !== 'serve') process.exit();
});
try {
  await makeProgram().parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error);
}
