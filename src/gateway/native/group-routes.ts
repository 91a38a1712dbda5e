// Native API: the groups of a tenant. Who is in a group is said on the principals.

import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import type { GroupEntry } from '../../state/directory.ts';
import type { NativeDeps } from './deps.ts';
import { type NativeRoute, nextOf, pageOf, param } from './route.ts';
import { answerObject, answerPage, closedObject, name, pageQuery, time } from './schemas.ts';

const collection = '/_/v1/tenants/:t/groups';
const group = { tenant: name, name, createdAt: time };
const groupWithMembers = answerObject({ ...group, members: { type: 'array', items: name } });

export const groupRoutes: NativeRoute[] = [
  {
    method: 'POST',
    url: collection,
    action: 'bursar:CreateGroup',
    summary: 'Create a group.',
    status: 201,
    body: closedObject({ name }, ['name']),
    answer: groupWithMembers,
    run: async (call) => {
      const tenant = param(call, 't');
      const { name: groupName } = call.body as { name: string };
      return {
        change: { kind: 'createGroup', tenant, name: groupName },
        target: `tenants/${tenant}/groups/${groupName}`,
        answer: () => showGroup(call.deps, tenant, groupName),
      };
    },
  },
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListGroups',
    summary: "List a tenant's groups, by name.",
    query: pageQuery,
    answer: answerPage('groups', answerObject(group)),
    run: async (call) => {
      const { directory } = call.deps;
      const tenant = param(call, 't');
      if (!(await directory.readTenant(tenant))) throw new Refusal('NoSuchTenant');
      const page = pageOf(call);
      const entries = await directory.listGroups(tenant, page);
      return { answer: { groups: entries.map(show), next: nextOf(page, entries) } };
    },
  },
  {
    method: 'GET',
    url: `${collection}/:g`,
    action: 'bursar:GetGroup',
    summary: 'Show a group and its members.',
    answer: groupWithMembers,
    run: async (call) => ({
      answer: await showGroup(call.deps, param(call, 't'), param(call, 'g')),
    }),
  },
  {
    method: 'DELETE',
    url: `${collection}/:g`,
    action: 'bursar:DeleteGroup',
    summary: 'Delete a group; its members stay principals.',
    run: async (call) => ({
      change: { kind: 'deleteGroup', tenant: param(call, 't'), name: param(call, 'g') },
      answer: async () => null,
    }),
  },
];

async function showGroup(deps: NativeDeps, tenant: string, groupName: string): Promise<object> {
  const entry = await deps.directory.readGroup(tenant, groupName);
  if (!entry) {
    const tenantEntry = await deps.directory.readTenant(tenant);
    throw new Refusal(tenantEntry ? 'NoSuchGroup' : 'NoSuchTenant');
  }
  return { ...show(entry), members: await deps.directory.listGroupMembers(tenant, groupName) };
}

function show({ createdMs, ...entry }: GroupEntry): object {
  return { ...entry, createdAt: isoTime(createdMs) };
}
