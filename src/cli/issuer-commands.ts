// `bursar issuer`: the outside issuers of tokens that a tenant trusts. Issuers are written
// TENANT/NAME.
import { type Command, InvalidArgumentError } from 'commander';
import type { Answers } from '../gateway/native/routes.ts';
import { type Columns, calling, listing, pathIn } from './api-command.ts';
import { printPairs } from './output.ts';

type Names = Record<string, string>;
type Issuer = Answers['GetIssuer'];

interface IssuerFlags {
  url: string;
  audience: string;
  pathPrefix: string;
  principal?: Names;
  group?: Names;
  defaultPrincipal?: string;
}

const issuers: Columns<Issuer> = {
  heading: ['ISSUER', 'URL', 'AUDIENCE', 'PATH PREFIX', 'KEYS'],
  row: (one) => [
    ...[`${one.tenant}/${one.name}`, one.url, one.audience, one.mapping.pathPrefix],
    describeKeys(one),
  ],
};

export function addIssuerCommands(program: Command): void {
  const issuer = program
    .command('issuer')
    .description('outside issuers of tokens (OIDC) that a tenant trusts');
  addSet(issuer);
  issuer
    .command('list <tenant>')
    .description('list the issuers that a tenant trusts')
    .action(listing(issuers, 'issuers', (tenant: string) => ['tenants', tenant, 'issuers']));
  issuer
    .command('show <tenant/name>')
    .description('show an issuer, whom its tokens act for, and the state of its keys')
    .action(calling((id: string) => ({ method: 'GET', path: pathIn('issuers', id) }), showIssuer));
  issuer
    .command('delete <tenant/name>')
    .description('trust an issuer no longer; its tokens are refused at once')
    .action(calling((id: string) => ({ method: 'DELETE', path: pathIn('issuers', id) })));
}

function addSet(issuer: Command): void {
  issuer
    .command('set <tenant/name>')
    .description('trust an issuer, or replace all that was said of the one of this name')
    .requiredOption('--url <url>', 'the issuer, exactly as its tokens have it in "iss"')
    .requiredOption('--audience <text>', 'what its tokens must have in "aud"')
    .requiredOption(
      '--path-prefix <path>',
      '/bucket/prefix where its tokens reach, and where their paths begin; / for everywhere',
    )
    .option('--principal <sub=name>', 'the principal that a subject acts for; may repeat', addPair)
    .option(
      '--group <entry=name>',
      'the group that an entry of its groups means; may repeat',
      addPair,
    )
    .option('--default-principal <name>', 'for every other subject (default: they are refused)')
    .action(
      calling((id: string, given: IssuerFlags) => {
        const { url, audience, pathPrefix, principal: principals, group: groups } = given;
        const mapping = {
          pathPrefix,
          principals,
          groups,
          defaultPrincipal: given.defaultPrincipal,
        };
        return { method: 'PUT', path: pathIn('issuers', id), body: { url, audience, mapping } };
      }, showIssuer),
    );
}

/** Subjects may have a `=` in them, names have none. */
function addPair(text: string, before: Names = {}): Names {
  const end = text.lastIndexOf('=');
  if (end < 1 || end === text.length - 1) {
    throw new InvalidArgumentError('Must be what the token says, =, and a name: 0a1b-2c3d=alice.');
  }
  return { ...before, [text.slice(0, end)]: text.slice(end + 1) };
}

function showIssuer(issuer: Issuer): void {
  const { pathPrefix, principals, groups, defaultPrincipal } = issuer.mapping;
  printPairs(16, [
    ['issuer', `${issuer.tenant}/${issuer.name}`],
    ['url', issuer.url],
    ['audience', issuer.audience],
    ['path prefix', pathPrefix],
    ...Object.entries(principals).map(([sub, name]) => ['principal', `${sub} = ${name}`] as const),
    ['other subjects', defaultPrincipal ?? 'refused'],
    ...Object.entries(groups).map(([entry, name]) => ['group', `${entry} = ${name}`] as const),
    ['keys', describeKeys(issuer)],
  ]);
}

function describeKeys({ keys: { count, fetchedAt, problem } }: Issuer): string {
  const have = fetchedAt === null ? 'none yet' : `${count}, of ${fetchedAt}`;
  return problem === null ? have : `${have}; ${problem}`;
}
