// Native API: the access keys of a principal. Invariant: a secret leaves once, in the answer that
// makes it; it is stored sealed and is in no listing and no record.
import {
  accessKeyContext,
  keyPurposes,
  listPublicKeys,
  readPublicKeyEntry,
} from '../../authz/key-rows.ts';
import type { Page } from '../../authz/paced-page.ts';
import { proofBytesMax } from '../../authz/tokens/bounds.ts';
import { verifyKeyProof } from '../../authz/tokens/key-proof.ts';
import { nowMs } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { newAccessKeyId, newSecretAccessKey } from '../../core/ids.ts';
import { principalId } from '../../core/principal.ts';
import type { AccessKeyEntry } from '../../state/directory.ts';
import {
  type Call,
  listPage,
  param,
  refuseDelegated,
  refuseMissing,
  routeTable,
  showDated,
} from './route.ts';
import {
  answerObject,
  answerPage,
  boolean,
  closedObject,
  type Json,
  pageQuery,
  text,
  textOrNull,
  time,
} from './schemas.ts';

const accessKeyCollection = '/_/v1/tenants/:t/principals/:p/access-keys';
const accessKeyId = { type: 'string' } as const;
const active = boolean('False: nothing that it signs is taken.');
const thumbprint = textOrNull(
  'Of the public key that verifies it (SigV4A); null: it has a secret.',
);
const accessKey = { accessKeyId, thumbprint, active, createdAt: time };

export const accessKeyRoutes = routeTable([
  {
    method: 'POST',
    url: accessKeyCollection,
    action: 'bursar:CreateAccessKey',
    summary: 'Create an access key. Its secret is shown only in this answer.',
    status: 201,
    body: closedObject({}),
    answer: answerObject({ ...accessKey, secretAccessKey: { type: 'string' } }),
    run: async (call) => {
      refuseDelegated(call);
      const { tenant, principal } = ownerOf(call);
      const [id, secret] = [newAccessKeyId(), newSecretAccessKey()];
      const context = accessKeyContext(tenant, principal, id);
      const sealedSecret = call.deps.sealer.seal(Buffer.from(secret, 'utf8'), context);
      return {
        change: { kind: 'createAccessKey', tenant, principal, id, sealedSecret },
        target: `tenants/${tenant}/principals/${principal}/access-keys/${id}`,
        answer: async () => ({
          ...(await findAccessKey(call, id)),
          secretAccessKey: secret,
        }),
      };
    },
  },
  {
    method: 'GET',
    url: accessKeyCollection,
    action: 'bursar:ListAccessKeys',
    summary: "List a principal's access keys, without secrets.",
    query: pageQuery,
    answer: answerPage('accessKeys', answerObject(accessKey)),
    run: (call) => {
      const { tenant, principal } = ownerOf(call);
      const list = (page: Page) => call.deps.directory.listAccessKeys(tenant, principal, page);
      return listPage(call, 'accessKeys', list, showAccessKey, ({ id }) => id);
    },
  },
  {
    method: 'GET',
    url: `${accessKeyCollection}/:id`,
    action: 'bursar:GetAccessKey',
    summary: 'Show an access key, without its secret.',
    answer: answerObject(accessKey),
    run: async (call) => ({ answer: await findAccessKey(call, param(call, 'id')) }),
  },
  {
    method: 'PATCH',
    url: `${accessKeyCollection}/:id`,
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
        answer: () => findAccessKey(call, id),
      };
    },
  },
  {
    method: 'DELETE',
    url: `${accessKeyCollection}/:id`,
    action: 'bursar:DeleteAccessKey',
    summary: 'Delete an access key. It stops working at once.',
    run: async (call) => {
      const { tenant, principal } = ownerOf(call);
      return {
        change: { kind: 'deleteAccessKey', tenant, principal, id: param(call, 'id') },
      };
    },
  },
]);

async function findAccessKey(call: Call, id: string): Promise<object> {
  const { tenant, principal } = ownerOf(call);
  const entry = await call.deps.directory.readAccessKey(tenant, principal, id);
  return entry ? showAccessKey(entry) : refuseMissing(call, 'NoSuchAccessKey');
}

function showAccessKey({ id, ...entry }: AccessKeyEntry): object {
  return { accessKeyId: id, ...showDated(entry) };
}

// Native API: the public keys of a principal. Invariant: a key is enrolled only with a proof that
// who enrols it has the private half and means it for this principal at this gateway; so nobody
// can enrol another's key, and nothing that a key can be used for is known to the gateway.

const publicKeyCollection = '/_/v1/tenants/:t/principals/:p/public-keys';

const jwkMember = { type: 'string' } as const;
const jwk = {
  type: 'object',
  description: 'Of Ed25519 or P-256: `kty`, `crv`, `x` and for P-256 `y`.',
  additionalProperties: false,
  required: ['kty', 'crv', 'x'],
  properties: { kty: jwkMember, crv: jwkMember, x: jwkMember, y: jwkMember },
} as const;

const purpose = text('token: signs tokens and proofs. sigv4a: signs S3 requests.', {
  enum: [...keyPurposes],
});

const publicKeyActive = boolean('False: nothing that it signed is taken.');

const publicKey = answerObject({
  thumbprint: text('RFC 7638; how tokens name the key.'),
  jwk,
  purpose,
  accessKeyId: textOrNull('Of a sigv4a key.'),
  active: publicKeyActive,
  createdAt: time,
});

const enrolmentSchema = closedObject(
  {
    jwk,
    proof: text('A proof of the key (docs/formats/token.md), at most an hour old.', {
      maxLength: proofBytesMax,
    }),
    purpose: { ...purpose, default: 'token' },
    accessKeyId: {
      type: 'string',
      pattern: '^AKIA[A-Z2-7]{16}$',
      description: 'Of a sigv4a key; made by its holder, and covered by the proof.',
    },
  },
  ['jwk', 'proof'],
);
type Enrolment = Json<typeof enrolmentSchema>;

export const publicKeyRoutes = routeTable([
  {
    method: 'POST',
    url: publicKeyCollection,
    action: 'bursar:CreatePublicKey',
    summary: 'Enrol a public key, with a proof that its private half is held.',
    status: 201,
    body: enrolmentSchema,
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
    url: publicKeyCollection,
    action: 'bursar:ListPublicKeys',
    summary: "List a principal's public keys.",
    query: pageQuery,
    answer: answerPage('publicKeys', publicKey),
    run: (call) => {
      const list = (page: Page) => listPublicKeys(call.deps.read, ownerOf(call), page);
      return listPage(call, 'publicKeys', list, showDated, ({ thumbprint }) => thumbprint);
    },
  },
  {
    method: 'GET',
    url: `${publicKeyCollection}/:id`,
    action: 'bursar:GetPublicKey',
    summary: 'Show a public key, by its thumbprint.',
    answer: publicKey,
    run: async (call) => ({ answer: await showPublicKey(call, param(call, 'id')) }),
  },
  {
    method: 'PATCH',
    url: `${publicKeyCollection}/:id`,
    action: 'bursar:UpdatePublicKey',
    summary: 'Deactivate a public key, with all that it signed, or activate it again.',
    body: closedObject({ active: publicKeyActive }, ['active']),
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
    url: `${publicKeyCollection}/:id`,
    action: 'bursar:DeletePublicKey',
    summary: 'Delete a public key, with all that it signed. It cannot be enrolled again.',
    run: async (call) => ({
      change: { kind: 'deletePublicKey', ...ownerOf(call), thumbprint: param(call, 'id') },
    }),
  },
]);

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
  const entry = await readPublicKeyEntry(call.deps.read, { ...ownerOf(call), thumbprint });
  return entry ? showDated(entry) : refuseMissing(call, 'NoSuchPublicKey');
}
