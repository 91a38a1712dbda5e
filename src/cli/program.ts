// How `bursar` runs, in a checkout and where only the client is installed. Exit codes: 0 done, 1
// could not be done, 2 asked for wrongly; a failure is one line on stderr that says what to change,
// and with --json a document on stdout as well.
import { Command, CommanderError } from 'commander';
import { CommandFailure, Mistakes, messageOfFailure } from '../core/command-failure.ts';
import { readVersion } from '../core/version.ts';
import { ApiRefusal, S3Refusal, Unreachable } from './api-client.ts';
import { reword } from './old-words.ts';
import { chooseForm, type FailureDocument, print, printFailure } from './output.ts';
import { checkRange } from './times.ts';

/** Adds to a program the command that a word names, or all that there are. */
type AddCommands = (program: Command, word: string | undefined) => Promise<void>;

async function makeProgram(addCommands: AddCommands, word: string | undefined): Promise<Command> {
  const program = new Command('bursar')
    .description('The command of Bursar, a secure multi-tenant S3 gateway.')
    .version(readVersion())
    .exitOverride()
    // What is wrong is told by `fail`, which knows the usage as well.
    .configureOutput({ outputError: () => {} })
    .addHelpText('after', clientHelp)
    .hook('preAction', (_, command) => {
      chooseForm(command.optsWithGlobals());
      checkRange(command.optsWithGlobals());
    });
  await addCommands(program, word);
  return program;
}

const introduction = `bursar: what people do most

  who am I here, and at which gateway?     bursar whoami
  let somebody read a part of my bucket    bursar token create --bearer --expires 1h \\
                                             --scope storage.read:/BUCKET/PREFIX
  send somebody a link to an object        bursar share create s3://BUCKET/KEY
  what did I use, and what is left?        bursar usage; bursar limit show principal:TENANT/NAME
  what happened to my data?                bursar records --bucket BUCKET

bursar --help lists all commands, and bursar COMMAND --help tells more of one.`;

const clientHelp = `
Commands find the gateway and your keys by BURSAR_ENDPOINT, BURSAR_ACCESS_KEY_ID and
BURSAR_SECRET_ACCESS_KEY; by AWS_PROFILE and all else that the AWS CLI knows; by the profile
"bursar" (--profile, BURSAR_PROFILE) of ./bursar-data/credentials (--credentials,
BURSAR_CREDENTIALS); or by the profile "default" in ~/.aws. An AWS profile needs the gateway's
endpoint_url.

With --json an answer is one JSON document, and so is a failure: {"error": {"code", "message", …}}.
Exit codes: 0 it is done, 1 it could not be done (or what was verified is not so), 2 it was asked
for wrongly, and nothing was done.`;

function oneLine(text: string): string {
  return text
    .trim()
    .replace(/^error: /, '')
    .replaceAll(/\s*\n\s*/g, ' ');
}

/** What commander says is wrong, in words of a command line, and how it is asked for. */
function usageMessage({ code, message }: CommanderError, command: Command): string {
  const said = oneLine(message).replace(
    /^command-argument value '(.*)' is invalid for argument '(.*?)'\./s,
    "argument '$2' is invalid: '$1'.",
  );
  const path = pathOf(command);
  if (code === 'commander.excessArguments' || code === 'commander.missingArgument') {
    return `${said} (${[path, command.usage()].join(' ')})`;
  }
  const isUnknown = code === 'commander.unknownOption' || code === 'commander.unknownCommand';
  const isLost = isUnknown && !said.includes('Did you mean');
  return isLost ? `${said} (${path} --help lists all)` : said;
}

/** What the gateway says of a part of a request, of which commands have flags and arguments. */
function refusalMessage({ reason, field }: ApiRefusal, asked: Command | undefined): string {
  const [, member = ''] = field?.split('.') ?? [];
  if (member === '' || !reason.startsWith(member)) return reason;
  // A value that is told says itself what it is about.
  const [, told] = /^[\w.]+: (".*)$/s.exec(reason) ?? [];
  if (told !== undefined) return told;
  const attribute = member.replace(/(?:s|In)$/, '');
  const flag = asked?.options.find((one) => [member, attribute].includes(one.attributeName()));
  return `${flag?.long ?? member}${reason.slice(member.length)}`;
}

function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}

/** The command that words lead to. */
function commandAt(command: Command, [word, ...rest]: readonly string[]): Command {
  const next = command.commands.find((one) => one.name() === word);
  return next ? commandAt(next, rest) : command;
}

/** Tells what was thrown, and gives the exit code. `asked`: the command that was called. */
function fail(error: unknown, asked: Command | undefined): number {
  const failure = failureOf(error, asked);
  if (failure === null) return 0;
  printFailure(failure);
  return failure.exitCode;
}

/** null: it is none. */
function failureOf(error: unknown, asked: Command | undefined): FailureDocument | null {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return null;
    const message = asked ? usageMessage(error, asked) : oneLine(error.message);
    // The help of a command that has others is on stderr already.
    if (error.code !== 'commander.help') process.stderr.write(`bursar: ${message}\n`);
    return { code: 'UsageError', message, exitCode: 2 };
  }
  if (error instanceof Mistakes) {
    const { all, exitCode } = error;
    for (const one of all) process.stderr.write(`bursar: ${one}\n`);
    return { code: 'UsageError', message: all.join('; '), exitCode };
  }
  if (error instanceof CommandFailure) {
    const { exitCode } = error;
    if (error instanceof ApiRefusal && error.field !== null) {
      const { code, status, requestId } = error;
      const message = refusalMessage(error, asked);
      process.stderr.write(`bursar: ${messageOfFailure(message)} (${code})\n`);
      return { code, message, exitCode, status, requestId };
    }
    const message = messageOfFailure(error);
    process.stderr.write(`bursar: ${message}\n`);
    if (error instanceof ApiRefusal) {
      const { code, reason, status, requestId } = error;
      return { code, message: reason, exitCode, status, requestId };
    }
    if (error instanceof S3Refusal && error.code !== '') {
      const { code, reason, status } = error;
      return { code, message: reason, exitCode, status };
    }
    const code = error instanceof Unreachable ? 'Unreachable' : 'CommandFailed';
    return { code: exitCode === 2 ? 'UsageError' : code, message, exitCode };
  }
  process.stderr.write(`bursar: ${error instanceof Error ? error.stack : String(error)}\n`);
  return { code: 'InternalError', message: messageOfFailure(error), exitCode: 1 };
}

/** Runs the command that the command line names, and sets the exit code. */
export async function run(addCommands: AddCommands): Promise<void> {
  // A reader that stops reading, such as `head`, has what it wants. A gateway goes on serving.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    if (process.argv[2] !== 'serve') process.exit();
  });
  const { words, notes } = reword(process.argv.slice(2));
  for (const note of notes) process.stderr.write(`bursar: ${note}\n`);
  // Also known before the arguments are, of which there may be an error to tell.
  chooseForm({ json: words.includes('--json') });
  let program: Command | undefined;
  try {
    if (words.length === 0) print(introduction);
    else {
      // What can be completed is all that there is.
      const word = words[0] === 'completion' ? undefined : words[0];
      program = await makeProgram(addCommands, word);
      await program.parseAsync(words, { from: 'user' });
    }
  } catch (error) {
    process.exitCode = fail(error, program && commandAt(program, words));
  }
}
