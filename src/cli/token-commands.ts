// The commands for tokens that need no gateway: `bursar token issue|delegate|inspect`. Private keys
// stay here; no secret is an argument, since other users of the machine can read those.
import type { Command } from 'commander';
import { delegate } from '../authz/tokens/delegate.ts';
import { describeReport } from '../authz/tokens/describe.ts';
import { inspect } from '../authz/tokens/inspect.ts';
import { issueToken, type MadeToken } from '../authz/tokens/issue.ts';
import { isoTime, nowMs } from '../core/clock.ts';
import { printable } from '../core/printable.ts';
import { collect, splitId } from './command-arguments.ts';
import { loadPrivateKey } from './key-files.ts';
import { print, printJson } from './output.ts';
import { addSignRequest } from './sign-request-command.ts';
import { loadHolder, loadPublicKeys, readToken, refusing } from './token-files.ts';
import {
  addRestrictionFlags,
  type RestrictionFlags,
  readExpiry,
  readRestrictions,
  readScope,
} from './token-restrictions.ts';

const fileHelp = 'file with the token (default: standard input)';

/** Adds the commands to the group `token`, which may have others already. */
export function addTokenCommands(program: Command): void {
  const found = program.commands.find((one) => one.name() === 'token');
  const token =
    found ?? program.command('token').description('tokens: what others may do in your name');
  addIssue(token);
  addDelegate(token);
  addInspect(token);
  addSignRequest(token);
}

interface IssueFlags extends RestrictionFlags {
  key: string;
  principal: string;
  audience: string;
  expires: string;
  json?: boolean;
}

function addIssue(token: Command): void {
  const command = token
    .command('issue')
    .description('make a token with your own enrolled key; no gateway is asked')
    .requiredOption('--key <file>', 'your private key')
    .requiredOption('--principal <tenant/name>', 'you, in whose name it acts')
    .requiredOption('--audience <url>', "the gateway's URL")
    .requiredOption('--scope <scope>', 'such as storage.read:/bucket/prefix; repeatable', collect)
    .requiredOption('--expires <duration>', 'how long it is valid, such as 12h or 7d');
  addRestrictionFlags(command)
    .option('--json', 'answer with JSON')
    .action((flags: IssueFlags) => {
      splitId(flags.principal);
      const made = refusing(() =>
        issueToken({
          key: loadPrivateKey(flags.key),
          subject: flags.principal,
          audience: flags.audience,
          scope: readScope(flags.scope),
          expiresAtMs: readExpiry(flags.expires),
          nowMs: nowMs(),
          ...readRestrictions(flags, loadHolder(flags)),
        }),
      );
      printToken(made, flags.json);
    });
}

interface DelegateFlags extends RestrictionFlags {
  key: string;
  expires?: string;
  json?: boolean;
}

function addDelegate(token: Command): void {
  const command = token
    .command('delegate')
    .argument('[file]', fileHelp)
    .description('shrink a token for somebody else; no gateway is asked')
    .requiredOption('--key <file>', 'the private key that the token is bound to')
    .option(
      '--scope <scope>',
      "part of the token's scope (default: all of it); repeatable",
      collect,
    )
    .option('--expires <duration>', "how long it is valid, such as 1h (default: the token's)");
  addRestrictionFlags(command)
    .option('--json', 'answer with JSON')
    .action((file: string | undefined, flags: DelegateFlags) => {
      const made = refusing(() =>
        delegate(readToken(file), {
          key: loadPrivateKey(flags.key),
          scope: flags.scope && readScope(flags.scope),
          expiresAtMs: flags.expires === undefined ? undefined : readExpiry(flags.expires),
          nowMs: nowMs(),
          ...readRestrictions(flags, loadHolder(flags)),
        }),
      );
      printToken(made, flags.json);
    });
}

function addInspect(token: Command): void {
  token
    .command('inspect')
    .argument('[file]', fileHelp)
    .description('show what a token allows, link by link; no gateway is asked')
    .option('--jwks <file>', "the gateway's /.well-known/jwks.json, or a public key: checks link 0")
    .option('--json', 'answer with JSON')
    .action((file: string | undefined, flags: { jwks?: string; json?: boolean }) => {
      const issuerKeys = flags.jwks === undefined ? [] : loadPublicKeys(flags.jwks);
      const report = refusing(() => inspect(readToken(file), { nowMs: nowMs(), issuerKeys }));
      if (flags.json) return printJson(report);
      for (const line of describeReport(report)) print(printable(line));
    });
}

function printToken(made: MadeToken, asJson: boolean | undefined): void {
  const { token, id, expiresAtMs } = made;
  if (asJson) printJson({ token, jti: id, expiresAt: isoTime(expiresAtMs) });
  else print(token);
}
