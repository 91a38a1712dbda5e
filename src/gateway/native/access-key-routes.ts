// Native API: the access keys of a principal. Invariant: a secret leaves once, in the answer that
// makes it; it is stored sealed and is in no listing and no record.
import { accessKeyContext } from '../../authz/key-rows.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { newAccessKeyId, newSecretAccessKey } from '../../core/ids.ts';
import type { AccessKeyEntry } from '../../state/directory.ts';
import type { NativeDeps } from './deps.ts';
import { refusePrincipal } from './principal-routes.ts';
import { type NativeRoute, nextOf, pageOf, param, refuseDelegated } from './route.ts';
import {
  answerObject,
  answerPage,
  boolean,
  closedObject,
  pageQuery,
  textOrNull,
  time,
} from './schemas.ts';

const collection = '/_/v1/tenants/:t/principals/:p/access-keys';
const accessKeyId = { type: 'string' } as const;
const active = boolean('False: nothing that it signs is taken.');
const thumbprint = textOrNull(
  'Of the public key that verifies it (SigV4A); null: it has a secret.',
);
const accessKey = { accessKeyId, thumbprint, active, createdAt: time };

export const accessKeyRoutes: NativeRoute[] = [
  {
    method: 'POST',
    url: collection,
    action: 'bursar:CreateAccessKey',
    summary: 'Create an access key. Its secret is shown only in this answer.',
    status: 201,
    body: closedObject({}),
    answer: answerObject({ ...accessKey, secretAccessKey: { type: 'string' } }),
    run: async (call) => {
      refuseDelegated(call);
      const [tenant, principal] = [param(call, 't'), param(call, 'p')];
      const [id, secret] = [newAccessKeyId(), newSecretAccessKey()];
      const context = accessKeyContext(tenant, principal, id);
      const sealedSecret = call.deps.sealer.seal(Buffer.from(secret, 'utf8'), context);
      return {
        change: { kind: 'createAccessKey', tenant, principal, id, sealedSecret },
        target: `tenants/${tenant}/principals/${principal}/access-keys/${id}`,
        answer: async () => ({
          ...(await showAccessKey(call.deps, tenant, principal, id)),
          secretAccessKey: secret,
        }),
      };
    },
  },
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListAccessKeys',
    summary: "List a principal's access keys, without secrets.",
    query: pageQuery,
    answer: answerPage('accessKeys', answerObject(accessKey)),
    run: async (call) => {
      const { directory } = call.deps;
      const [tenant, principal] = [param(call, 't'), param(call, 'p')];
      if (!(await directory.readPrincipal(tenant, principal))) {
        return refusePrincipal(call.deps, tenant);
      }
      const page = pageOf(call);
      const entries = await directory.listAccessKeys(tenant, principal, page);
      const named = entries.map(({ id }) => ({ name: id }));
      return { answer: { accessKeys: entries.map(show), next: nextOf(page, named) } };
    },
  },
  {
    method: 'GET',
    url: `${collection}/:id`,
    action: 'bursar:GetAccessKey',
    summary: 'Show an access key, without its secret.',
    answer: answerObject(accessKey),
    run: async (call) => ({
      answer: await showAccessKey(call.deps, param(call, 't'), param(call, 'p'), param(call, 'id')),
    }),
  },
  {
    method: 'PATCH',
    url: `${collection}/:id`,
    action: 'bursar:UpdateAccessKey',
    summary: 'Deactivate an access key, with all that was made with it, or activate it again.',
    body: closedObject({ active }, ['active']),
    answer: answerObject(accessKey),
    run: async (call) => {
      const [tenant, principal, id] = [param(call, 't'), param(call, 'p'), param(call, 'id')];
      const wanted = call.body as { active: boolean };
      if (wanted.active) refuseDelegated(call);
      return {
        change: { kind: 'updateAccessKey', tenant, principal, id, ...wanted },
        answer: () => showAccessKey(call.deps, tenant, principal, id),
      };
    },
  },
  {
    method: 'DELETE',
    url: `${collection}/:id`,
    action: 'bursar:DeleteAccessKey',
    summary: 'Delete an access key. It stops working at once.',
    run: async (call) => {
      const [tenant, principal] = [param(call, 't'), param(call, 'p')];
      return {
        change: { kind: 'deleteAccessKey', tenant, principal, id: param(call, 'id') },
        answer: async () => null,
      };
    },
  },
];

async function showAccessKey(
  deps: NativeDeps,
  tenant: string,
  principal: string,
  id: string,
): Promise<object> {
  const entry = await deps.directory.readAccessKey(tenant, principal, id);
  if (entry) return show(entry);
  if (!(await deps.directory.readPrincipal(tenant, principal))) {
    return refusePrincipal(deps, tenant);
  }
  throw new Refusal('NoSuchAccessKey');
}

function show({ id, createdMs, ...entry }: AccessKeyEntry): object {
  return { accessKeyId: id, ...entry, createdAt: isoTime(createdMs) };
}
