// The commands for tokens that need no gateway: `bursar token issue|delegate|inspect`. Private keys
// stay here; no secret is an argument, since other users of the machine can read those.
import type { Command } from 'commander';
import { readLinks } from '../authz/tokens/chain.ts';
import { delegate } from '../authz/tokens/delegate.ts';
import { describeReport, scopeWords } from '../authz/tokens/describe.ts';
import { inspect } from '../authz/tokens/inspect.ts';
import { issueToken, type MadeToken } from '../authz/tokens/issue.ts';
import { isoTime, nowMs } from '../core/clock.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import type { Meter } from '../core/quota-terms.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { callApi, listAll } from './api-client.ts';
import { type Columns, calling, printEntries } from './api-command.ts';
import { collect, connect, splitId } from './command-arguments.ts';
import { loadPrivateKey } from './key-files.ts';
import { showAmount, showRates } from './limit-commands.ts';
import { print, printJson } from './output.ts';
import { addSignRequest } from './sign-request-command.ts';
import { loadHolder, loadPublicKeys, readToken, refusing } from './token-files.ts';
import {
  addRestrictionFlags,
  noteMade,
  type RestrictionFlags,
  readExpiry,
  readLifetime,
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
  audience: string;
  expires: string;
  json?: boolean;
}

function addIssue(token: Command): void {
  const command = token
    .command('issue')
    .argument('<tenant/name>', 'you, in whose name it acts')
    .description('make a token with your own enrolled key; no gateway is asked')
    .requiredOption('--key <file>', 'your private key')
    .requiredOption('--audience <url>', "the gateway's URL")
    .requiredOption('--scope <scope>', 'such as storage.read:/bucket/prefix; repeatable', collect)
    .requiredOption('--expires <duration>', 'how long it is valid, such as 12h or 7d');
  addRestrictionFlags(command)
    .option('--json', 'answer with JSON')
    .action((subject: string, flags: IssueFlags) => {
      splitId(subject);
      const made = refusing(() =>
        issueToken({
          key: loadPrivateKey(flags.key),
          subject,
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

// `bursar token create|list|show|delete`: tokens that the gateway issues, those that it knows of,
// and their end.

export function addIssuedTokenCommands(program: Command): void {
  const token = program.command('token').description('tokens: what others may do in your name');
  addCreate(token);
  addList(token);
  addShow(token);
  addDelete(token);
}

interface CreateFlags extends RestrictionFlags {
  scope: string[];
  expires: string;
  label?: string;
}

function addCreate(token: Command): void {
  const command = token
    .command('create')
    .description('have the gateway issue a token in your name; it is shown only now')
    .requiredOption('--scope <scope>', 'such as storage.read:/bucket/prefix; repeatable', collect)
    .option('--expires <duration>', 'how long it is valid, such as 12h or 7d; at most 366d', '1h')
    .option('--label <text>', 'what to call it in lists');
  addRestrictionFlags(command).action(
    calling(
      (given: CreateFlags) => {
        readScope(given.scope);
        const holder = loadHolder(given);
        const { depthMax, conditions, limits } = readRestrictions(given, holder);
        const body = {
          scope: given.scope.join(' '),
          expiresIn: readLifetime(given.expires),
          ...(holder && { cnf: { jwk: holder.jwk } }),
          ...{ maxDepth: depthMax, conditions, limits, label: given.label },
        };
        return { method: 'POST', path: ['tokens'], body };
      },
      ({ token, jti, expiresAt }: Answers['CreateToken']) => {
        print(token);
        noteMade(jti, expiresAt);
      },
    ),
  );
}

type Token = Answers['GetToken'];

function addList(token: Command): void {
  token
    .command('list')
    .description('the tokens that were issued, or seen in use, each below the one it came from')
    .option('--principal <name>', 'of this principal only (alice or cms/alice)')
    .option('--all', 'also those that are revoked or expired')
    .action(async (given: { principal?: string; all?: boolean }, command: Command) => {
      const { connection, flags } = connect(command);
      const { principal } = given;
      const tokens = await listAll<Token>(connection, ['tokens'], 'tokens', { principal });
      const shown = given.all ? tokens : tokens.filter(({ state }) => state === 'valid');
      if (flags.json) return printJson(shown);
      if (flags.csv) printEntries(false, columns, null, shown);
      else for (const line of treeOf(shown)) print(printable(line));
    });
}

/** For --csv: a token a line. */
const columns: Columns<Token> = {
  heading: [
    ...['TOKEN', 'PARENT', 'LABEL', 'PRINCIPAL', 'SCOPE'],
    ...['STATE', 'USES', 'LAST USED', 'EXPIRES'],
  ],
  row: ({ jti, parent, label, principal, scope, state, uses, lastUsedAt, expiresAt }) => [
    ...[jti, parent ?? '', label ?? '', principal, scope ?? '', state, String(uses)],
    ...[lastUsedAt ?? '', expiresAt],
  ],
};

function addShow(token: Command): void {
  token
    .command('show <jti>')
    .description('a token that was issued, or seen in use, and what was used with it')
    .action(calling((jti: string) => ({ method: 'GET', path: ['tokens', jti] }), showToken));
}

function showToken(token: Token): void {
  for (const line of describe(token)) print(printable(line));
  const used = (meter: Meter) => showAmount(meter, token.used[meter]);
  const moved = `${used('ingressBytes')} received, ${used('egressBytes')} sent`;
  print(`  used: ${used('spend')}, ${used('requests')} requests, ${moved}`);
  print(`  added: ${used('storedBytes')} in ${used('storedObjects')} objects`);
}

/**
 * Lines of text: each token below the one it came from, or at the margin where that is not there.
 */
function treeOf(tokens: readonly Token[]): string[] {
  const known = new Set(tokens.map(({ jti }) => jti));
  const below = new Map<string | null, Token[]>();
  for (const one of tokens) {
    const parent = one.parent !== null && known.has(one.parent) ? one.parent : null;
    below.set(parent, [...(below.get(parent) ?? []), one]);
  }
  const linesOf = (parent: string | null): string[] =>
    (below.get(parent) ?? []).flatMap((one) => [
      ...describe(one),
      ...linesOf(one.jti).map((line) => `    ${line}`),
    ]);
  return linesOf(null);
}

const stateWords: Record<Token['state'], string> = {
  valid: '',
  expired: ', EXPIRED',
  revoked: ', REVOKED',
  inactive: ', REFUSED: its principal or the key that signed it is switched off',
};

function describe(token: Token): string[] {
  const { jti, label, principal, scope, boundTo, state, uses, lastUsedAt } = token;
  const origin = token.issued ? 'issued here' : 'made elsewhere';
  const used = lastUsedAt === null ? 'never used' : `last used ${lastUsedAt}, ${timesOf(uses)}`;
  const holder = boundTo === null ? 'whoever bears it' : `who proves the key ${boundTo}`;
  const words = scope === null ? [`do what ${principal} may`] : scopeWords(scope);
  const caps = token.caps.map(({ meter, window, limit, used, left }) => {
    const [most, sum, rest] = [limit, used, left].map((amount) => showAmount(meter, amount, limit));
    return `  ${meter} ${window}: ${rest} left of ${most}, ${sum} used`;
  });
  return [
    `${jti}${label === null ? '' : `  "${label}"`}`,
    `  for ${principal}, ${origin}; usable by ${holder}`,
    ...words.map((one) => `  may ${one}`),
    ...caps,
    ...showRates(token.limits).map((most) => `  at most ${most} a second`),
    `  until ${token.expiresAt}${stateWords[state]}; ${used}`,
  ];
}

function timesOf(uses: number): string {
  return uses === 1 ? 'once' : `${uses} times`;
}

function addDelete(token: Command): void {
  token
    .command('delete')
    .argument('[jti]', 'id of the token, as `bursar token list` shows it')
    .description('refuse a token from now on, with all that was made from it')
    .option('--token-file <file>', 'the token itself, instead of its id (-: standard input)')
    .action(async (jti: string | undefined, given: { tokenFile?: string }, command: Command) => {
      if ((jti === undefined) === (given.tokenFile === undefined)) {
        throw new CommandFailure('usage', 'say which token: its id or --token-file FILE');
      }
      const { connection } = connect(command);
      const id = jti ?? idOf(readToken(given.tokenFile));
      await callApi(connection, { method: 'DELETE', path: ['tokens', id] });
    });
}

/** The `jti` of a token's last link. Throws CommandFailure. */
function idOf(token: string): string {
  const links = refusing(() => readLinks(token));
  return (links.at(-1) as (typeof links)[number]).link.id;
}
