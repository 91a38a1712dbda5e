// Session tokens: all that a temporary key may, sealed into the text that comes with each of its
// requests, so that nothing of it is stored. Invariants: nobody but the gateway makes or reads one;
// it opens only beside the access key id that it was made for; tokens of older root keys open as
// long as those are in the keyring.
// Form: base64url of what core/sealing.ts makes of raw DEFLATE (RFC 1951) of JSON.
import { createHmac, createSecretKey } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { decodeBase64url } from '../../core/base64.ts';
import type { Keyring } from '../../core/keyring.ts';
import { Sealer } from '../../core/sealing.ts';
import type { TokenAccount } from '../tokens/chain.ts';
import type { Conditions } from '../tokens/conditions.ts';

/** What is sealed. Plain data. */
export interface Session {
  secret: string;
  /** The principal in whose name it acts, `tenant/name`. */
  principal: string;
  /** Groups of an outside issuer's mapping, besides those that the principal is in. */
  groups: readonly string[];
  /** The outside issuer's state, without which it is void; null: there is none. */
  issuer: string | null;
  /** The ids of the chain. */
  ids: readonly string[];
  /** null: wherever the principal may. */
  scope: string | null;
  conditions: readonly Conditions[];
  accounts: readonly TokenAccount[];
  /** The session policy as it came. */
  policy: string | null;
  expiresAtMs: number;
}

export class SessionSealer {
  readonly #sealer: Sealer;

  constructor(keyring: Keyring) {
    // Each access key id has a key of its own, so no nonce is used twice, however many ids there
    // are.
    this.#sealer = new Sealer(keyring, (epoch, context) =>
      createHmac('sha256', createSecretKey(keyring.sessionsKey(epoch)))
        .update(context)
        .digest(),
    );
  }

  /** The session token of an access key. */
  seal(accessKeyId: string, session: Session): string {
    const packed = deflateRawSync(JSON.stringify(session));
    return this.#sealer.seal(packed, contextOf(accessKeyId)).toString('base64url');
  }

  /** undefined: it is not from this gateway, not for this key, or was altered. */
  open(accessKeyId: string, token: string): Session | undefined {
    const sealed = decodeBase64url(token);
    if (!sealed) return undefined;
    let packed: Buffer;
    try {
      packed = this.#sealer.open(sealed, contextOf(accessKeyId));
    } catch {
      return undefined;
    }
    return JSON.parse(inflateRawSync(packed).toString()) as Session;
  }
}

function contextOf(accessKeyId: string): string {
  return `session/v1:${accessKeyId}`;
}
