// What the gateway publishes as an issuer of tokens, so that others can verify them, together with
// the keys of its audit log. Invariant: a key of the log has no `alg`, so that nobody takes it for
// a key that signs tokens, but a member `log`, which names the log that it signs.
// Specification: RFC 7517 section 5; OpenID Connect Discovery 1.0 section 3. The members that only
// concern logging in are empty lists.
import type { FastifyInstance } from 'fastify';
import { listLogKeys } from '../../audit/log/log-keys.ts';
import { readPublicKey } from '../../authz/tokens/keys.ts';
import type { NativeDeps } from './deps.ts';

/** Keys stay valid when another one is added, so an answer of this age misleads nobody. */
const cacheControl = 'public, max-age=300';
const keysPath = '/.well-known/jwks.json';

export function addWellKnown(native: FastifyInstance, deps: NativeDeps): void {
  const hidden = { schema: { hide: true } };
  native.get(keysPath, hidden, async (_request, reply) =>
    reply
      .header('cache-control', cacheControl)
      .type('application/jwk-set+json')
      .send(JSON.stringify({ keys: [...deps.tokenKeys.jwks.keys, ...(await logJwks(deps))] })),
  );
  native.get('/.well-known/openid-configuration', hidden, async (_request, reply) => {
    const issuer = deps.publicUrl();
    return reply.header('cache-control', cacheControl).send({
      issuer,
      jwks_uri: `${issuer}${keysPath}`,
      response_types_supported: [],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['EdDSA'],
    });
  });
}

/** The keys of the log that are not revoked, newest first. */
async function logJwks({ read }: NativeDeps): Promise<object[]> {
  const rows = (await listLogKeys(read)).filter(({ revokedMs }) => revokedMs === null);
  return rows.map(({ key: { name, publicKey } }) => {
    const known = { crv: 'Ed25519', kty: 'OKP', x: publicKey.toString('base64url') };
    const { jwk, thumbprint } = readPublicKey(known) ?? {};
    return { ...jwk, kid: thumbprint, use: 'sig', log: name };
  });
}
