// Native API: the principals of a tenant, with their roles, and its groups. Who is in a group is
// said on the principals.

import type { Page } from '../../authz/paced-page.ts';
import { listOwned } from '../../catalog/buckets.ts';
import type { Role } from '../../core/principal.ts';
import { ownedMax, refuseOwned } from './conflict-words.ts';
import { checkGiven } from './rights.ts';
import {
  type Call,
  listPage,
  nameOf,
  param,
  refuseMissing,
  routeTable,
  showDated,
} from './route.ts';
import {
  answerObject,
  answerPage,
  boolean,
  closedObject,
  groups,
  type Json,
  kind,
  name,
  pageQuery,
  role,
  time,
} from './schemas.ts';

const collection = '/_/v1/tenants/:t/principals';
const active = boolean('False: nothing is done in its name, by whatever key or token.');
const principal = answerObject({ tenant: name, name, kind, role, groups, active, createdAt: time });

const newPrincipalSchema = closedObject(
  {
    name,
    kind: { ...kind, default: 'person' },
    role: { ...role, default: 'member' },
    groups: { ...groups, default: [] },
  },
  ['name'],
);
type NewPrincipal = Json<typeof newPrincipalSchema>;

export const principalRoutes = routeTable([
  {
    method: 'POST',
    url: collection,
    action: 'bursar:CreatePrincipal',
    summary: 'Create a principal. Only an operator can make operators.',
    status: 201,
    body: newPrincipalSchema,
    answer: principal,
    run: async (call) => {
      const wanted = call.body as NewPrincipal;
      const tenant = param(call, 't');
      const { name, kind: principalKind, role: given, groups: into } = wanted;
      checkGiven(call.who, tenant, {
        role: given === 'member' ? undefined : given,
        groups: into.length === 0 ? undefined : into,
      });
      return {
        change: { kind: 'createPrincipal', tenant, name, principalKind, role: given, groups: into },
        target: `tenants/${tenant}/principals/${name}`,
        answer: () => showPrincipal(call, name),
      };
    },
  },
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListPrincipals',
    summary: "List a tenant's principals, by name.",
    query: pageQuery,
    answer: answerPage('principals', principal),
    run: (call) => {
      const list = (page: Page) => call.deps.directory.listPrincipals(param(call, 't'), page);
      return listPage(call, 'principals', list, showDated, nameOf);
    },
  },
  {
    method: 'GET',
    url: `${collection}/:p`,
    action: 'bursar:GetPrincipal',
    summary: 'Show a principal.',
    answer: principal,
    run: async (call) => ({ answer: await showPrincipal(call, param(call, 'p')) }),
  },
  {
    method: 'PATCH',
    url: `${collection}/:p`,
    action: 'bursar:UpdatePrincipal',
    summary: "Change a principal's role, replace the set of its groups, deactivate or activate it.",
    body: { ...closedObject({ role, groups, active }), minProperties: 1 },
    answer: principal,
    run: async (call) => {
      const wanted = call.body as { role?: Role; groups?: string[]; active?: boolean };
      const [tenant, principalName] = [param(call, 't'), param(call, 'p')];
      checkGiven(call.who, tenant, { role: wanted.role, groups: wanted.groups });
      return {
        change: { kind: 'updatePrincipal', tenant, name: principalName, ...wanted },
        answer: () => showPrincipal(call, principalName),
      };
    },
  },
  {
    method: 'DELETE',
    url: `${collection}/:p`,
    action: 'bursar:DeletePrincipal',
    summary: 'Delete a principal that owns no bucket, with its access keys.',
    run: async (call) => {
      await refuseOwner(call);
      return {
        change: { kind: 'deletePrincipal', tenant: param(call, 't'), name: param(call, 'p') },
      };
    },
  },
]);

/** Throws `Refusal` InUse where the principal owns buckets, and says which. */
async function refuseOwner(call: Call): Promise<void> {
  const [tenant, owner] = [param(call, 't'), param(call, 'p')];
  const wanted = { tenant, owner, after: '', max: ownedMax };
  refuseOwned(`${tenant}/${owner}`, await listOwned(call.deps.read, wanted));
}

async function showPrincipal(call: Call, principalName: string): Promise<object> {
  const entry = await call.deps.directory.readPrincipal(param(call, 't'), principalName);
  return entry ? showDated(entry) : refuseMissing(call, 'NoSuchPrincipal');
}

const groupCollection = '/_/v1/tenants/:t/groups';
const group = { tenant: name, name, createdAt: time };
const groupWithMembers = answerObject({ ...group, members: { type: 'array', items: name } });

export const groupRoutes = routeTable([
  {
    method: 'POST',
    url: groupCollection,
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
        answer: () => showGroup(call, groupName),
      };
    },
  },
  {
    method: 'GET',
    url: groupCollection,
    action: 'bursar:ListGroups',
    summary: "List a tenant's groups, by name.",
    query: pageQuery,
    answer: answerPage('groups', answerObject(group)),
    run: (call) => {
      const list = (page: Page) => call.deps.directory.listGroups(param(call, 't'), page);
      return listPage(call, 'groups', list, showDated, nameOf);
    },
  },
  {
    method: 'GET',
    url: `${groupCollection}/:g`,
    action: 'bursar:GetGroup',
    summary: 'Show a group and its members.',
    answer: groupWithMembers,
    run: async (call) => ({ answer: await showGroup(call, param(call, 'g')) }),
  },
  {
    method: 'DELETE',
    url: `${groupCollection}/:g`,
    action: 'bursar:DeleteGroup',
    summary: 'Delete a group; its members stay principals.',
    run: async (call) => ({
      change: { kind: 'deleteGroup', tenant: param(call, 't'), name: param(call, 'g') },
    }),
  },
]);

async function showGroup(call: Call, groupName: string): Promise<object> {
  const { directory } = call.deps;
  const tenant = param(call, 't');
  const entry = await directory.readGroup(tenant, groupName);
  if (!entry) return refuseMissing(call, 'NoSuchGroup');
  return { ...showDated(entry), members: await directory.listGroupMembers(tenant, groupName) };
}
