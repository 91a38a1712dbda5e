// `bursar tenant|principal|group`: who there is. Principals are written TENANT/NAME.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { principalKinds, roles } from '../core/principal.ts';
import { recordReadsModes } from '../core/record-reads.ts';
import { type Connection, callApi, listAll } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { type CommandFlags, choice, connect, parseBoolean, splitId } from './command-arguments.ts';
import { printTable } from './output.ts';

type Tenant = Answers['GetTenant'];

interface TenantFlags {
  membersCreateBuckets?: boolean;
  /** False: --no-store. */
  store?: string | boolean;
  recordReads?: string;
}

type Principal = Answers['GetPrincipal'];
type Group = Answers['ListGroups']['groups'][number] & Partial<Answers['GetGroup']>;

const membersFlag = '--members-create-buckets <yes|no>';
const membersHelp = 'may members create buckets?';
const storeFlag = '--store <name>';
const storeHelp = 'store of new buckets that name none';
const readsFlag = '--record-reads <mode>';
const readsHelp = `when reads are recorded: ${recordReadsModes.join(', ')}`;

export function addTenantCommands(program: Command): void {
  const tenant = program.command('tenant').description('tenants: collaborations that own buckets');
  tenant
    .command('create <name>')
    .description('create a tenant')
    .option(membersFlag, `${membersHelp} (default: yes)`, parseBoolean)
    .option(storeFlag, `${storeHelp} (default: the gateway's)`)
    .option(readsFlag, `${readsHelp} (default: prompt)`, choice(recordReadsModes))
    .action(async (name: string, given: TenantFlags, command: Command) => {
      const { connection, flags } = connect(command);
      const body = { name, ...tenantBody(given) };
      const { json } = await callApi(connection, { method: 'POST', path: ['tenants'], body });
      showTenants(flags, json, [json as Tenant]);
    });
  tenant
    .command('list')
    .description('list tenants')
    .action(async (_given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const tenants = await listAll<Tenant>(connection, ['tenants'], 'tenants');
      showTenants(flags, tenants, tenants);
    });
  tenant
    .command('show <name>')
    .description('show a tenant')
    .action(async (name: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: ['tenants', name] });
      showTenants(flags, json, [json as Tenant]);
    });
  tenant
    .command('update <name>')
    .description("change a tenant's settings")
    .option(membersFlag, membersHelp, parseBoolean)
    .option(storeFlag, storeHelp)
    .option('--no-store', "leave the store of new buckets to the gateway's default")
    .option(readsFlag, readsHelp, choice(recordReadsModes))
    .action(async (name: string, given: TenantFlags, command: Command) => {
      const { connection, flags } = connect(command);
      const path = ['tenants', name];
      const body = tenantBody(given);
      if (Object.values(body).every((value) => value === undefined)) {
        const flagNames = `${membersFlag}, ${storeFlag}, --no-store or ${readsFlag}`;
        throw new CommandFailure('usage', `give ${flagNames}`);
      }
      const { json } = await callApi(connection, { method: 'PATCH', path, body });
      showTenants(flags, json, [json as Tenant]);
    });
  tenant
    .command('delete <name>')
    .description('delete a tenant that owns no bucket; its name is not given again')
    .action(async (name: string, _given: object, command: Command) => {
      await remove(command, ['tenants', name]);
    });
}

export function addPrincipalCommands(program: Command): void {
  const principal = program
    .command('principal')
    .description('principals: the people and robots of a tenant');
  principal
    .command('create <tenant/name>')
    .description('create a principal')
    .option(
      '--kind <kind>',
      `${principalKinds.join(' or ')} (default: person)`,
      choice(principalKinds),
    )
    .option('--role <role>', `${roles.join(', ')} (default: member)`, choice(roles))
    .option('--group <name...>', 'groups to be in')
    .action(async (id: string, given: PrincipalFlags, command: Command) => {
      const { connection, flags } = connect(command);
      const [tenant, name] = splitId(id);
      const body = { name, ...principalBody(given) };
      const path = ['tenants', tenant, 'principals'];
      const { json } = await callApi(connection, { method: 'POST', path, body });
      showPrincipals(flags, json, [json as Principal]);
    });
  principal
    .command('list <tenant>')
    .description("list a tenant's principals")
    .action(async (tenant: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const path = ['tenants', tenant, 'principals'];
      const principals = await listAll<Principal>(connection, path, 'principals');
      showPrincipals(flags, principals, principals);
    });
  principal
    .command('show <tenant/name>')
    .description('show a principal')
    .action(async (id: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: principalPath(id) });
      showPrincipals(flags, json, [json as Principal]);
    });
  principal
    .command('update <tenant/name>')
    .description("change a principal's role or replace its groups")
    .option('--role <role>', roles.join(', '), choice(roles))
    .option('--group <name...>', 'groups to be in from now on')
    .option('--no-group', 'be in no group from now on')
    .action(async (id: string, given: PrincipalFlags, command: Command) => {
      const { connection, flags } = connect(command);
      const path = principalPath(id);
      const body = principalBody(given);
      const { json } = await callApi(connection, { method: 'PATCH', path, body });
      showPrincipals(flags, json, [json as Principal]);
    });
  for (const [name, active, description] of [
    ['deactivate', false, 'refuse whatever is done in its name, by any key or token'],
    ['activate', true, 'take its keys and tokens again'],
  ] as const) {
    principal
      .command(`${name} <tenant/name>`)
      .description(description)
      .action(async (id: string, _given: object, command: Command) => {
        const { connection, flags } = connect(command);
        const path = principalPath(id);
        const { json } = await callApi(connection, { method: 'PATCH', path, body: { active } });
        showPrincipals(flags, json, [json as Principal]);
      });
  }
  principal
    .command('delete <tenant/name>')
    .description('delete a principal that owns no bucket, with its access keys')
    .action(async (id: string, _given: object, command: Command) => {
      await remove(command, principalPath(id));
    });
}

export function addGroupCommands(program: Command): void {
  const group = program.command('group').description('groups: named sets of principals');
  group
    .command('create <tenant/name>')
    .description('create a group')
    .action(async (id: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const [tenant, name] = splitId(id);
      const path = ['tenants', tenant, 'groups'];
      const { json } = await callApi(connection, { method: 'POST', path, body: { name } });
      showGroups(flags, json, [json as Group]);
    });
  group
    .command('list <tenant>')
    .description("list a tenant's groups")
    .action(async (tenant: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const groups = await listAll<Group>(connection, ['tenants', tenant, 'groups'], 'groups');
      showGroups(flags, groups, groups);
    });
  group
    .command('show <tenant/name>')
    .description('show a group and its members')
    .action(async (id: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: groupPath(id) });
      showGroups(flags, json, [json as Group]);
    });
  group
    .command('delete <tenant/name>')
    .description('delete a group; its members stay')
    .action(async (id: string, _given: object, command: Command) => {
      await remove(command, groupPath(id));
    });
}

function tenantBody({ membersCreateBuckets, store, recordReads }: TenantFlags) {
  return { membersCreateBuckets, defaultStore: store === false ? null : store, recordReads };
}

interface PrincipalFlags {
  kind?: string;
  role?: string;
  /** False: --no-group. */
  group?: string[] | boolean;
}

function principalBody({ kind, role, group }: PrincipalFlags): object {
  const groups = group === false ? [] : group;
  return { kind, role, ...(Array.isArray(groups) ? { groups } : {}) };
}

function principalPath(id: string): string[] {
  const [tenant, name] = splitId(id);
  return ['tenants', tenant, 'principals', name];
}

function groupPath(id: string): string[] {
  const [tenant, name] = splitId(id);
  return ['tenants', tenant, 'groups', name];
}

async function remove(command: Command, path: string[]): Promise<void> {
  const { connection }: { connection: Connection } = connect(command);
  await callApi(connection, { method: 'DELETE', path });
}

function showTenants(flags: CommandFlags, json: unknown, tenants: readonly Tenant[]): void {
  printTable(flags.json, {
    json,
    heading: ['TENANT', 'MEMBERS CREATE BUCKETS', 'STORE', 'READS', 'CREATED'],
    rows: tenants.map((one) => [
      one.name,
      one.membersCreateBuckets ? 'yes' : 'no',
      one.defaultStore ?? '',
      one.recordReads,
      one.createdAt,
    ]),
  });
}

function showPrincipals(flags: CommandFlags, json: unknown, entries: readonly Principal[]): void {
  printTable(flags.json, {
    json,
    heading: ['PRINCIPAL', 'KIND', 'ROLE', 'GROUPS', 'ACTIVE', 'CREATED'],
    rows: entries.map((one) => [
      `${one.tenant}/${one.name}`,
      one.kind,
      one.role,
      one.groups.join(','),
      one.active ? 'yes' : 'no',
      one.createdAt,
    ]),
  });
}

function showGroups(flags: CommandFlags, json: unknown, groups: readonly Group[]): void {
  printTable(flags.json, {
    json,
    heading: ['GROUP', 'MEMBERS', 'CREATED'],
    rows: groups.map((one) => [
      `${one.tenant}/${one.name}`,
      one.members?.join(',') ?? '',
      one.createdAt,
    ]),
  });
}
