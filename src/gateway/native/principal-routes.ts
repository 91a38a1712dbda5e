// Native API: the principals of a tenant, with their roles and groups.

import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import type { PrincipalKind, Role } from '../../core/principal.ts';
import type { PrincipalEntry } from '../../state/directory.ts';
import type { NativeDeps } from './deps.ts';
import { checkGiven } from './rights.ts';
import { type NativeRoute, nextOf, pageOf, param } from './route.ts';
import {
  answerObject,
  answerPage,
  boolean,
  closedObject,
  groups,
  kind,
  name,
  pageQuery,
  role,
  time,
} from './schemas.ts';

const collection = '/_/v1/tenants/:t/principals';
const active = boolean('False: nothing is done in its name, by whatever key or token.');
const principal = answerObject({ tenant: name, name, kind, role, groups, active, createdAt: time });

interface NewPrincipal {
  name: string;
  kind: PrincipalKind;
  role: Role;
  groups: string[];
}

export const principalRoutes: NativeRoute[] = [
  {
    method: 'POST',
    url: collection,
    action: 'bursar:CreatePrincipal',
    summary: 'Create a principal. Only an operator can make operators.',
    status: 201,
    body: closedObject(
      {
        name,
        kind: { ...kind, default: 'person' },
        role: { ...role, default: 'member' },
        groups: { ...groups, default: [] },
      },
      ['name'],
    ),
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
        answer: () => showPrincipal(call.deps, tenant, name),
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
    run: async (call) => {
      const { directory } = call.deps;
      const tenant = param(call, 't');
      if (!(await directory.readTenant(tenant))) throw new Refusal('NoSuchTenant');
      const page = pageOf(call);
      const entries = await directory.listPrincipals(tenant, page);
      return { answer: { principals: entries.map(show), next: nextOf(page, entries) } };
    },
  },
  {
    method: 'GET',
    url: `${collection}/:p`,
    action: 'bursar:GetPrincipal',
    summary: 'Show a principal.',
    answer: principal,
    run: async (call) => ({
      answer: await showPrincipal(call.deps, param(call, 't'), param(call, 'p')),
    }),
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
        answer: () => showPrincipal(call.deps, tenant, principalName),
      };
    },
  },
  {
    method: 'DELETE',
    url: `${collection}/:p`,
    action: 'bursar:DeletePrincipal',
    summary: 'Delete a principal that owns no bucket, with its access keys.',
    run: async (call) => ({
      change: { kind: 'deletePrincipal', tenant: param(call, 't'), name: param(call, 'p') },
      answer: async () => null,
    }),
  },
];

/** Throws what is missing: the principal or already its tenant. */
export async function refusePrincipal(deps: NativeDeps, tenant: string): Promise<never> {
  const tenantEntry = await deps.directory.readTenant(tenant);
  throw new Refusal(tenantEntry ? 'NoSuchPrincipal' : 'NoSuchTenant');
}

async function showPrincipal(
  deps: NativeDeps,
  tenant: string,
  principalName: string,
): Promise<object> {
  const entry = await deps.directory.readPrincipal(tenant, principalName);
  return entry ? show(entry) : refusePrincipal(deps, tenant);
}

function show({ createdMs, ...entry }: PrincipalEntry): object {
  return { ...entry, createdAt: isoTime(createdMs) };
}
