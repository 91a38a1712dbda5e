// Native API: the public keys of a principal. Invariant: a key is enrolled only with a proof that
// who enrols it has the private half and means it for this principal at this gateway; so nobody
// can enrol another's key, and nothing that a key can be used for is known to the gateway.
import {
  type KeyPurpose,
  keyPurposes,
  listPublicKeys,
  type PublicKeyEntry,
  readPublicKeyEntry,
} from '../../authz/public-keys.ts';
import { proofBytesMax } from '../../authz/tokens/bounds.ts';
import { verifyKeyProof } from '../../authz/tokens/key-proof.ts';
import { isoTime, nowMs } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { principalId } from '../../core/principal.ts';
import { refusePrincipal } from './principal-routes.ts';
import { type Call, type NativeRoute, nextOf, pageOf, param, refuseDelegated } from './route.ts';
import {
  answerObject,
  answerPage,
  boolean,
  closedObject,
  pageQuery,
  text,
  textOrNull,
  time,
} from './schemas.ts';

const collection = '/_/v1/tenants/:t/principals/:p/public-keys';

const jwk = {
  type: 'object',
  description: 'Of Ed25519 or P-256: `kty`, `crv`, `x` and for P-256 `y`.',
  additionalProperties: false,
  required: ['kty', 'crv', 'x'],
  properties: Object.fromEntries(
    ['kty', 'crv', 'x', 'y'].map((member) => [member, { type: 'string' }]),
  ),
} as const;

const purpose = {
  type: 'string',
  enum: [...keyPurposes],
  description: 'token: signs tokens and proofs. sigv4a: signs S3 requests.',
} as const;

const active = boolean('False: nothing that it signed is taken.');

const publicKey = answerObject({
  thumbprint: text('RFC 7638; how tokens name the key.'),
  jwk,
  purpose,
  accessKeyId: textOrNull('Of a sigv4a key.'),
  active,
  createdAt: time,
});

interface Enrolment {
  jwk: unknown;
  proof: string;
  purpose: KeyPurpose;
  accessKeyId?: string;
}

export const publicKeyRoutes: NativeRoute[] = [
  {
    method: 'POST',
    url: collection,
    action: 'bursar:CreatePublicKey',
    summary: 'Enrol a public key, with a proof that its private half is held.',
    status: 201,
    body: closedObject(
      {
        jwk,
        proof: {
          type: 'string',
          maxLength: proofBytesMax,
          description: 'A proof of the key (docs/formats/token.md), at most an hour old.',
        },
        purpose: { ...purpose, default: 'token' },
        accessKeyId: {
          type: 'string',
          pattern: '^AKIA[A-Z2-7]{16}$',
          description: 'Of a sigv4a key; made by its holder, and covered by the proof.',
        },
      },
      ['jwk', 'proof'],
    ),
    answer: publicKey,
    run: async (call) => {
      refuseDelegated(call);
      const owner = ownerOf(call);
      const { proof, purpose: wanted, accessKeyId } = call.body as Enrolment;
      const { thumbprint, jwk: members } = verifyEnrolment(call);
      return {
        change: {
          kind: 'createPublicKey',
          ...owner,
          ...{ thumbprint, proof, purpose: wanted, accessKeyId: accessKeyId ?? null },
          jwk: JSON.stringify(members),
        },
        target: `${pathOf(owner)}/${thumbprint}`,
        answer: () => showPublicKey(call, thumbprint),
      };
    },
  },
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListPublicKeys',
    summary: "List a principal's public keys.",
    query: pageQuery,
    answer: answerPage('publicKeys', publicKey),
    run: async (call) => {
      const { directory, read } = call.deps;
      const owner = ownerOf(call);
      if (!(await directory.readPrincipal(owner.tenant, owner.principal))) {
        return refusePrincipal(call.deps, owner.tenant);
      }
      const page = pageOf(call);
      const entries = await listPublicKeys(read, owner, page);
      const named = entries.map(({ thumbprint }) => ({ name: thumbprint }));
      return { answer: { publicKeys: entries.map(show), next: nextOf(page, named) } };
    },
  },
  {
    method: 'GET',
    url: `${collection}/:id`,
    action: 'bursar:GetPublicKey',
    summary: 'Show a public key, by its thumbprint.',
    answer: publicKey,
    run: async (call) => ({ answer: await showPublicKey(call, param(call, 'id')) }),
  },
  {
    method: 'PATCH',
    url: `${collection}/:id`,
    action: 'bursar:UpdatePublicKey',
    summary: 'Deactivate a public key, with all that it signed, or activate it again.',
    body: closedObject({ active }, ['active']),
    answer: publicKey,
    run: async (call) => {
      const thumbprint = param(call, 'id');
      const wanted = call.body as { active: boolean };
      if (wanted.active) refuseDelegated(call);
      return {
        change: { kind: 'updatePublicKey', ...ownerOf(call), thumbprint, ...wanted },
        answer: () => showPublicKey(call, thumbprint),
      };
    },
  },
  {
    method: 'DELETE',
    url: `${collection}/:id`,
    action: 'bursar:DeletePublicKey',
    summary: 'Delete a public key, with all that it signed. It cannot be enrolled again.',
    run: async (call) => ({
      change: { kind: 'deletePublicKey', ...ownerOf(call), thumbprint: param(call, 'id') },
      answer: async () => null,
    }),
  },
];

interface Owner {
  tenant: string;
  principal: string;
}

function ownerOf(call: Call): Owner {
  return { tenant: param(call, 't'), principal: param(call, 'p') };
}

function pathOf({ tenant, principal }: Owner): string {
  return `tenants/${tenant}/principals/${principal}/public-keys`;
}

/**
 * The key that is proved. Throws InvalidProof, or InvalidInput where purpose and key do not fit.
 */
function verifyEnrolment(call: Call) {
  const enrolment = call.body as Enrolment;
  const { proof, accessKeyId } = enrolment;
  const isSigv4a = enrolment.purpose === 'sigv4a';
  if (isSigv4a !== (accessKeyId !== undefined)) {
    throw new Refusal('InvalidInput', {
      message: 'body.accessKeyId belongs to a key with the purpose sigv4a, and to no other.',
      fields: { field: 'body.accessKeyId' },
    });
  }
  const { tenant, principal } = ownerOf(call);
  const key = verifyKeyProof(proof, enrolment.jwk, {
    audience: call.deps.publicUrl(),
    principal: principalId(tenant, principal),
    accessKeyId,
    nowMs: nowMs(),
  });
  if (isSigv4a && key.algorithm !== 'ES256') {
    throw new Refusal('InvalidInput', {
      message: 'body.jwk must be a key of P-256: SigV4A has no other.',
      fields: { field: 'body.jwk' },
    });
  }
  return key;
}

async function showPublicKey(call: Call, thumbprint: string): Promise<object> {
  const { deps } = call;
  const owner = ownerOf(call);
  const entry = await readPublicKeyEntry(deps.read, { ...owner, thumbprint });
  if (entry) return show(entry);
  if (!(await deps.directory.readPrincipal(owner.tenant, owner.principal))) {
    return refusePrincipal(deps, owner.tenant);
  }
  throw new Refusal('NoSuchPublicKey');
}

function show({ createdMs, ...entry }: PublicKeyEntry): object {
  return { ...entry, createdAt: isoTime(createdMs) };
}
