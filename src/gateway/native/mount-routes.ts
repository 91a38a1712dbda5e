// Native API: the mounts of a tenant, names in its own namespace for other tenants' buckets.
// Invariant: nothing here tells whether what a mount leads to is there, and a mount gives no right.

import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import type { MountEntry } from '../../state/mount-book.ts';
import { checkBucketName } from '../s3/bucket-lookup.ts';
import type { NativeDeps } from './deps.ts';
import { type NativeRoute, nextOf, pageOf, param } from './route.ts';
import { answerObject, answerPage, closedObject, name, pageQuery, text, time } from './schemas.ts';

const collection = '/_/v1/tenants/:t/mounts';
const bucketName = text("A bucket's name.");
const target = {
  bucketTenant: { ...name, description: 'The tenant that has the bucket.' },
  bucket: { ...bucketName, description: "The bucket's name there." },
};
const mount = answerObject({ tenant: name, name: bucketName, ...target, createdAt: time });

export const mountRoutes: NativeRoute[] = [
  {
    method: 'PUT',
    url: `${collection}/:mount`,
    action: 'bursar:PutMount',
    summary: "Give another tenant's bucket a name in this one. Who may use it is said there.",
    body: closedObject(target, ['bucketTenant', 'bucket']),
    answer: mount,
    run: async (call) => {
      const [tenant, mountName] = [param(call, 't'), param(call, 'mount')];
      const wanted = call.body as { bucketTenant: string; bucket: string };
      checkBucketName(mountName);
      checkBucketName(wanted.bucket);
      return {
        change: { kind: 'putMount', tenant, name: mountName, ...wanted },
        answer: () => showMount(call.deps, tenant, mountName),
      };
    },
  },
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListMounts',
    summary: "List a tenant's mounts, by name.",
    query: pageQuery,
    answer: answerPage('mounts', mount),
    run: async (call) => {
      const tenant = param(call, 't');
      const { directory, mounts } = call.deps;
      if (!(await directory.readTenant(tenant))) throw new Refusal('NoSuchTenant');
      const page = pageOf(call);
      const entries = await mounts.list(tenant, page);
      return { answer: { mounts: entries.map(show), next: nextOf(page, entries) } };
    },
  },
  {
    method: 'GET',
    url: `${collection}/:mount`,
    action: 'bursar:GetMount',
    summary: 'Show a mount.',
    answer: mount,
    run: async (call) => ({
      answer: await showMount(call.deps, param(call, 't'), param(call, 'mount')),
    }),
  },
  {
    method: 'DELETE',
    url: `${collection}/:mount`,
    action: 'bursar:DeleteMount',
    summary: 'Take a mount away. The bucket stays as it is.',
    run: async (call) => ({
      change: { kind: 'deleteMount', tenant: param(call, 't'), name: param(call, 'mount') },
      answer: async () => null,
    }),
  },
];

async function showMount(deps: NativeDeps, tenant: string, mountName: string): Promise<object> {
  const entry = await deps.mounts.read(tenant, mountName);
  if (entry) return show(entry);
  const tenantEntry = await deps.directory.readTenant(tenant);
  throw new Refusal(tenantEntry ? 'NoSuchMount' : 'NoSuchTenant');
}

function show({ createdMs, ...entry }: MountEntry): object {
  return { ...entry, createdAt: isoTime(createdMs) };
}
