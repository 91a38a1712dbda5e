// The things that a key which is taken away makes another, as journals name them.
import type { Thing } from '../journal/identity-format.ts';

/** `thumbprint`: of its public key; null: it has none. */
export function principalAndKey(
  tenant: string,
  principal: string,
  thumbprint: string | null,
): Thing[] {
  const own: Thing = { kind: 'principal', tenant, name: principal };
  return thumbprint === null ? [own] : [own, { kind: 'publicKey', tenant, name: thumbprint }];
}
