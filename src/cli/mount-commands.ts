// `bursar mount`: names in a tenant's own namespace for other tenants' buckets.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { callApi, listAll } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { type CommandFlags, connect, splitId } from './command-arguments.ts';
import { printTable } from './output.ts';

type Mount = Answers['GetMount'];

export function addMountCommands(program: Command): void {
  const mount = program
    .command('mount')
    .description("mounts: other tenants' buckets under names of one's own");
  mount
    .command('add <tenant/name> <other:bucket>')
    .description('give a bucket of another tenant a name; who may use it is granted there')
    .action(async (id: string, target: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const body = bucketOf(target);
      const { json } = await callApi(connection, { method: 'PUT', path: mountPath(id), body });
      showMounts(flags, json, [json as Mount]);
    });
  mount
    .command('list <tenant>')
    .description("list a tenant's mounts")
    .action(async (tenant: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const mounts = await listAll<Mount>(connection, ['tenants', tenant, 'mounts'], 'mounts');
      showMounts(flags, mounts, mounts);
    });
  mount
    .command('remove <tenant/name>')
    .description('take a mount away; the bucket stays as it is')
    .action(async (id: string, _given: object, command: Command) => {
      const { connection } = connect(command);
      await callApi(connection, { method: 'DELETE', path: mountPath(id) });
    });
}

function bucketOf(target: string): { bucketTenant: string; bucket: string } {
  const [bucketTenant, bucket, ...rest] = target.split(':');
  if (!bucketTenant || !bucket || rest.length > 0) {
    throw new CommandFailure('usage', `${target} must be TENANT:BUCKET, such as cms:raw`);
  }
  return { bucketTenant, bucket };
}

function mountPath(id: string): string[] {
  const [tenant, name] = splitId(id);
  return ['tenants', tenant, 'mounts', name];
}

function showMounts(flags: CommandFlags, json: unknown, mounts: readonly Mount[]): void {
  printTable(flags.json, {
    json,
    heading: ['MOUNT', 'BUCKET', 'CREATED'],
    rows: mounts.map((one) => [
      `${one.tenant}/${one.name}`,
      `${one.bucketTenant}:${one.bucket}`,
      one.createdAt,
    ]),
  });
}
