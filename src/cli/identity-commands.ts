// `bursar tenant|principal|group`: who there is. Principals are written TENANT/NAME.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { principalKinds, roles } from '../core/principal.ts';
import { recordReadsModes } from '../core/record-reads.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { callApi, listAll } from './api-client.ts';
import { type Columns, calling, listing, pathIn, printEntries } from './api-command.ts';
import { choice, connect, parseBoolean, splitId } from './command-arguments.ts';
import { confirm } from './confirmation.ts';
import { deletePrincipal, transfer } from './holdings.ts';
import { printJson } from './output.ts';
import { deleteTenant } from './tenant-deletion.ts';

interface TenantFlags {
  membersCreateBuckets?: boolean;
  membersMountBuckets?: boolean;
  /** False: --no-store. */
  store?: string | boolean;
  recordReads?: string;
}

type Group = Answers['ListGroups']['groups'][number] & Partial<Answers['GetGroup']>;

const tenants: Columns<Answers['GetTenant']> = {
  heading: [
    'TENANT',
    'MEMBERS CREATE BUCKETS',
    'MEMBERS MOUNT BUCKETS',
    'STORE',
    'READS',
    'CREATED',
  ],
  row: ({ name, defaultStore, recordReads, createdAt, ...may }) => [
    ...[name, may.membersCreateBuckets ? 'yes' : 'no', may.membersMountBuckets ? 'yes' : 'no'],
    ...[defaultStore ?? '', recordReads, createdAt],
  ],
};

const principals: Columns<Answers['GetPrincipal']> = {
  heading: ['PRINCIPAL', 'KIND', 'ROLE', 'GROUPS', 'ACTIVE', 'CREATED'],
  row: ({ tenant, name, kind, role, groups, active, createdAt }) => [
    ...[`${tenant}/${name}`, kind, role, groups.join(','), active ? 'yes' : 'no', createdAt],
  ],
};

/** Of a list, which does not say who is in them. */
const groupNames: Columns<Group> = {
  heading: ['GROUP', 'CREATED'],
  row: ({ tenant, name, createdAt }) => [`${tenant}/${name}`, createdAt],
};

const groups: Columns<Group> = {
  heading: ['GROUP', 'MEMBERS', 'CREATED'],
  row: ({ tenant, name, members, createdAt }) => [
    ...[`${tenant}/${name}`, members ? shortened(members) : '', createdAt],
  ],
};

const membersFlag = '--members-create-buckets <yes|no>';
const membersHelp = 'may members create buckets?';
const mountFlag = '--members-mount-buckets <yes|no>';
const mountHelp = "may members give other tenants' buckets names of their own?";
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
    .option(mountFlag, `${mountHelp} (default: yes)`, parseBoolean)
    .option(storeFlag, `${storeHelp} (default: the gateway's)`)
    .option(readsFlag, `${readsHelp} (default: prompt)`, choice(recordReadsModes))
    .action(
      calling((name: string, given: TenantFlags) => {
        return { method: 'POST', path: ['tenants'], body: { name, ...tenantBody(given) } };
      }, tenants),
    );
  tenant
    .command('list')
    .description('list tenants')
    .action(listing(tenants, 'tenants', () => ['tenants']));
  tenant
    .command('show <name>')
    .description('show a tenant')
    .action(calling((name: string) => ({ method: 'GET', path: ['tenants', name] }), tenants));
  tenant
    .command('set <name>')
    .description("change a tenant's settings")
    .option(membersFlag, membersHelp, parseBoolean)
    .option(mountFlag, mountHelp, parseBoolean)
    .option(storeFlag, storeHelp)
    .option('--no-store', "leave the store of new buckets to the gateway's default")
    .option(readsFlag, readsHelp, choice(recordReadsModes))
    .action(
      calling((name: string, given: TenantFlags) => {
        const body = tenantBody(given);
        if (Object.values(body).every((value) => value === undefined)) {
          const flagNames = `${membersFlag}, ${storeFlag}, --no-store or ${readsFlag}`;
          throw new CommandFailure('usage', `give ${flagNames}`);
        }
        return { method: 'PATCH', path: ['tenants', name], body };
      }, tenants),
    );
  tenant
    .command('delete <name>')
    .description('show what goes with a tenant, ask, and delete it; it must own no bucket')
    .option('--yes', 'do not ask')
    .action(deleteTenant);
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
    .action(
      calling((id: string, given: PrincipalFlags) => {
        const [tenant, name] = splitId(id);
        const body = { name, ...principalBody(given) };
        return { method: 'POST', path: ['tenants', tenant, 'principals'], body };
      }, principals),
    );
  principal
    .command('list <tenant>')
    .description("list a tenant's principals")
    .action(
      listing(principals, 'principals', (tenant: string) => ['tenants', tenant, 'principals']),
    );
  principal
    .command('show <tenant/name>')
    .description('show a principal')
    .action(calling((id: string) => ({ method: 'GET', path: pathOf(id) }), principals));
  principal
    .command('set <tenant/name>')
    .description("change a principal's role or replace its groups")
    .option('--role <role>', roles.join(', '), choice(roles))
    .option('--group <name...>', 'groups to be in from now on')
    .option('--no-group', 'be in no group from now on')
    .action(
      calling((id: string, given: PrincipalFlags) => {
        return { method: 'PATCH', path: pathOf(id), body: principalBody(given) };
      }, principals),
    );
  for (const [name, active, description] of [
    ['deactivate', false, 'refuse whatever is done in its name, by any key or token'],
    ['activate', true, 'take its keys and tokens again'],
  ] as const) {
    principal
      .command(`${name} <tenant/name>`)
      .description(description)
      .action(
        calling(
          (id: string) => ({ method: 'PATCH', path: pathOf(id), body: { active } }),
          principals,
        ),
      );
  }
  principal
    .command('delete <tenant/name>')
    .description(
      'delete a principal that owns no bucket, with its access keys; else say what it has; its ' +
        'name is not given again',
    )
    .option('--yes', 'do not ask where you would delete yourself')
    .action(deletePrincipal);
  principal
    .command('transfer <tenant/name>')
    .description('give the buckets, uploads, share links and grants of a principal to another')
    .requiredOption('--to <tenant/name>', 'the other, of the same tenant')
    .option('--dry-run', 'only list what would be given')
    .action(transfer);
}

const pathOf = (id: string): string[] => pathIn('principals', id);

export function addGroupCommands(program: Command): void {
  const group = program.command('group').description('groups: named sets of principals');
  group
    .command('create <tenant/name>')
    .description('create a group')
    .action(
      calling((id: string) => {
        const [tenant, name] = splitId(id);
        return { method: 'POST', path: ['tenants', tenant, 'groups'], body: { name } };
      }, groups),
    );
  group
    .command('list <tenant>')
    .description("list a tenant's groups")
    .action(listing(groupNames, 'groups', (tenant: string) => ['tenants', tenant, 'groups']));
  group
    .command('show <tenant/name>')
    .description('show a group and its members; --json names more than ten of them, too')
    .action(calling((id: string) => ({ method: 'GET', path: pathIn('groups', id) }), groups));
  for (const [verb, description] of [
    ['add', 'have principals be in a group'],
    ['remove', 'have principals be in a group no longer'],
  ] as const) {
    group
      .command(`${verb} <tenant/name> <principal...>`)
      .description(`${description}; they are written NAME or TENANT/NAME`)
      .action((id: string, given: string[], _: object, command: Command) =>
        changeMembers(id, given, { verb, command }),
      );
  }
  group
    .command('delete <tenant/name>')
    .description('delete a group; its members stay; asks where it has some, or a grant names it')
    .option('--yes', 'do not ask')
    .action(deleteGroup);
}

async function deleteGroup(id: string, { yes }: { yes?: true }, command: Command): Promise<void> {
  const { connection, flags } = connect(command);
  const path = pathIn('groups', id);
  const [tenant] = splitId(id);
  if (!yes) {
    const { members = [] } = (await callApi(connection, { method: 'GET', path })).json as Group;
    type Grant = Answers['ListGrants']['grants'][number];
    const all = await listAll<Grant>(connection, ['tenants', tenant, 'grants'], 'grants');
    const naming = all.filter(({ subjects }) => subjects.includes(`group:${id}`));
    const lines = [
      ...(members.length > 0 ? [`${id} has ${members.length} members: ${shortened(members)}`] : []),
      ...naming.map(({ name }) => `grant ${tenant}/${name} names it, and nobody in its place`),
      'its name is not given again',
    ];
    if (lines.length > 1) await confirm(lines, `Delete group ${id}?`, flags);
  }
  const { json } = await callApi(connection, { method: 'DELETE', path });
  if (flags.json) printJson(json ?? {});
}

const membersShown = 10;

function shortened(names: readonly string[]): string {
  const more = names.length - membersShown;
  return `${names.slice(0, membersShown).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** Nobody is added or removed unless all are there. */
async function changeMembers(
  id: string,
  given: readonly string[],
  { verb, command }: { verb: 'add' | 'remove'; command: Command },
): Promise<void> {
  const { connection, flags } = connect(command);
  const [tenant, group] = splitId(id);
  const path = pathIn('groups', id);
  await callApi(connection, { method: 'GET', path });
  const changes: { path: string[]; after: string[] }[] = [];
  for (const one of given) {
    const [of, name] = one.includes('/') ? splitId(one) : [tenant, one];
    if (of !== tenant) throw new CommandFailure('usage', `${one} is not of ${tenant}`);
    const principal = pathOf(`${tenant}/${name}`);
    const { json } = await callApi(connection, { method: 'GET', path: principal });
    const { groups: before } = json as Answers['GetPrincipal'];
    const others = before.filter((other) => other !== group);
    const after = verb === 'add' ? [...others, group] : others;
    if (before.includes(group) === (verb === 'add')) continue;
    changes.push({ path: principal, after });
  }
  for (const { path: principal, after } of changes) {
    await callApi(connection, { method: 'PATCH', path: principal, body: { groups: after } });
  }
  const { json } = await callApi(connection, { method: 'GET', path });
  printEntries(flags.json, groups, json, [json as Group]);
}

function tenantBody({ store, ...settings }: TenantFlags) {
  const { membersCreateBuckets, membersMountBuckets, recordReads } = settings;
  const defaultStore = store === false ? null : store;
  return { membersCreateBuckets, membersMountBuckets, defaultStore, recordReads };
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
