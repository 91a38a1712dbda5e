// Requests and keys for the tests of authz: AWS's documented credentials, and the way from a
// request line and headers to what the gateway hands to the authenticator.
import { createHash, createHmac } from 'node:crypto';
import { Authenticator, type SignedRequest } from '#bursar/authz/authenticate.js';
import { subjectsOf } from '#bursar/authz/grants/subjects.js';
import type { Principal } from '#bursar/core/principal.js';
import { signRequest } from '#bursar/core/sigv4.js';
import { presignUrl } from '../tooling/presign.ts';

export const accessKeyId = 'AKIAIOSFODNN7EXAMPLE';
export const secret = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
export const region = 'us-east-1';
/** 2013-05-24T00:00:00Z, the time of all of AWS's examples. */
export const exampleMs = Date.UTC(2013, 4, 24);

export const host = 'examplebucket.s3.amazonaws.com';

const credentials = { accessKeyId, secret, region, timeMs: exampleMs };

export const alice: Principal = {
  tenant: 'default',
  name: 'alice',
  id: 'default/alice',
  kind: 'person',
  role: 'member',
  membersCreateBuckets: true,
};

/** A key of Alice's, without its id and secret. */
export const aliceKey = {
  principal: alice,
  subjects: subjectsOf(alice, []),
  publicKey: null,
  delegation: null,
};

export function exampleAuthenticator(nowMs = exampleMs): Authenticator {
  return new Authenticator({
    findAccessKey: async (id) => (id === accessKeyId ? { ...aliceKey, id, secret } : undefined),
    nowMs: () => nowMs,
  });
}

/** `target` is as on the wire; `headers` in order, repeated ones joined as Node joins them. */
export function request(
  method: string,
  target: string,
  headers: ReadonlyArray<readonly [string, string]>,
): SignedRequest {
  const [path = '/', search = ''] = target.split(/\?(.*)/s);
  const joined: Record<string, string> = {};
  for (const [name, value] of headers) {
    const lower = name.toLowerCase();
    joined[lower] = lower in joined ? `${joined[lower]}, ${value}` : value;
  }
  return {
    method,
    path: decodeURIComponent(path),
    query: search === '' ? [] : search.split('&').map(decodePair),
    headers: joined,
    rawHeaders: headers.flat(),
    target,
    source: '192.0.2.1',
    isSecure: false,
  };
}

function decodePair(pair: string): readonly [string, string] {
  const mark = pair.indexOf('=');
  if (mark < 0) return [decodeURIComponent(pair), ''];
  return [decodeURIComponent(pair.slice(0, mark)), decodeURIComponent(pair.slice(mark + 1))];
}

/** The request with some of its headers replaced (or, where undefined, removed). */
export function withHeaders(
  original: SignedRequest,
  changes: Record<string, string | undefined>,
): SignedRequest {
  const headers = { ...original.headers, ...changes };
  for (const name of Object.keys(changes)) if (changes[name] === undefined) delete headers[name];
  const rawHeaders = Object.entries(headers).flatMap(([name, value]) => [name, String(value)]);
  return { ...original, headers, rawHeaders };
}

/** The code and fields of the Refusal that a promise rejects with; fails if it does not. */
export async function refusal(
  attempt: Promise<unknown>,
): Promise<{ code: string; message: string; fields: Record<string, string> }> {
  const outcome = await attempt.then(
    () => new Error('it was not refused'),
    (error: unknown) => error,
  );
  if (outcome instanceof Error && outcome.name === 'Refusal') {
    const { code, message, fields } = outcome as Error & {
      code: string;
      fields: Record<string, string>;
    };
    return { code, message, fields };
  }
  throw outcome;
}

/** A GET signed by our own signer, with further headers signed. */
export function signedGet(headers: Record<string, string> = {}, more: object = {}): SignedRequest {
  const all = { host, ...headers };
  const added = signRequest({ ...credentials, method: 'GET', path: '/k', headers: all, ...more });
  return request('GET', '/k', Object.entries({ ...all, ...added }));
}

/** A presigned request, as a client that knows nothing but the URL sends it. */
export function presignedGet(
  more: object = {},
  headers: Record<string, string> = {},
): SignedRequest {
  const url = presignUrl({
    ...credentials,
    method: 'GET',
    origin: `https://${host}`,
    path: '/k',
    expiresSeconds: 600,
    ...more,
  });
  return request('GET', url.slice(`https://${host}`.length), Object.entries({ host, ...headers }));
}

/** The request with some of its query parameters changed, removed (null), or added. */
export function withQuery(
  original: SignedRequest,
  changes: Record<string, string | null>,
): SignedRequest {
  const query = original.query.flatMap(([name, value]): Array<readonly [string, string]> => {
    const changed = changes[name];
    return changed === null ? [] : [[name, changed ?? value]];
  });
  return { ...original, query };
}

export function withAuthorization(change: (authorization: string) => string): SignedRequest {
  const original = signedGet();
  return withHeaders(original, { authorization: change(String(original.headers.authorization)) });
}

/** The Authorization header for a canonical request, made with nothing of Bursar's. */
export function handSigned(canonical: string): string {
  const hmac = (key: string | Buffer, text: string) =>
    createHmac('sha256', key).update(text).digest();
  const scope = ['20130524', region, 's3', 'aws4_request'];
  const key = scope.reduce<string | Buffer>(hmac, `AWS4${secret}`);
  const digest = createHash('sha256').update(canonical).digest('hex');
  const text = `AWS4-HMAC-SHA256\n20130524T000000Z\n${scope.join('/')}\n${digest}`;
  const names = canonical.split('\n').at(-2);
  const signature = hmac(key, text).toString('hex');
  return (
    `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope.join('/')}, ` +
    `SignedHeaders=${names}, Signature=${signature}`
  );
}
