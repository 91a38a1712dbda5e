// The ids of outside issuers' tokens, `oidc.TENANT.ISSUER.OWN`, under which they are recorded and
// revoked. Invariant: no two issuers' ids are alike, whatever the issuers write in their tokens.

const outsideKind = 'oidc';

interface NamedIssuer {
  tenant: string;
  name: string;
}

/** `own` tells it from the issuer's others, and has no dot. */
export function outsideIdOf({ tenant, name }: NamedIssuer, own: string): string {
  return [outsideKind, undot(tenant), undot(name), own].join('.');
}

/** The issuer in such an id; undefined if it is of another kind. */
export function issuerOfId(id: string): NamedIssuer | undefined {
  const [kind, tenant = '', name = '', own] = id.split('.');
  if (kind !== outsideKind || own === undefined) return undefined;
  return { tenant: redot(tenant), name: redot(name) };
}

/** Dots part an id. Names have no capitals, so that each stays another. */
function undot(name: string): string {
  return name.replaceAll('.', 'D');
}

function redot(part: string): string {
  return part.replaceAll('D', '.');
}
