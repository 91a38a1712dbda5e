#!/usr/bin/env node
// The `bursar` command. Exit codes: 0 done, 1 could not be done, 2 asked for wrongly; a failure is
// one line on stderr that says what to change.
import { readFileSync } from 'node:fs';
import { Command, CommanderError, Option } from 'commander';
import { addRecordsCommand, addUsageCommand } from './account-commands.ts';
import { type Flags, loadConfig } from './config.ts';
import { CommandFailure, messageOfFailure } from './failure.ts';
import {
  addGroupCommands,
  addKeyCommands,
  addPrincipalCommands,
  addTenantCommands,
} from './identity-commands.ts';
import { serve } from './serve.ts';
import { flagOf, type Setting, settings, variableOf } from './settings.ts';
import { addTokenCommands } from './token-commands.ts';

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
    addUsageCommand,
    addRecordsCommand,
  ]) {
    add(program);
  }
  for (const command of program.commands) if (command.name() !== 'serve') addClientFlags(command);
  // After that: these talk to no gateway.
  addTokenCommands(program);
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
  const hidden: Setting<unknown>[] = [];
  for (const [property, one] of Object.entries(settings) as [string, Setting<unknown>][]) {
    if (one.secret) {
      hidden.push(one);
      continue;
    }
    const fallback = one.default === undefined ? '' : ` (default: ${one.default})`;
    const names = `[${variableOf(one)}${one.notInFile ? '' : `, ${one.key}`}]`;
    const flags = `${flagOf(one)} <${one.placeholder}>`;
    const option = new Option(flags, `${one.description}${fallback} ${names}`);
    option.attributeName = () => property;
    command.addOption(property === 'domains' ? option.argParser(joinRepeated) : option);
  }
  const rows = hidden.map((one) => `  ${variableOf(one)}, ${one.key}: ${one.description}`);
  command
    .addHelpText('after', `\nIn the environment or the config file only:\n${rows.join('\n')}`)
    .addHelpText(
      'after',
      '\nA flag wins over [its variable], that over its key in the config file.',
    )
    .action((flags: Flags) => serve(loadConfig(flags)));
}

function joinRepeated(value: string, before: string | undefined): string {
  return before === undefined ? value : `${before},${value}`;
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

try {
  await makeProgram().parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error);
}
