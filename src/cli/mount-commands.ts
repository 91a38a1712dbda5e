// `bursar mount`: names for other tenants' buckets. One that is written NAME is of whoever asks,
// and nobody else sees it; TENANT/NAME is in the tenant's namespace, and
// TENANT/PRINCIPAL/NAME is that principal's.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi, listAll } from './api-client.ts';
import { type Columns, calling, printEntries } from './api-command.ts';
import { findPlace } from './bucket-names.ts';
import { connect } from './command-arguments.ts';
import { printWarnings } from './output.ts';
import { timeOrSnapshot } from './times.ts';

type Mount = Answers['GetMount'] & Partial<Pick<Answers['GetOwnMount'], 'principal'>>;

export const mounts: Columns<Mount> = {
  heading: ['MOUNT', 'BUCKET', 'SNAPSHOT', 'QUERY', 'CREATED'],
  row: ({ tenant, principal, name, bucketTenant, bucket, at, where, createdAt }) => [
    [tenant, principal, name].filter((part) => part !== undefined).join('/'),
    ...[`${bucketTenant}:${bucket}`, at ?? '', where ?? '', createdAt],
  ],
};

/** One that was made, and what it leads to that is not there. */
function showMade(one: Mount & { warnings: string[] }): void {
  printEntries(false, mounts, one, [one]);
  printWarnings(one.warnings);
}

type Alias = Answers['ListAliases']['aliases'][number];

const aliases: Columns<Alias> = {
  heading: ['ALIAS', 'BUCKET', 'GRANT', 'STATE'],
  row: ({ name, bucketTenant, bucket, grant, state }) => [
    ...[name, `${bucketTenant}:${bucket}`, `${bucketTenant}/${grant}`, state],
  ],
};

export function addMountCommands(program: Command): void {
  const mount = program
    .command('mount')
    .description("mounts: other tenants' buckets, and snapshots, under names of one's own");
  mount
    .command('create <name> [bucket]')
    .description(
      "give a bucket of another tenant (cms:data), or a snapshot of one of one's own (data), a " +
        "name: of one's own (seen), or of a tenant (atlas/seen), which is its admin's to give; " +
        'who may use it is granted there',
    )
    .option('--from <bucket>', 'the bucket, instead of the second argument')
    .option(
      '--at <snapshot>',
      'show a snapshot of the bucket, read-only, or what it was at a time in its undelete window ' +
        '(2026-11-23T16:30:00Z, 2h ago)',
      timeOrSnapshot,
    )
    .option('--where <query>', 'show only the objects that fit it, read-only')
    .action(
      calling((id: string, bucket: string | undefined, { from, at, where }: CreateFlags) => {
        if ((bucket === undefined) === (from === undefined)) {
          throw new CommandFailure('usage', 'say the bucket once, such as cms:data');
        }
        const shown = { ...(at !== undefined && { at }), ...(where !== undefined && { where }) };
        return async (connection) => ({
          ...{ method: 'PUT', path: await placeOf(connection, id) },
          body: { ...(await bucketOf(connection, (bucket ?? from) as string)), ...shown },
        });
      }, showMade),
    );
  mount
    .command('list [of]')
    .description("list one's own mounts, those of a tenant (atlas), or a principal's (atlas/bob)")
    .option('--own', "of a tenant: the mounts that are its principals' own")
    .option('--granted', "names that other tenants' grants brought: one's own, or of a tenant")
    .action(list);
  mount
    .command('show <name>')
    .description('show a mount')
    .action(
      calling(
        (id: string) => async (connection: Connection) => ({
          ...{ method: 'GET', path: await placeOf(connection, id) },
        }),
        mounts,
      ),
    );
  mount
    .command('delete <name>')
    .description('take a mount away; the bucket stays as it is')
    .action(
      calling((id: string) => async (connection: Connection) => ({
        ...{ method: 'DELETE', path: await placeOf(connection, id) },
      })),
    );
}

interface CreateFlags {
  from?: string;
  at?: string;
  where?: string;
}

async function list(
  of: string | undefined,
  { own, granted }: { own?: true; granted?: true },
  command: Command,
): Promise<void> {
  const { connection, flags } = connect(command);
  const isOfTenant = of !== undefined && !of.includes('/');
  if (granted) {
    if (own || (of !== undefined && !isOfTenant)) {
      throw new CommandFailure('usage', '--granted is of a tenant, and without --own');
    }
    const [, tenant = ''] = of === undefined ? await principalPath(connection, of) : ['', of];
    const found = await listAll<Alias>(connection, ['tenants', tenant, 'aliases'], 'aliases');
    printEntries(flags.json, aliases, found, found);
    return;
  }
  if (own && !isOfTenant) {
    throw new CommandFailure('usage', '--own is of a tenant: bursar mount list atlas --own');
  }
  const path = isOfTenant
    ? ['tenants', of, own ? 'own-mounts' : 'mounts']
    : [...(await principalPath(connection, of)), 'mounts'];
  const found = await listAll<Mount>(connection, path, 'mounts');
  printEntries(flags.json, mounts, found, found);
}

/** Where a mount is. Throws `CommandFailure` (usage) for what cannot be the name of one. */
async function placeOf(connection: Connection, id: string): Promise<string[]> {
  const parts = id.split('/');
  const [tenant = '', other = '', name = ''] = parts;
  if (parts.includes('') || parts.length > 3) {
    throw new CommandFailure('usage', `${id} must be NAME, TENANT/NAME or TENANT/PRINCIPAL/NAME`);
  }
  if (parts.length === 2) return ['tenants', tenant, 'mounts', other];
  if (parts.length === 3) return ['tenants', tenant, 'principals', other, 'mounts', name];
  return [...(await principalPath(connection, undefined)), 'mounts', id];
}

/** `of`: `tenant/name`; undefined: who asks. */
async function principalPath(connection: Connection, of: string | undefined): Promise<string[]> {
  if (of !== undefined) {
    const [tenant, name, ...rest] = of.split('/');
    if (!tenant || !name || rest.length > 0) {
      throw new CommandFailure('usage', `${of} must be TENANT or TENANT/PRINCIPAL`);
    }
    return ['tenants', tenant, 'principals', name];
  }
  const { json } = await callApi(connection, { method: 'GET', path: ['whoami'] });
  const { tenant, principal } = json as Answers['WhoAmI'];
  return ['tenants', tenant, 'principals', principal];
}

/** Of `cms:raw`, of `raw` in one's own tenant, or as other commands are told a bucket. */
async function bucketOf(
  connection: Connection,
  text: string,
): Promise<{ bucketTenant: string; bucket: string }> {
  const { tenant, bucket, key } = await findPlace(
    connection,
    text.includes('/') ? text : `s3://${text}`,
  );
  if (key !== '') {
    const message = `a mount is of a whole bucket; --where 'key like "${key}*"' shows a part of it`;
    throw new CommandFailure('usage', message);
  }
  return { bucketTenant: tenant, bucket };
}
