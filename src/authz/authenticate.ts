// Who sent this request: the verification of Signature V4 in headers and in presigned URLs.
// Invariant: an identity is returned only when the key's secret signed the method, the path, the
// whole query, `host`, every x-amz-* and x-bursar-* header, and the word or digest that stands for
// the body. Such a header outside the signature could make the signer copy or publish what they
// never meant to.
// Specification: "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API
// reference.
import { Buffer } from 'node:buffer';
import {
  canonicalHeaderValue,
  canonicalRequest,
  type QueryPairs,
} from '../core/canonical-request.ts';
import { Refusal } from '../core/errors.ts';
import { clockSkewMsMax } from '../core/limits.ts';
import {
  algorithm,
  deriveSigningKey,
  equalSignatures,
  SigningKeys,
  signText,
  stringToSign,
  unsignedPayload,
} from '../core/sigv4.ts';
import { type Claim, type Headers, headerOf, readClaim, refuseQueryClaim } from './claim.ts';
import type { Actor, Delegation, Identity } from './identity.ts';
import { contentSha256, readPayload } from './payload.ts';
import type { PublicKey } from './tokens/keys.ts';

export type { Identity } from './identity.ts';
export type { Payload } from './payload.ts';

export interface SignedRequest {
  method: string;
  /** Decoded UTF-8 path (each %XX decoded once), begins with '/'. */
  path: string;
  /** Decoded query pairs in order of appearance. */
  query: ReadonlyArray<readonly [string, string]>;
  /** Node's IncomingMessage.headers (lower-case names). */
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Node's rawHeaders: name, value, name, value … */
  rawHeaders: readonly string[];
  /** The target as it came, nothing decoded. */
  target: string;
  /** Client address. */
  source: string;
  /** Did it come over TLS? */
  isSecure: boolean;
}

export interface AccessKey extends Actor {
  id: string;
  /** null: only its owner has it, who signs with SigV4A. */
  secret: string | null;
  /** Verifies the SigV4A signatures of a key without a secret; null: it has a secret. */
  publicKey: PublicKey | null;
  /** Of temporary keys; null: all that the principal may. */
  delegation: Delegation | null;
}

/**
 * Throws Refusal InvalidToken where the session token (undefined: none came) is not the key's own;
 * a permanent key has none.
 */
export type FindAccessKey = (
  id: string,
  sessionToken: string | undefined,
) => Promise<AccessKey | undefined>;

/** Who bears a token, and proves the key it is bound to, if it is. */
export interface BearerVerifier {
  /** `scheme` as it was written, `Bearer` or `DPoP`. Throws a Refusal. */
  authenticate(request: SignedRequest, scheme: string, token: string): Promise<Identity>;
}

export interface AuthenticatorOptions {
  findAccessKey: FindAccessKey;
  /** Absent: tokens are not taken. */
  bearer?: BearerVerifier;
  /** Was one of these `jti`s revoked? */
  isRevoked?: (ids: readonly string[]) => boolean;
  nowMs?: () => number;
}

const bearerForm = /^(Bearer|DPoP)(?: +(.*))?$/i;

const keptKeys = 10_000;

export class Authenticator {
  readonly #findAccessKey: FindAccessKey;
  readonly #bearer: BearerVerifier | undefined;
  readonly #isRevoked: (ids: readonly string[]) => boolean;
  readonly #nowMs: () => number;
  readonly #keys = new SigningKeys(keptKeys);
  /** Signs for keys that do not exist, so that these cost what the others cost. */
  readonly #nobodysKey = Buffer.alloc(32);

  constructor(options: AuthenticatorOptions) {
    this.#findAccessKey = options.findAccessKey;
    this.#bearer = options.bearer;
    this.#isRevoked = options.isRevoked ?? (() => false);
    this.#nowMs = options.nowMs ?? Date.now;
  }

  /** null: the request carries no credentials at all (anonymous). Throws a Refusal otherwise. */
  async authenticate(request: SignedRequest): Promise<Identity | null> {
    const identity = (await this.#verifyBearer(request)) ?? (await this.#verifySignature(request));
    if (identity?.delegation) this.#checkDelegation(identity.delegation, request);
    return identity;
  }

  /** What is asked anew for each request, of tokens and of temporary keys made from them. */
  #checkDelegation(delegation: Delegation, { source }: SignedRequest): void {
    const { ids, conditions, expiresAtMs } = delegation;
    if (this.#isRevoked(ids)) {
      throw new Refusal('AccessDenied', { message: 'The token was revoked.' });
    }
    if (this.#nowMs() >= expiresAtMs) throw new Refusal('ExpiredToken');
    if (!conditions.allowSource(source)) {
      const message = 'The token may not be used from this address.';
      throw new Refusal('AccessDenied', { message });
    }
  }

  /** undefined: there is no token, or tokens are not taken. */
  async #verifyBearer(request: SignedRequest): Promise<Identity | undefined> {
    const authorization = headerOf(request.headers, 'authorization');
    if (this.#bearer === undefined || authorization === undefined) return undefined;
    const [, scheme, token = ''] = bearerForm.exec(authorization) ?? [];
    if (scheme === undefined) return undefined;
    refuseQueryClaim(authorization, request.query);
    return this.#bearer.authenticate(request, scheme, token);
  }

  async #verifySignature(request: SignedRequest): Promise<Identity | null> {
    const claim = readClaim(request.headers, request.query);
    if (claim === null) return null;
    checkTime(claim, this.#nowMs());
    const payloadWord =
      claim.where === 'header'
        ? headerPayloadWord(request.headers)
        : queryPayloadWord(request.headers, request.query);
    checkAllSigned(request, claim, payloadWord);
    const values = headerValues(request, claim.signedHeaders);
    const canonical = canonicalRequest({
      method: request.method,
      path: request.path,
      query: request.query,
      headerNames: claim.signedHeaders,
      headerValues: values.texts,
      payload: payloadWord,
    });
    const accessKey = await this.#findAccessKey(claim.accessKeyId, claim.sessionToken);
    const signingKey = this.#verify(claim, canonical, accessKey, values.complete);
    const { principal, subjects, delegation } = accessKey as AccessKey;
    return {
      principal,
      subjects,
      isAnonymous: false,
      accessKeyId: claim.accessKeyId,
      keyThumbprint: null,
      delegation,
      // Both ends know the secret: authenticated, but deniable.
      evidence: 'shared-secret',
      authentication: {
        type: claim.where === 'header' ? 'REST-HEADER' : 'REST-QUERY-STRING',
        version: algorithm,
        signedAtMs: claim.signedAtMs,
      },
      payload: readPayload(payloadWord, {
        signingKey,
        scope: claim.scopeLine,
        amzDate: claim.amzDate,
        signature: claim.signature,
      }),
      presigned: claim.where === 'query',
    };
  }

  /**
   * The signing key, if the claim's signature is the secret's. One digest and one HMAC in any case.
   */
  #verify(
    claim: Claim,
    canonical: string,
    accessKey: AccessKey | undefined,
    complete: boolean,
  ): Buffer {
    const { accessKeyId, scopeLine, signature } = claim;
    const text = stringToSign(claim.amzDate, scopeLine, canonical);
    let signingKey: Buffer = this.#nobodysKey;
    const secret = accessKey?.secret ?? null;
    let derived = false;
    if (secret !== null) {
      const kept = this.#keys.find(accessKeyId, secret, scopeLine);
      signingKey = kept ?? deriveSigningKey(secret, claim.scope);
      derived = kept === undefined;
    }
    const equal = equalSignatures(signText(signingKey, text), signature);
    if (accessKey === undefined) {
      throw new Refusal('InvalidAccessKeyId', { fields: { AWSAccessKeyId: accessKeyId } });
    }
    if (!equal || !complete || secret === null) {
      throw new Refusal('SignatureDoesNotMatch', {
        fields: {
          AWSAccessKeyId: accessKeyId,
          StringToSign: text,
          SignatureProvided: signature,
          CanonicalRequest: canonical,
        },
      });
    }
    // Only a proven scope is kept: nobody without a secret can push another's key out of the cache.
    if (derived) this.#keys.keep(accessKeyId, secret, scopeLine, signingKey);
    return signingKey;
  }
}

function checkTime(claim: Claim, nowMs: number): void {
  const { signedAtMs } = claim;
  if (claim.where === 'header') {
    if (Math.abs(nowMs - signedAtMs) <= clockSkewMsMax) return;
    throw new Refusal('RequestTimeTooSkewed', {
      fields: {
        RequestTime: claim.amzDate,
        ServerTime: new Date(nowMs).toISOString(),
        MaxAllowedSkewMilliseconds: String(clockSkewMsMax),
      },
    });
  }
  if (signedAtMs > nowMs + clockSkewMsMax) {
    throw new Refusal('AccessDenied', { message: 'Request is not valid yet' });
  }
  const expiresMs = signedAtMs + claim.expiresSeconds * 1000;
  if (nowMs <= expiresMs) return;
  throw new Refusal('AccessDenied', {
    message: 'Request has expired',
    fields: {
      'X-Amz-Expires': String(claim.expiresSeconds),
      Expires: new Date(expiresMs).toISOString(),
      ServerTime: new Date(nowMs).toISOString(),
    },
  });
}

function headerPayloadWord(headers: Headers): string {
  const word = headerOf(headers, contentSha256);
  if (word !== undefined) return word;
  throw new Refusal('InvalidRequest', {
    message: `Missing required header for this request: ${contentSha256}`,
  });
}

/**
 * What stands for the body in a presigned request: the parameter, else the header, else
 * UNSIGNED-PAYLOAD. Whichever it is becomes the last line of the canonical request and is signed by
 * that, even where SDKs leave the header's name out of SignedHeaders.
 */
function queryPayloadWord(headers: Headers, query: QueryPairs): string {
  for (const [name, value] of query) {
    if (name === 'X-Amz-Content-Sha256' || name === contentSha256) return value;
  }
  return headerOf(headers, contentSha256) ?? unsignedPayload;
}

/** Whether a header of this name has a meaning for us. */
function hasMeaning(name: string): boolean {
  return name.startsWith('x-amz-') || name.startsWith('x-bursar-');
}

/** Counting suffices: every signed name that is present is one of the request's. */
function checkAllSigned(request: SignedRequest, claim: Claim, payloadWord: string): void {
  const { headers } = request;
  const { signedHeaders } = claim;
  let present = 0;
  for (const name in headers) if (hasMeaning(name)) present++;
  let signed = 0;
  for (const name of signedHeaders) if (hasMeaning(name) && Object.hasOwn(headers, name)) signed++;
  if (present === signed && signedHeaders.includes('host')) return;

  const unsigned = Object.keys(headers).filter((name) => {
    if (signedHeaders.includes(name)) return false;
    // In a presigned request the canonical form's last line may have signed it: see above.
    const bound = claim.where === 'query' && headers[contentSha256] === payloadWord;
    return hasMeaning(name) && !(name === contentSha256 && bound);
  });
  if (!signedHeaders.includes('host')) unsigned.unshift('host');
  if (unsigned.length === 0) return;
  throw new Refusal('AccessDenied', {
    message: 'There were headers present in the request which were not signed',
    fields: { HeadersNotSigned: unsigned.join(', ') },
  });
}

/** The signed headers' values; `complete` is false if the request lacks one of them. */
function headerValues(
  request: SignedRequest,
  names: readonly string[],
): { texts: string[]; complete: boolean } {
  const texts: string[] = [];
  let complete = true;
  for (const name of names) {
    const value = headerOf(request.headers, name);
    if (value === undefined) {
      complete = false;
      texts.push('');
    } else if (value.includes(', ')) {
      texts.push(joinRepeated(request.rawHeaders, name) ?? canonicalHeaderValue(value));
    } else {
      texts.push(canonicalHeaderValue(value));
    }
  }
  return { texts, complete };
}

/** Node joins a repeated header with ', ', the canonical form with ','. undefined: not repeated. */
function joinRepeated(rawHeaders: readonly string[], name: string): string | undefined {
  const values: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if ((rawHeaders[i] as string).toLowerCase() !== name) continue;
    values.push(canonicalHeaderValue(rawHeaders[i + 1] as string));
  }
  return values.length > 1 ? values.join(',') : undefined;
}
