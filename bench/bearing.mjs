// Makes the bench's requests with tokens, before the clock starts: those that anybody may use who
// bears them, and those that are bound to a key, with an HTTP signature (RFC 9421) for each.
import { readPrivateKey } from '#bursar/authz/tokens/keys.js';
import { createProof } from '#bursar/authz/tokens/proof.js';

/**
 * @typedef {object} Bearer
 * @property {string} token
 * @property {string} [privateKey] a JWK as text: the key that the token is bound to
 */

/**
 * The counterpart of `makeSigner`, for requests without a body.
 * @param {import('./signing.mjs').Target} target
 * @param {Bearer} bearer
 */
export function makeBearing({ host, port }, { token, privateKey }) {
  const key = privateKey === undefined ? undefined : readPrivateKey(privateKey);
  return ({ method, path, query = '' }) => {
    const target = `${path}${query && `?${query}`}`;
    const headers = { host: `${host}:${port}` };
    const url = `http://${headers.host}${target}`;
    const added = key
      ? createProof({ method, url, headers }, { key, token, nowMs: Date.now() })
      : { authorization: `Bearer ${token}` };
    const lines = Object.entries({ ...headers, ...added }).map(
      ([name, value]) => `${name}: ${value}`,
    );
    return Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  };
}
