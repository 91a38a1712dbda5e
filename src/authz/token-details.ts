// What lists show of a token's link besides its id: its claims, less what is the same in all of a
// chain. It is shown, and decides nothing.

import type { Limits } from '../core/quota-terms.ts';
import type { Conditions } from './tokens/conditions.ts';
import { thumbprintOf } from './tokens/keys.ts';
import type { Link } from './tokens/link.ts';
import { renderScope } from './tokens/scope.ts';

export interface TokenDetails {
  /** null: wherever its principal may. */
  scope: string | null;
  /** Thumbprint of the key that signed it; null: the gateway, or an outside issuer. */
  signer: string | null;
  /** Thumbprint of the key that it is bound to; null: whoever bears it may use it. */
  holder: string | null;
  depth: number;
  depthMax: number;
  issuedMs: number;
  notBeforeMs: number;
  limits?: Limits;
  conditions?: Conditions;
  /** What who asked for it called it. */
  label?: string;
}

export function detailsOf(link: Link): TokenDetails {
  const { scope, issuer, holder, depth, depthMax, limits, conditions } = link;
  return {
    scope: renderScope(scope),
    signer: thumbprintOf(issuer) ?? null,
    holder: holder?.thumbprint ?? null,
    ...{ depth, depthMax, issuedMs: link.issuedAtMs, notBeforeMs: link.notBeforeMs },
    ...(limits && { limits }),
    ...(conditions && { conditions }),
  };
}
