// Who sent this request: the verification of Signatures V4 and V4A in headers and in presigned
// URLs, and of forms whose policy Signature V4 signs. Invariant: an identity is returned only when
// the key's secret, or the private half of its public key, signed the method, the path, the whole
// query, `host`, every x-amz-* and x-bursar-* header, and the word or digest that stands for the
// body; of a form, its policy, by which each field is still to be judged (post-policy.ts). Such a
// header outside the signature could make the signer copy or publish what they never meant to.
// Specification: "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API
// reference; "AWS Signature Version 4A" of the IAM user guide.
import { Buffer } from 'node:buffer';
import {
  canonicalRequest,
  type Headers,
  percentEncode,
  type QueryPairs,
} from '../core/canonical-request.ts';
import { type IntegrityError, Refusal } from '../core/errors.ts';
import type { SignedEvidence } from '../core/evidence.ts';
import { clockSkewMsMax } from '../core/limits.ts';
import type { Principal } from '../core/principal.ts';
import {
  algorithm,
  deriveSigningKey,
  equalSignatures,
  type Scope,
  SigningKeys,
  signText,
  stringToSign,
} from '../core/sigv4.ts';
import { asymmetricAlgorithm, verifyText } from '../core/sigv4a.ts';
import { type Claim, readClaim, readFormClaim, refuseQueryClaim } from './claim.ts';
import type { Actor, Delegation, Evidence, Identity } from './identity.ts';
import type { FormFields } from './post-policy.ts';
import { RefusedUse } from './refused-use.ts';
import {
  checkAllSigned,
  headerValues,
  type Payload,
  readPayload,
  readPayloadWord,
} from './signed-parts.ts';
import type { PublicKey } from './tokens/keys.ts';

export type { Identity } from './identity.ts';
export type { Payload } from './signed-parts.ts';

export interface SignedRequest {
  method: string;
  /** Decoded UTF-8 path (each %XX decoded once), begins with '/'. */
  path: string;
  /** Decoded query pairs in order of appearance. */
  query: QueryPairs;
  headers: Headers;
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
  /** Log index of the record of that key's enrolment. */
  enrolledAt?: number;
  /** Of temporary keys; null: all that the principal may. */
  delegation: Delegation | null;
}

export type FindAccessKey = (id: string) => Promise<AccessKey | undefined>;

/** Throws Refusal InvalidToken where the session token is not the key's own. */
export type FindTemporaryKey = (
  id: string,
  sessionToken: string,
  nowMs: number,
) => Promise<AccessKey | undefined>;

/** Who bears a token, and proves the key it is bound to, if it is. */
export interface BearerVerifier {
  /** `scheme` as it was written, `Bearer` or `DPoP`. Throws a Refusal. */
  authenticate(request: SignedRequest, scheme: string, token: string): Promise<Identity>;
  /** Whom a token lets act as things are now, by the clock of then. Throws a Refusal. */
  renew(
    token: string,
    atMs: number,
  ): Promise<Pick<Identity, 'principal' | 'subjects' | 'delegation'>>;
}

export interface AuthenticatorOptions {
  /** Those that last. */
  findAccessKey: FindAccessKey;
  /** Those that come with a session token; absent: there are none. */
  findTemporaryKey?: FindTemporaryKey;
  /** Absent: tokens are not taken. */
  bearer?: BearerVerifier;
  /** Was one of these `jti`s revoked? */
  isRevoked?: (ids: readonly string[]) => boolean;
  /** Who is not served, whatever they ask, and why. */
  faults?: {
    readonly isEmpty: boolean;
    ofPrincipal: (principal: Principal) => IntegrityError | null;
  };
  /** Told of each request that is made with these, which are the same object as long as may be. */
  onUse?: (ids: readonly string[]) => void;
  nowMs?: () => number;
}

const bearerScheme = /^(Bearer|DPoP)(?: +|$)/i;

const keptKeys = 10_000;

export class Authenticator {
  readonly #findAccessKey: FindAccessKey;
  readonly #findTemporaryKey: FindTemporaryKey;
  readonly #bearer: BearerVerifier | undefined;
  readonly #isRevoked: (ids: readonly string[]) => boolean;
  readonly #faults: AuthenticatorOptions['faults'];
  readonly #onUse: (ids: readonly string[]) => void;
  readonly #nowMs: () => number;
  readonly #keys = new SigningKeys(keptKeys);
  /** Signs for keys that do not exist, so that these cost what the others cost. */
  readonly #nobodysKey = Buffer.alloc(32);

  constructor(options: AuthenticatorOptions) {
    this.#findAccessKey = options.findAccessKey;
    this.#findTemporaryKey = options.findTemporaryKey ?? refuseSession;
    this.#bearer = options.bearer;
    this.#isRevoked = options.isRevoked ?? (() => false);
    this.#faults = options.faults;
    this.#onUse = options.onUse ?? (() => {});
    this.#nowMs = options.nowMs ?? Date.now;
  }

  /** null: the request carries no credentials at all (anonymous). Throws a Refusal otherwise. */
  async authenticate(request: SignedRequest): Promise<Identity | null> {
    const { authorization } = request.headers;
    const scheme = this.#bearer && authorization && bearerScheme.exec(authorization);
    if (!authorization || !scheme) return this.#verifySignature(request);
    refuseQueryClaim(authorization, request.query);
    const [whole, name = ''] = scheme;
    return this.authenticateToken(request, name, authorization.slice(whole.length));
  }

  /**
   * Who bears a token that came elsewhere in the request than in its Authorization header. Throws a
   * Refusal.
   */
  async authenticateToken(
    request: SignedRequest,
    scheme: string,
    token: string,
  ): Promise<Identity> {
    if (!this.#bearer) throw new Refusal('NotImplemented');
    const identity = await this.#bearer.authenticate(request, scheme, token);
    this.#checkUse(identity, request);
    return identity;
  }

  /**
   * Who signed the policy of a form: their secret signed its very text. null: the form carries no
   * credentials. Throws a Refusal otherwise.
   */
  async authenticateForm(request: SignedRequest, fields: FormFields): Promise<Identity | null> {
    const claim = readFormClaim(fields);
    if (claim === null) return null;
    checkTime(claim, this.#nowMs());
    const text = fields.get('policy') ?? '';
    const accessKey = await this.#keyOf(claim);
    const signingKey = this.#verify(claim, text, accessKey);
    if (accessKey === undefined) throw unknownKey(claim);
    if (!signingKey) throw mismatch(claim, text, null, accessKey);
    const payload: Payload = { kind: 'unsigned' };
    const identity = identityOf(claim, accessKey, { evidence: 'shared-secret', payload });
    this.#checkUse(identity, request);
    return identity;
  }

  /**
   * An identity that was authenticated at `atMs`, as things are now: its key, token and principal
   * have to be good still, and what they may is what it is now. Not asked again is what the request
   * itself has proven, and nothing ends by the time that has passed since then. Throws a Refusal.
   */
  async renew(request: SignedRequest, who: Identity, atMs: number): Promise<Identity> {
    if (who.isAnonymous) return who;
    const authorization = request.headers.authorization ?? '';
    const [whole] = bearerScheme.exec(authorization) ?? [];
    if (this.#bearer && whole !== undefined) {
      return this.renewToken(request, who, { token: authorization.slice(whole.length), atMs });
    }
    const claim = readClaim(request.headers, request.query);
    return this.#renewKey(request, who, { claim, atMs });
  }

  /** The same of who bears a token that came elsewhere in the request. */
  async renewToken(
    request: SignedRequest,
    who: Identity,
    { token, atMs }: { token: string; atMs: number },
  ): Promise<Identity> {
    if (!this.#bearer) throw new Refusal('NotImplemented');
    return this.#renewed(request, who, { ...(await this.#bearer.renew(token, atMs)), atMs });
  }

  /** The same of who signed the policy of a form. */
  async renewForm(
    request: SignedRequest,
    who: Identity,
    { fields, atMs }: { fields: FormFields; atMs: number },
  ): Promise<Identity> {
    return who.isAnonymous
      ? who
      : this.#renewKey(request, who, { claim: readFormClaim(fields), atMs });
  }

  async #renewKey(
    request: SignedRequest,
    who: Identity,
    { claim, atMs }: { claim: Claim | null; atMs: number },
  ): Promise<Identity> {
    if (claim === null) throw new Refusal('AccessDenied');
    const key = await this.#keyOf(claim);
    const isSame = (key?.publicKey?.thumbprint ?? null) === who.keyThumbprint;
    if (!key || !isSame) throw unknownKey(claim);
    const { principal, subjects, delegation } = key;
    return this.#renewed(request, who, { principal, subjects, delegation, atMs });
  }

  #renewed(
    request: SignedRequest,
    who: Identity,
    { atMs, ...now }: Pick<Identity, 'principal' | 'subjects' | 'delegation'> & { atMs: number },
  ): Identity {
    if (now.principal.id !== who.principal.id) throw new Refusal('AccessDenied');
    const renewed = { ...who, ...now };
    this.#checkStill(renewed, request, atMs);
    return renewed;
  }

  /**
   * The tenant of the key that a presigned URL names; null: it names none. Nothing of it is proven:
   * it only says which bucket is meant.
   */
  async findClaimedTenant({ query }: Pick<SignedRequest, 'query'>): Promise<string | null> {
    try {
      const claim = readClaim({}, query);
      if (claim === null) return null;
      const accessKey = await this.#keyOf(claim);
      return accessKey?.principal.tenant ?? null;
    } catch (error) {
      if (error instanceof Refusal) return null;
      throw error;
    }
  }

  /** What is asked anew for each request, of tokens and of temporary keys made from them. */
  #checkUse(who: Identity, request: SignedRequest): void {
    this.#checkStill(who, request, this.#nowMs());
    if (who.delegation !== null) this.#onUse(who.delegation.ids);
  }

  #checkStill(who: Identity, { source }: SignedRequest, nowMs: number): void {
    const faults = this.#faults;
    const cause = faults && !faults.isEmpty && faults.ofPrincipal(who.principal);
    if (cause) throw new RefusedUse(who, 'BursarIntegrityError', { cause });
    if (who.delegation === null) return;
    const { ids, conditions, expiresAtMs } = who.delegation;
    if (this.#isRevoked(ids)) {
      throw new RefusedUse(who, 'AccessDenied', { message: 'The token was revoked.' });
    }
    if (nowMs >= expiresAtMs) throw new RefusedUse(who, 'ExpiredToken');
    if (!conditions.allowSource(source)) {
      const message = 'The token may not be used from this address.';
      throw new RefusedUse(who, 'AccessDenied', { message });
    }
  }

  #keyOf({ accessKeyId, sessionToken }: Claim): Promise<AccessKey | undefined> {
    if (sessionToken === undefined) return this.#findAccessKey(accessKeyId);
    return this.#findTemporaryKey(accessKeyId, sessionToken, this.#nowMs());
  }

  async #verifySignature(request: SignedRequest): Promise<Identity | null> {
    const claim = readClaim(request.headers, request.query);
    if (claim === null) return null;
    checkTime(claim, this.#nowMs());
    const payloadWord = readPayloadWord(claim, request);
    checkAllSigned(request, claim, payloadWord);
    const values = headerValues(request, claim);
    const parts = {
      method: request.method,
      path: request.path,
      query: request.query,
      headerNames: claim.signedHeaders,
      headerValues: values.texts,
      payload: payloadWord,
    };
    const canonical = canonicalRequest(parts);
    const text = stringToSign(claim.algorithm, claim.amzDate, claim.scopeLine, canonical);
    const accessKey = await this.#keyOf(claim);
    let signingKey = this.#verify(claim, text, accessKey);
    const sentPath = signingKey === undefined ? otherPath(request, claim) : undefined;
    if (sentPath !== undefined) {
      const sent = canonicalRequest({ ...parts, sentPath });
      const sentText = stringToSign(claim.algorithm, claim.amzDate, claim.scopeLine, sent);
      signingKey = this.#verify(claim, sentText, accessKey);
    }
    if (accessKey === undefined) throw unknownKey(claim);
    if (signingKey === undefined || !values.complete) {
      throw mismatch(claim, text, canonical, accessKey);
    }
    const { publicKey } = accessKey;
    const { scopeLine, amzDate, signature } = claim;
    const payload = readPayload(
      payloadWord,
      signingKey && { signingKey, scope: scopeLine, amzDate, signature },
    );
    const identity = identityOf(claim, accessKey, {
      evidence: gradeEvidence(request, claim, payload),
      signed: publicKey ? evidenceOf(claim, text, canonical, accessKey) : undefined,
      payload,
    });
    this.#checkUse(identity, request);
    return identity;
  }

  /**
   * What the signatures of chunks are made with, null for SigV4A, which has none; undefined: who
   * has the access key did not sign the text.
   */
  #verify(claim: Claim, text: string, accessKey: AccessKey | undefined): Buffer | null | undefined {
    const { scope, signature } = claim;
    if (scope !== null) return this.#verifyShared(claim, scope, text, accessKey?.secret ?? null);
    const key = accessKey?.publicKey?.keyObject;
    return key && verifyText(key, text, signature) ? null : undefined;
  }

  /**
   * The signing key, if the signature is by it. Whoever has no secret costs one HMAC all the same.
   */
  #verifyShared(
    { accessKeyId, scopeLine, signature }: Claim,
    scope: Scope,
    text: string,
    secret: string | null,
  ): Buffer | undefined {
    let signingKey: Buffer = this.#nobodysKey;
    let derived = false;
    if (secret !== null) {
      const kept = this.#keys.find(accessKeyId, secret, scopeLine);
      signingKey = kept ?? deriveSigningKey(secret, scope);
      derived = kept === undefined;
    }
    if (!equalSignatures(signText(signingKey, text), signature) || secret === null) {
      return undefined;
    }
    // Only a proven scope is kept: nobody without a secret can push another's key out of the cache.
    if (derived) this.#keys.keep(accessKeyId, secret, scopeLine, signingKey);
    return signingKey;
  }
}

async function refuseSession(): Promise<undefined> {
  throw new Refusal('InvalidToken');
}

/** As `s3:authType` has it. */
const authTypes = { header: 'REST-HEADER', query: 'REST-QUERY-STRING', form: 'POST' } as const;

/** Of a claim that was verified. */
function identityOf(
  claim: Claim,
  { principal, subjects, publicKey, delegation }: AccessKey,
  { evidence, signed, payload }: Pick<Identity, 'evidence' | 'signed' | 'payload'>,
): Identity {
  const { where, algorithm: version, signedAtMs, accessKeyId } = claim;
  return {
    principal,
    subjects,
    isAnonymous: false,
    accessKeyId,
    keyThumbprint: publicKey?.thumbprint ?? null,
    delegation,
    authentication: { type: authTypes[where], version, signedAtMs },
    presigned: where === 'query',
    evidence,
    signed,
    payload,
  };
}

function unknownKey({ accessKeyId }: Claim): Refusal {
  return new Refusal('InvalidAccessKeyId', { fields: { AWSAccessKeyId: accessKeyId } });
}

/**
 * The path as it came, which clients such as curl sign without encoding it anew; undefined: it is
 * S3's, or what S3 signs. It says the same path, so that is what was signed in either form.
 */
function otherPath({ path, target }: SignedRequest, { scope }: Claim): string | undefined {
  if (scope === null || !path.startsWith('/_/')) return undefined;
  const mark = target.indexOf('?');
  const sent = mark < 0 ? target : target.slice(0, mark);
  return sent === percentEncode(path, true) ? undefined : sent;
}

/** A key that a customer brings is not told, also not to who sent it: answers are logged. */
const customerKeyLine = /^(x-amz-[a-z-]*customer-key:).*$/gm;
const customerKeyParameter = /((?:^|&)x-amz-[a-z-]*customer-key=)[^&\n]*/gim;

/** `canonical`: null, a form has none. */
function mismatch(
  claim: Claim,
  text: string,
  canonical: string | null,
  accessKey: AccessKey,
): Refusal {
  const wanted = accessKey.secret === null ? asymmetricAlgorithm : algorithm;
  const shown =
    canonical?.replace(customerKeyLine, '$1***').replace(customerKeyParameter, '$1***') ?? null;
  const fields = {
    AWSAccessKeyId: claim.accessKeyId,
    StringToSign: text,
    SignatureProvided: claim.signature,
    StringToSignBytes: bytesOf(text),
    ...(shown !== null && {
      CanonicalRequest: shown,
      CanonicalRequestBytes: bytesOf(shown),
    }),
  };
  if (claim.algorithm === wanted) return new Refusal('SignatureDoesNotMatch', { fields });
  const message = `This access key signs with ${wanted}.`;
  return new Refusal('SignatureDoesNotMatch', { message, fields });
}

/** As S3 writes bytes, by which what cannot be seen of a text is found. */
function bytesOf(text: string): string {
  return Buffer.from(text, 'latin1')
    .toString('hex')
    .replace(/..(?!$)/g, '$& ');
}

/** Of a signature that verified. A presigned URL is good for anybody until it expires. */
function evidenceOf(
  { where, signature, signedAtMs, expiresSeconds }: Claim,
  signed: string,
  canonicalRequest: string,
  { publicKey, enrolledAt }: AccessKey,
): SignedEvidence {
  const { jwk, thumbprint } = publicKey as PublicKey;
  const part = {
    ...({ kind: 'sigv4a', jwk, thumbprint, signed, canonicalRequest } as const),
    signature: Buffer.from(signature, 'hex').toString('base64url'),
    ...(enrolledAt !== undefined && { enrolledAt }),
  };
  const lifeMs = where === 'header' ? clockSkewMsMax : expiresSeconds * 1000;
  return { parts: [part], replayableUntilMs: signedAtMs + lifeMs };
}

const bodiless = new Set(['GET', 'HEAD', 'DELETE']);

/**
 * A presigned URL proves who gave it out, not who used it with what. Both ends know the secret of
 * an HMAC: authenticated, but deniable.
 */
function gradeEvidence({ method }: SignedRequest, claim: Claim, payload: Payload): Evidence {
  if (claim.algorithm !== asymmetricAlgorithm) return 'shared-secret';
  const coversBody = payload.kind === 'sha256' || bodiless.has(method);
  return coversBody && claim.where === 'header' ? 'body-signed' : 'headers-signed';
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
