// `bursar grant`: the rules that say who may do what. Grants are written TENANT/NAME.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { callApi, listAll } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { type CommandFlags, connect, splitId } from './command-arguments.ts';
import { printTable } from './output.ts';

type Grant = Answers['GetGrant'];

interface GrantFlags {
  subject: string[];
  action: string[];
  deny?: boolean;
  bucket?: string;
  prefix?: string;
  key?: string;
  conditions?: string;
}

export function addGrantCommands(program: Command): void {
  const grant = program.command('grant').description('grants: who may do what, and where');
  addPut(grant);
  grant
    .command('list <tenant>')
    .description("list a tenant's grants")
    .action(async (tenant: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const grants = await listAll<Grant>(connection, ['tenants', tenant, 'grants'], 'grants');
      showGrants(flags, grants, grants);
    });
  grant
    .command('show <tenant/name>')
    .description('show a grant')
    .action(async (id: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: grantPath(id) });
      showGrants(flags, json, [json as Grant]);
    });
  grant
    .command('delete <tenant/name>')
    .description('delete a grant; it counts no more from the next request on')
    .action(async (id: string, _given: object, command: Command) => {
      const { connection } = connect(command);
      await callApi(connection, { method: 'DELETE', path: grantPath(id) });
    });
}

function addPut(grant: Command): void {
  grant
    .command('put <tenant/name>')
    .description('make a grant, or replace the one of this name')
    .requiredOption(
      '--subject <subject...>',
      'principal:TENANT/NAME, group:TENANT/NAME, tenant:TENANT or anyone',
    )
    .requiredOption('--action <name...>', "s3:GetObject, 's3:*', bursar:ListPrincipals; …")
    .option('--deny', 'deny instead of allow; a denial wins')
    .option('--bucket <name>', 'in this bucket (default: in all, and what is about none)')
    .option('--prefix <prefix>', 'in this place of the bucket, and all below it')
    .option('--key <key>', 'this one object')
    .option('--conditions <json>', 'IAM\'s: {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}')
    .action(async (id: string, given: GrantFlags, command: Command) => {
      const { connection, flags } = connect(command);
      const { subject: subjects, action: actions, deny, bucket, prefix, key } = given;
      const effect = deny ? 'deny' : 'allow';
      const conditions = given.conditions && parseConditions(given.conditions);
      const body = { effect, subjects, actions, bucket, prefix, key, conditions };
      const { json } = await callApi(connection, { method: 'PUT', path: grantPath(id), body });
      showGrants(flags, json, [json as Grant]);
    });
}

function parseConditions(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CommandFailure('usage', '--conditions must be JSON', cause);
  }
}

function grantPath(id: string): string[] {
  const [tenant, name] = splitId(id);
  return ['tenants', tenant, 'grants', name];
}

function showGrants(flags: CommandFlags, json: unknown, grants: readonly Grant[]): void {
  printTable(flags.json, {
    json,
    heading: ['GRANT', 'EFFECT', 'SUBJECTS', 'ACTIONS', 'PLACE', 'CONDITIONS'],
    rows: grants.map((one) => [
      `${one.tenant}/${one.name}`,
      one.effect,
      one.subjects.join(','),
      one.actions.join(','),
      placeOf(one),
      one.conditions === undefined ? '' : JSON.stringify(one.conditions),
    ]),
  });
}

/** `*`: everywhere; `raw/2026/*`: below that; `raw/x`: the one object. */
function placeOf({ bucket, prefix = '', key }: Grant): string {
  if (bucket === undefined) return '*';
  return key === undefined ? `${bucket}/${prefix}*` : `${bucket}/${key}`;
}
