// Native API: who one is to the gateway, for every credential, however little else it allows.
import { renderScope } from '../../authz/tokens/scope.ts';
import { isoTime } from '../../core/clock.ts';
import type { Identity } from './deps.ts';
import { routeTable } from './route.ts';
import { answerObject, boolean, kind, name, role, textOrNull, time } from './schemas.ts';

export const whoAmIRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/whoami',
    action: 'bursar:WhoAmI',
    summary: 'In whose name, by what proof and with how much of its rights one acts.',
    answer: answerObject({
      tenant: name,
      principal: name,
      kind,
      role,
      groups: { type: 'array', items: name },
      evidence: { type: 'string' },
      accessKeyId: textOrNull('The access key that signed.'),
      keyThumbprint: textOrNull('Of the public key that verified the request (RFC 7638).'),
      mayCreateBuckets: boolean('By role and tenant, that is; grants and denials may differ.'),
      delegation: {
        type: ['object', 'null'],
        description: 'What a token, or a temporary key, leaves; null: all that the principal may.',
        required: ['ids', 'scope', 'hasPolicies', 'expiresAt'],
        properties: {
          ids: {
            type: 'array',
            items: { type: 'string' },
            description: 'The `jti`s of the chain, from its first link down.',
          },
          scope: textOrNull('null: wherever the principal may.'),
          hasPolicies: boolean('Do session policies narrow it further?'),
          expiresAt: time,
        },
      },
    }),
    run: async ({ identity }) => ({ answer: show(identity) }),
  },
]);

function show({ principal, subjects, delegation, ...proof }: Identity): object {
  const { tenant, name: own, kind: ownKind, role: ownRole, membersCreateBuckets } = principal;
  const group = `group:${tenant}/`;
  return {
    ...{ tenant, principal: own, kind: ownKind, role: ownRole },
    groups: subjects.filter((one) => one.startsWith(group)).map((one) => one.slice(group.length)),
    evidence: proof.evidence,
    accessKeyId: proof.accessKeyId,
    keyThumbprint: proof.keyThumbprint,
    mayCreateBuckets: ownRole === 'member' ? membersCreateBuckets : ownRole !== 'auditor',
    delegation: delegation && {
      ids: delegation.ids,
      scope: delegation.scope && renderScope(delegation.scope),
      hasPolicies: delegation.policies.length > 0,
      expiresAt: isoTime(delegation.expiresAtMs),
    },
  };
}
