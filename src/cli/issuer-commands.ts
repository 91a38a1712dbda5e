// `bursar issuer`: the outside issuers of tokens that a tenant trusts. Issuers are written
// TENANT/NAME.
import { type Command, InvalidArgumentError } from 'commander';
import { printable } from '../core/printable.ts';
import { callApi } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { type CommandFlags, connect, splitId } from './command-arguments.ts';
import { print, printJson, printTable } from './output.ts';

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

export function addIssuerCommands(program: Command): void {
  const issuer = program
    .command('issuer')
    .description('outside issuers of tokens (OIDC) that a tenant trusts');
  addAdd(issuer);
  issuer
    .command('list <tenant>')
    .description('list the issuers that a tenant trusts')
    .action(async (tenant: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const path = ['tenants', tenant, 'issuers'];
      const { json } = await callApi(connection, { method: 'GET', path });
      const { issuers } = json as Answers['ListIssuers'];
      printTable(flags.json, {
        json: issuers,
        heading: ['ISSUER', 'URL', 'AUDIENCE', 'PATH PREFIX', 'KEYS'],
        rows: issuers.map((one) => [
          `${one.tenant}/${one.name}`,
          one.url,
          one.audience,
          one.mapping.pathPrefix,
          describeKeys(one),
        ]),
      });
    });
  issuer
    .command('show <tenant/name>')
    .description('show an issuer, whom its tokens act for, and the state of its keys')
    .action(async (id: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: issuerPath(id) });
      showIssuer(flags, json as Issuer);
    });
  issuer
    .command('remove <tenant/name>')
    .description('trust an issuer no longer; its tokens are refused at once')
    .action(async (id: string, _given: object, command: Command) => {
      const { connection } = connect(command);
      await callApi(connection, { method: 'DELETE', path: issuerPath(id) });
    });
}

function addAdd(issuer: Command): void {
  issuer
    .command('add <tenant/name>')
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
    .action(async (id: string, given: IssuerFlags, command: Command) => {
      const { connection, flags } = connect(command);
      const { url, audience, pathPrefix, principal: principals, group: groups } = given;
      const { defaultPrincipal } = given;
      const mapping = { pathPrefix, principals, groups, defaultPrincipal };
      const body = { url, audience, mapping };
      const { json } = await callApi(connection, { method: 'PUT', path: issuerPath(id), body });
      showIssuer(flags, json as Issuer);
    });
}

/** Subjects may have a `=` in them, names have none. */
function addPair(text: string, before: Names = {}): Names {
  const end = text.lastIndexOf('=');
  if (end < 1 || end === text.length - 1) {
    throw new InvalidArgumentError('Must be what the token says, =, and a name: 0a1b-2c3d=alice.');
  }
  return { ...before, [text.slice(0, end)]: text.slice(end + 1) };
}

function issuerPath(id: string): string[] {
  const [tenant, name] = splitId(id);
  return ['tenants', tenant, 'issuers', name];
}

function showIssuer(flags: CommandFlags, issuer: Issuer): void {
  if (flags.json) {
    printJson(issuer);
    return;
  }
  const { pathPrefix, principals, groups, defaultPrincipal } = issuer.mapping;
  const rows = [
    ['issuer', `${issuer.tenant}/${issuer.name}`],
    ['url', issuer.url],
    ['audience', issuer.audience],
    ['path prefix', pathPrefix],
    ...Object.entries(principals).map(([sub, name]) => ['principal', `${sub} = ${name}`]),
    ['other subjects', defaultPrincipal ?? 'refused'],
    ...Object.entries(groups).map(([entry, name]) => ['group', `${entry} = ${name}`]),
    ['keys', describeKeys(issuer)],
  ];
  for (const [name = '', value = ''] of rows) print(`${name.padEnd(16)}${printable(value)}`);
}

function describeKeys({ keys: { count, fetchedAt, problem } }: Issuer): string {
  const have = fetchedAt === null ? 'none yet' : `${count}, of ${fetchedAt}`;
  return problem === null ? have : `${have}; ${problem}`;
}
