#!/usr/bin/env node
// The `bursar` command. Exit codes: 0 done, 1 could not be done, 2 asked for wrongly; a failure is
// one line on stderr that says what to change.
import { Command, CommanderError } from 'commander';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { readVersion } from '../core/version.ts';
import { quietenSdk } from '../server/settings/config.ts';
import { addCommands } from './command-table.ts';

async function makeProgram(): Promise<Command> {
  const program = new Command('bursar')
    .description('A secure multi-tenant S3 gateway: serve, and administer over HTTP.')
    .version(readVersion())
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(`bursar: ${oneLine(text)}\n`) })
    .addHelpText('after', clientHelp);
  await addCommands(program, process.argv[2]);
  return program;
}

const clientHelp = `
Administration commands find the gateway by BURSAR_ENDPOINT, BURSAR_ACCESS_KEY_ID and
BURSAR_SECRET_ACCESS_KEY, else by the profile "bursar" (--profile, BURSAR_PROFILE) of
./bursar-data/credentials (--credentials, BURSAR_CREDENTIALS).`;

function oneLine(text: string): string {
  return text
    .trim()
    .replace(/^error: /, '')
    .replaceAll(/\s*\n\s*/g, ' ');
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) {
    // Commander has printed its message already; help and version are no failures.
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
// A reader that stops reading, such as `head`, has what it wants. A gateway goes on serving.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  if (process.argv[2] !== 'serve') process.exit();
});
try {
  await (await makeProgram()).parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error);
}
