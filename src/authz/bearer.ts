// Who bears a token, and whether they prove the key that it is bound to. Invariants: a token that
// is bound to a key counts only with a proof of it for this very request, and for a write only
// once; what a proof says of the body, the body must be; and its principal is asked for at each
// request.
// Specification: docs/formats/token.md, "Verifying" and "Proofs"; RFC 6750 section 2.1, RFC 9449
// section 7.
import { createHash } from 'node:crypto';
import { decodeBase64url } from '../core/base64.ts';
import type { Reader } from '../core/database.ts';
import { Refusal } from '../core/errors.ts';
import type { SignedEvidence, SignedPart } from '../core/evidence.ts';
import { principalId } from '../core/principal.ts';
import type { BearerVerifier, SignedRequest } from './authenticate.ts';
import type { Actor, Actors, Delegation, Identity } from './identity.ts';
import { contentSha256, type Payload, readPayload } from './signed-parts.ts';
import type { TokenKeys } from './token-keys.ts';
import { linkOfSingle, linksOf, type SeenLink } from './token-use.ts';
import { proofWindowMs } from './tokens/bounds.ts';
import { type Chain, type Issuer, type IssuerClaim, readLinks } from './tokens/chain.ts';
import { proofRefusal, tokenRefusal } from './tokens/faults.ts';
import { type PublicKey, readPublicKey } from './tokens/keys.ts';
import { linkType } from './tokens/link.ts';
import { NonceStore } from './tokens/nonce-store.ts';
import { type Proof, verifyProof } from './tokens/proof.ts';
import { parseStrictObject } from './tokens/strict-json.ts';
import { type RecentChains, VerifiedChains } from './tokens/verified-chains.ts';

interface BearerTokensOptions {
  read: Reader;
  directory: Actors;
  keys: TokenKeys;
  /** Chains that were verified. It is cleared when a key or principal is made or taken away. */
  recent: RecentChains;
  /** Tokens of outside issuers. */
  outside: OutsideVerifier;
  /** The gateway's own URL, which tokens are for; asked for once requests come in. */
  publicUrl: () => string;
  /** Told of what is used for the first time since it was verified. */
  onSeen?: (links: readonly SeenLink[]) => void;
  nowMs?: () => number;
}

/** The principal that a token acts as, and what the token allows it. */
type Borne = { actor: Actor; delegation: Delegation };

export interface OutsideVerifier {
  /** Throws Refusal InvalidBearerToken, ExpiredBearerToken or AccessDenied. */
  authenticate(text: string, nowMs: number): Promise<Borne>;
}

/** What the request itself shows. */
type Shown = Pick<Identity, 'evidence' | 'keyThumbprint' | 'payload' | 'signed'>;

/** How policies call it, in the place of AWS's ways to authenticate. */
export const bearerType = 'BEARER';
const headerLengthMax = 1024;
const nothing = createHash('sha256').digest();

export class BearerTokens implements BearerVerifier {
  readonly #read: Reader;
  readonly #directory: Actors;
  readonly #keys: TokenKeys;
  readonly #outside: OutsideVerifier;
  readonly #publicUrl: () => string;
  readonly #onSeen: (links: readonly SeenLink[]) => void;
  readonly #nowMs: () => number;
  readonly #chains: VerifiedChains;
  readonly #delegations = new WeakMap<Chain, Delegation>();
  readonly #seenOutside = new WeakSet<Delegation>();
  readonly #nonces: NonceStore;
  readonly #evidence: ChainEvidence;

  constructor(options: BearerTokensOptions) {
    const { publicUrl } = options;
    this.#read = options.read;
    this.#directory = options.directory;
    this.#keys = options.keys;
    this.#outside = options.outside;
    this.#publicUrl = publicUrl;
    this.#onSeen = options.onSeen ?? (() => {});
    this.#nowMs = options.nowMs ?? Date.now;
    this.#nonces = new NonceStore({ sinceMs: this.#nowMs() });
    this.#evidence = new ChainEvidence(options.read);
    this.#chains = new VerifiedChains({
      recent: options.recent,
      findIssuerKey: (claim) => this.#findIssuerKey(claim),
      // Known once the gateway listens.
      get audience() {
        return publicUrl();
      },
    });
  }

  /** The hits and misses of verified chains. */
  get cache(): VerifiedChains['cache'] {
    return this.#chains.cache;
  }

  /**
   * Who bears the token, with the proof that this request has. Throws Refusal InvalidBearerToken,
   * ExpiredBearerToken, InvalidProof, AccessDenied or SlowDown. Not asked: whether it was revoked,
   * and its conditions, which is the authenticator's to do.
   */
  async authenticate(request: SignedRequest, scheme: string, token: string): Promise<Identity> {
    const nowMs = this.#nowMs();
    const isDpop = scheme.toLowerCase() === 'dpop';
    const chain = await this.#findChain(token, nowMs);
    if (chain === null) {
      const borne = await this.#outside.authenticate(token, nowMs);
      const shown = showUnbound(request, isDpop);
      this.#seeOutside(borne, nowMs);
      return identityOf(borne, shown, nowMs);
    }
    const actor = await this.#actorOf(chain);
    const links = this.#evidence.find(chain) ?? (await this.#evidence.gather(chain, token));
    const shown =
      chain.boundKey === undefined
        ? { ...showUnbound(request, isDpop), signed: links.ofBearer }
        : await this.#prove(request, { isDpop, chain, key: chain.boundKey, links, nowMs });
    return identityOf({ actor, delegation: this.#delegationOf(chain) }, shown, nowMs);
  }

  /**
   * Verifies the token again, as things are now, by the clock of `atMs`; its proof is not asked for
   * twice.
   */
  async renew(token: string, atMs: number): Promise<Actor & { delegation: Delegation }> {
    const chain = await this.#findChain(token, atMs);
    if (chain) return { ...(await this.#actorOf(chain)), delegation: this.#delegationOf(chain) };
    const { actor, delegation } = await this.#outside.authenticate(token, atMs);
    return { ...actor, delegation };
  }

  /** null: the token is an outside issuer's. */
  async #findChain(token: string, nowMs: number): Promise<Chain | null> {
    const known = this.#chains.find(token, nowMs);
    if (known) return known;
    return isLinkToken(token) ? this.#chains.verify(token, nowMs) : null;
  }

  async #actorOf(chain: Chain): Promise<Actor> {
    const actor = await this.#directory.findActor(chain.subject);
    if (actor === undefined) {
      throw tokenRefusal('Claims', 'acts in the name of a principal who is not there, or inactive');
    }
    return actor;
  }

  async #findIssuerKey({ issuer, keyId, thumbprint }: IssuerClaim): Promise<Issuer | undefined> {
    if (thumbprint === undefined) {
      const key =
        issuer === this.#publicUrl() && keyId !== undefined ? this.#keys.find(keyId) : undefined;
      return key && { key };
    }
    const row = await this.#read.get<{ jwk: string; tenant: string; principal: string }>(
      `SELECT jwk, tenant, principal FROM public_keys
       WHERE thumbprint = ? AND purpose = 'token' AND active`,
      thumbprint,
    );
    const key = row && readPublicKey(JSON.parse(row.jwk));
    return key && { key, principal: principalId(row.tenant, row.principal) };
  }

  async #prove(
    request: SignedRequest,
    { isDpop, chain, key, links, nowMs }: Bound,
  ): Promise<Shown> {
    const { method, headers } = request;
    const described = { method, headers, hasBody: hasBody(request), url: this.#urlOf(request) };
    const proof = await verifyProof(described, { key, tokenHash: chain.hash, nowMs });
    if (isDpop !== (proof.kind === 'dpop')) {
      const rule = 'does not fit the scheme: DPoP has a DPoP proof, Bearer an HTTP signature';
      throw proofRefusal('Header', rule);
    }
    const payload = payloadOf(request, proof);
    if (method !== 'GET' && method !== 'HEAD') {
      const { nonce, createdMs } = proof;
      this.#nonces.use({ owner: chain.subject, key: key.thumbprint, nonce, createdMs }, nowMs);
    }
    const signed = links.withProof(proof, key);
    return { evidence: proof.evidence, keyThumbprint: key.thumbprint, payload, signed };
  }

  /** The URL that the client asked for, as it must have seen it. */
  #urlOf({ headers, target, isSecure }: SignedRequest): string {
    const host = headers.host ?? '';
    const own = this.#publicUrl();
    // A proxy that ends TLS need not say so: under the public name the public scheme was used.
    const [scheme = '', name] = own.split('://');
    const isOwn = name?.toLowerCase() === host.toLowerCase();
    return `${isOwn ? scheme : isSecure ? 'https' : 'http'}://${host}${target}`;
  }

  #seeOutside({ actor, delegation }: Borne, nowMs: number): void {
    if (this.#seenOutside.has(delegation)) return;
    this.#seenOutside.add(delegation);
    this.#onSeen([linkOfSingle(actor.principal.id, delegation, nowMs)]);
  }

  #delegationOf(chain: Chain): Delegation {
    let delegation = this.#delegations.get(chain);
    if (delegation === undefined) {
      const { ids, scope, conditions, accounts, expiresAtMs } = chain;
      delegation = { ids, scope, conditions, accounts, policies: [], expiresAtMs };
      this.#delegations.set(chain, delegation);
      this.#onSeen(linksOf(chain));
    }
    return delegation;
  }
}

interface Bound {
  isDpop: boolean;
  chain: Chain;
  key: PublicKey;
  links: LinkEvidence;
  nowMs: number;
}

function identityOf({ actor, delegation }: Borne, shown: Shown, nowMs: number): Identity {
  const { evidence, keyThumbprint, payload, signed } = shown;
  return {
    principal: actor.principal,
    subjects: actor.subjects,
    isAnonymous: false,
    accessKeyId: null,
    keyThumbprint,
    delegation,
    evidence,
    signed,
    authentication: { type: bearerType, version: bearerType, signedAtMs: nowMs },
    payload,
    presigned: false,
  };
}

/** Whether it is a chain of links. Any other token is an outside issuer's. */
function isLinkToken(token: string): boolean {
  const dot = token.indexOf('.');
  if (dot < 0 || dot > headerLengthMax) return false;
  const bytes = decodeBase64url(token.slice(0, dot));
  return bytes !== undefined && parseStrictObject(bytes)?.typ === linkType;
}

/**
 * Whoever bears the token. Who sends a proof relies on it: where nothing says of whose key it must
 * be, it would be void, so it is refused.
 */
function showUnbound(request: SignedRequest, isDpop: boolean): Shown {
  const { headers } = request;
  if (isDpop || headers['signature-input'] !== undefined || headers.dpop !== undefined) {
    throw proofRefusal('Key', 'is of no use: the token is not bound to a key');
  }
  return {
    evidence: 'shared-secret',
    keyThumbprint: null,
    payload: unsignedPayloadOf(request),
  };
}

function hasBody({ headers }: SignedRequest): boolean {
  const length = headers['content-length'];
  return headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/** Where nothing signs the body, it is still compared with the digest that the client states. */
export function unsignedPayloadOf({ headers }: SignedRequest): Payload {
  const word = headers[contentSha256];
  return word === undefined ? { kind: 'unsigned' } : readPayload(word, null);
}

function payloadOf(request: SignedRequest, proof: Proof): Payload {
  const said = unsignedPayloadOf(request);
  if (proof.kind === 'dpop') return said;
  const sha256 = proof.contentSha256 ?? nothing;
  if (said.kind === 'unsigned-chunks') {
    const message = 'A body whose Content-Digest is signed may not be in aws-chunked frames.';
    throw new Refusal('InvalidRequest', { message });
  }
  if (said.kind === 'sha256' && !said.sha256.equals(sha256)) {
    throw new Refusal('XAmzContentSHA256Mismatch');
  }
  return { kind: 'sha256', sha256 };
}

// What the links of a token prove, for the record: who signed each, and whose keys these are.
// Invariant: of a token that its bearer needs no key for the last link is left out, so that nobody
// can use what is kept. Gathered once for each chain, as long as that is kept.

interface LinkEvidence {
  /** Undefined: no link proves anything without the last. */
  ofBearer: SignedEvidence | undefined;
  /** Adds what a request itself shows of the key that the chain is bound to. */
  withProof(proof: Proof, key: PublicKey): SignedEvidence;
}

class ChainEvidence {
  readonly #read: Reader;
  readonly #gathered = new WeakMap<Chain, LinkEvidence>();

  constructor(read: Reader) {
    this.#read = read;
  }

  find(chain: Chain): LinkEvidence | undefined {
    return this.#gathered.get(chain);
  }

  /** Gathers the evidence of the chain that `token` is. */
  async gather(chain: Chain, token: string): Promise<LinkEvidence> {
    const parts: SignedPart[] = [];
    const isBearer = chain.boundKey === undefined;
    const links = readLinks(token);
    for (const [i, { jws }] of (isBearer ? links.slice(0, -1) : links).entries()) {
      const key = i === 0 ? chain.issuer.key : (chain.links[i - 1]?.holder as PublicKey);
      parts.push({
        ...(await this.#describe(key, chain)),
        kind: 'token-link',
        signed: jws.signingInput,
        signature: jws.signature.toString('base64url'),
      });
    }
    // The gateway's own signature proves nothing of a client.
    const isProven = parts.length > (chain.issuer.principal === undefined ? 1 : 0);
    const proofKey = chain.boundKey && (await this.#describe(chain.boundKey, chain));
    const gathered: LinkEvidence = {
      ofBearer: isBearer && isProven ? { parts, replayableUntilMs: null } : undefined,
      withProof: ({ kind, signed, signature, createdMs }, { jwk, thumbprint }) => {
        const part: SignedPart = {
          ...(proofKey ?? { jwk, thumbprint }),
          kind: kind === 'dpop' ? 'dpop' : 'http-signature',
          signed,
          signature: signature.toString('base64url'),
        };
        return { parts: [...parts, part], replayableUntilMs: createdMs + proofWindowMs };
      },
    };
    this.#gathered.set(chain, gathered);
    return gathered;
  }

  /** Nobody learns whether a key of another tenant is enrolled. */
  async #describe({ jwk, thumbprint }: PublicKey, { subject }: Chain) {
    const row = await this.#read.get<{ enrolledAt: number }>(
      'SELECT enrolled_seq AS enrolledAt FROM public_keys WHERE thumbprint = ? AND tenant = ?',
      thumbprint,
      subject.slice(0, subject.indexOf('/')),
    );
    return { jwk, thumbprint, ...row };
  }
}
