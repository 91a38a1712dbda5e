// `bursar mount`: names in a tenant's own namespace for other tenants' buckets.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { type Columns, calling, listing, pathIn } from './api-command.ts';
import type { Answers } from './api-types.ts';

const mounts: Columns<Answers['GetMount']> = {
  heading: ['MOUNT', 'BUCKET', 'CREATED'],
  row: ({ tenant, name, bucketTenant, bucket, createdAt }) => [
    ...[`${tenant}/${name}`, `${bucketTenant}:${bucket}`, createdAt],
  ],
};

export function addMountCommands(program: Command): void {
  const mount = program
    .command('mount')
    .description("mounts: other tenants' buckets under names of one's own");
  mount
    .command('add <tenant/name> <other:bucket>')
    .description('give a bucket of another tenant a name; who may use it is granted there')
    .action(
      calling((id: string, target: string) => {
        const body = bucketOf(target);
        return { method: 'PUT', path: pathIn('mounts', id), body };
      }, mounts),
    );
  mount
    .command('list <tenant>')
    .description("list a tenant's mounts")
    .action(listing(mounts, 'mounts', (tenant: string) => ['tenants', tenant, 'mounts']));
  mount
    .command('remove <tenant/name>')
    .description('take a mount away; the bucket stays as it is')
    .action(calling((id: string) => ({ method: 'DELETE', path: pathIn('mounts', id) })));
}

function bucketOf(target: string): { bucketTenant: string; bucket: string } {
  const [bucketTenant, bucket, ...rest] = target.split(':');
  if (!bucketTenant || !bucket || rest.length > 0) {
    throw new CommandFailure('usage', `${target} must be TENANT:BUCKET, such as cms:raw`);
  }
  return { bucketTenant, bucket };
}
