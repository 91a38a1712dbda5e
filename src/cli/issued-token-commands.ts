// `bursar token create|list|revoke`: tokens that the gateway issues, those that it knows of, and
// their end. What is made without it is in token-commands.ts.
import type { Command } from 'commander';
import { readLinks } from '../authz/tokens/chain.ts';
import { scopeWords } from '../authz/tokens/describe.ts';
import { nowMs } from '../core/clock.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import type { Meter } from '../core/quota-terms.ts';
import { callApi, listAll } from './api-client.ts';
import { calling } from './api-command.ts';
import type { Answers } from './api-types.ts';
import { collect, connect } from './command-arguments.ts';
import { showAmount, showRates } from './limit-commands.ts';
import { print, printJson } from './output.ts';
import { loadHolder, readToken, refusing } from './token-files.ts';
import {
  addRestrictionFlags,
  type RestrictionFlags,
  readExpiry,
  readRestrictions,
  readScope,
} from './token-restrictions.ts';

export function addIssuedTokenCommands(program: Command): void {
  const token = program.command('token').description('tokens: what others may do in your name');
  addCreate(token);
  addList(token);
  addShow(token);
  addRevoke(token);
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
    .option('--expires <duration>', 'how long it is valid, such as 12h or 7d', '1h')
    .option('--label <text>', 'what to call it in lists');
  addRestrictionFlags(command).action(
    calling(
      (given: CreateFlags) => {
        readScope(given.scope);
        const holder = loadHolder(given);
        const { depthMax, conditions, limits } = readRestrictions(given, holder);
        const body = {
          scope: given.scope.join(' '),
          expiresIn: Math.round((readExpiry(given.expires) - nowMs()) / 1000),
          ...(holder && { cnf: { jwk: holder.jwk } }),
          ...{ maxDepth: depthMax, conditions, limits, label: given.label },
        };
        return { method: 'POST', path: ['tokens'], body };
      },
      ({ token }: Answers['CreateToken']) => print(token),
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
      for (const line of treeOf(shown)) print(printable(line));
    });
}

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
    const [most, sum, rest] = [limit, used, left].map((amount) => showAmount(meter, amount));
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

function addRevoke(token: Command): void {
  token
    .command('revoke')
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
