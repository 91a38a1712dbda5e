// The commands for tokens that need no gateway: `bursar token issue|delegate|inspect`. Private keys
// stay here; no secret is an argument, since other users of the machine can read those.
import type { Command } from 'commander';
import { delegate } from '../authz/tokens/delegate.ts';
import { describeReport } from '../authz/tokens/describe.ts';
import { inspect } from '../authz/tokens/inspect.ts';
import { issueToken, type MadeToken } from '../authz/tokens/issue.ts';
import { type PublicKey, readPublicKey } from '../authz/tokens/keys.ts';
import { isObject } from '../authz/tokens/strict-json.ts';
import { isoTime, nowMs } from '../core/clock.ts';
import { Refusal } from '../core/errors.ts';
import { splitId } from './command-arguments.ts';
import { CommandFailure } from './failure.ts';
import { loadPrivateKey, readText, stdin } from './key-files.ts';
import { print, printable, printJson } from './output.ts';
import {
  addRestrictionFlags,
  collect,
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

/** What the library refuses is not a fault of the program. */
export function refusing<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof Refusal) throw new CommandFailure('failed', error.message, error);
    throw error;
  }
}

function printToken(made: MadeToken, asJson: boolean | undefined): void {
  const { token, id, expiresAtMs } = made;
  if (asJson) printJson({ token, jti: id, expiresAt: isoTime(expiresAtMs) });
  else print(token);
}

export function readToken(file: string | undefined): string {
  return readText(file ?? stdin).trim();
}

/** undefined: a bearer token was asked for. */
export function loadHolder({ to, bearer }: RestrictionFlags): PublicKey | undefined {
  if ((to === undefined) === !bearer) {
    throw new CommandFailure('usage', "say who may use it: --to FILE (its user's key) or --bearer");
  }
  if (to === undefined) return undefined;
  const [key] = loadPublicKeys(to);
  return key;
}

/** The keys of a JWK set or of a file with one public JWK. A set's other kinds are passed over. */
function loadPublicKeys(file: string): PublicKey[] {
  const value = parseJson(readText(file));
  const isSet = isObject(value) && Array.isArray(value.keys);
  const keys = (isSet ? (value.keys as unknown[]) : [value]).map((one) =>
    readPublicKey(isSet ? keyMembers(one) : one),
  );
  const found = keys.filter((key) => key !== undefined);
  if (found.length > 0) return found;
  throw new CommandFailure('failed', `${file} has no public key of Ed25519 or P-256, as JWK`);
}

/** The entries of a JWK set also have `kid`, `use` and `alg`. */
function keyMembers(value: unknown): unknown {
  if (!isObject(value)) return value;
  const { kid: _kid, use: _use, alg: _alg, ...members } = value;
  return members;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
