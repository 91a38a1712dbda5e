// What a signature for one request says of it, read from exactly what was signed: SigV4A's
// canonical request, an HTTP signature base (RFC 9421) or a DPoP proof (RFC 9449). Pure; what
// cannot be read is undefined, and nothing of it is believed before the signature was verified.
import { hash } from 'node:crypto';

export interface SignedRequest {
  method: string;
  /** The target as it was signed: SigV4A has the path with its query, DPoP has no query. */
  url: string;
  /** The parts of the request that the signature covers. */
  covers: string[];
  /** SHA-256 of the body, hexadecimal; null: it is not covered, or there is none. */
  bodySha256: string | null;
  signedAtMs: number;
  /** The Authorization header that is covered; null: none is. */
  authorization: string | null;
  /** For DPoP, the SHA-256 of the token that the proof is for. */
  tokenHash: string | null;
  /** The key by which it says that it is signed; null: it does not say. */
  keyId: string | null;
}

const sigv4aForm =
  /^AWS4-ECDSA-P256-SHA256\n(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z\n\d{8}\/s3\/aws4_request\n([0-9a-f]{64})$/;
const hexDigest = /^[0-9a-f]{64}$/;

/** When a string to sign of SigV4A was made, and of what request it has the digest. */
export function readStringToSign(
  signed: string,
): { signedAtMs: number; requestSha256: string } | undefined {
  const [, year, month, day, hour, minute, second, requestSha256] = sigv4aForm.exec(signed) ?? [];
  const signedAtMs = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  if (requestSha256 === undefined || Number.isNaN(signedAtMs)) return undefined;
  return { signedAtMs, requestSha256 };
}

/** undefined: the string to sign has the digest of another request, or this is none. */
export function readCanonicalRequest(
  canonicalRequest: string,
  { signedAtMs, requestSha256 }: { signedAtMs: number; requestSha256: string },
): SignedRequest | undefined {
  const digest = hash('sha256', Buffer.from(canonicalRequest, 'latin1'), 'hex');
  const [method = '', path = '', query = '', ...rest] = canonicalRequest.split('\n');
  const payload = rest.pop();
  const names = rest.pop()?.split(';');
  if (digest !== requestSha256 || payload === undefined || !names) return undefined;
  const isDigest = hexDigest.test(payload);
  return {
    method,
    url: query === '' ? path : `${path}?${query}`,
    covers: ['method', 'path', 'query', ...names, ...(isDigest ? ['body'] : [])],
    bodySha256: isDigest ? payload : null,
    signedAtMs,
    authorization: null,
    tokenHash: null,
    keyId: null,
  };
}

const paramsForm = /^\(((?:"[^"]+" ?)*)\)((?:;[a-z]+=(?:"[^"\\]*"|\d+))+)$/;
const digestForm = /(?:^|, ?)sha-256=:([A-Za-z0-9+/]{43}=):(?=,|$)/;

export function readSignatureBase(signed: string): SignedRequest | undefined {
  const values = new Map<string, string>();
  for (const line of signed.split('\n')) {
    const [, name, value] = /^"([^"]+)": (.*)$/s.exec(line) ?? [];
    if (name === undefined || value === undefined || values.has(name)) return undefined;
    values.set(name, value);
  }
  const [, list, parameters] = paramsForm.exec(values.get('@signature-params') ?? '') ?? [];
  values.delete('@signature-params');
  const covers = [...values.keys()];
  if (parameters === undefined || list !== covers.map((name) => `"${name}"`).join(' ')) {
    return undefined;
  }
  const [method, url] = [values.get('@method'), values.get('@target-uri')];
  const created = /;created=(\d{1,12})(?:;|$)/.exec(parameters)?.[1];
  if (method === undefined || url === undefined || created === undefined) return undefined;
  const digest = digestForm.exec(values.get('content-digest') ?? '')?.[1];
  return {
    ...{ method, url, covers },
    bodySha256: digest === undefined ? null : Buffer.from(digest, 'base64').toString('hex'),
    signedAtMs: Number(created) * 1000,
    authorization: values.get('authorization') ?? null,
    tokenHash: null,
    keyId: /;keyid="([^"]*)"/.exec(parameters)?.[1] ?? null,
  };
}

/** `claims`: of the DPoP proof. */
export function readDpopClaims(claims: Record<string, unknown>): SignedRequest | undefined {
  const { htm, htu, ath, iat } = claims;
  if (typeof htm !== 'string' || typeof htu !== 'string' || typeof ath !== 'string') {
    return undefined;
  }
  if (!Number.isSafeInteger(iat)) return undefined;
  return {
    method: htm,
    url: htu,
    covers: ['method', 'url without query', 'token'],
    bodySha256: null,
    signedAtMs: (iat as number) * 1000,
    authorization: null,
    tokenHash: ath,
    keyId: null,
  };
}
