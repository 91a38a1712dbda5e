// What the links of a token prove, for the record: who signed each, and whose keys these are.
// Invariant: of a token that its bearer needs no key for the last link is left out, so that nobody
// can use what is kept. Gathered once for each chain, as long as that is kept.
import type { Reader } from '../core/database.ts';
import type { SignedEvidence, SignedPart } from '../core/evidence.ts';
import { proofWindowMs } from './tokens/bounds.ts';
import { type Chain, readLinks } from './tokens/chain.ts';
import type { PublicKey } from './tokens/keys.ts';
import type { Proof } from './tokens/proof.ts';

export interface LinkEvidence {
  /** Undefined: no link proves anything without the last. */
  ofBearer: SignedEvidence | undefined;
  /** Adds what a request itself shows of the key that the chain is bound to. */
  withProof(proof: Proof, key: PublicKey): SignedEvidence;
}

export class ChainEvidence {
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
