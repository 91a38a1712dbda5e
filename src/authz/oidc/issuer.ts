// An outside issuer of tokens that a tenant trusts, and what it is trusted with. Invariant: an
// issuer is known by the exact text of its URL, which tokens carry as `iss` and discovery repeats;
// nothing is normalised, so no other text stands for it.
// Specification: OpenID Connect Discovery 1.0 section 3 and 4.3; RFC 8414 section 2.
import { Refusal } from '../../core/errors.ts';
import { parsePath, renderPath, ScopeError } from '../tokens/scope.ts';
import { isLoopbackAddress } from './address-policy.ts';

/**
 * The principals that an issuer's tokens act as. Principals and groups are of the tenant that
 * trusts it.
 */
export interface IssuerMapping {
  /** `/bucket/prefix`, percent-encoded: where its tokens reach, and where their paths begin. */
  pathPrefix: string;
  /** Names of principals by the tokens' `sub`. */
  principals: Readonly<Record<string, string>>;
  /** Names of groups by entries of the tokens' `wlcg.groups` or `groups`. */
  groups: Readonly<Record<string, string>>;
  /** The principal for every other `sub`; null: those are refused. */
  defaultPrincipal: string | null;
}

export interface IssuerEntry {
  tenant: string;
  name: string;
  /** The `iss` of its tokens. */
  url: string;
  /** What tokens must have in `aud`. */
  audience: string;
  mapping: IssuerMapping;
  createdMs: number;
}

const urlLengthMax = 256;

/**
 * Is the audience the tenant's own, `https://s3.example.org/cms`? Its last segment names the
 * tenant, so that no audience is two tenants' own.
 */
export function namesTenant(audience: string, tenant: string): boolean {
  return lastSegment(audience) === tenant;
}

/** The tenant that an audience names, if there is one of this name. */
export function lastSegment(audience: string): string | null {
  const slash = audience.lastIndexOf('/');
  return slash < 0 ? null : audience.slice(slash + 1);
}

/** Throws Refusal InvalidInput unless keys can be asked for at this URL by OIDC discovery. */
export function checkIssuerUrl(text: string): void {
  const fits = text.length <= urlLengthMax && URL.canParse(text) && isPlain(new URL(text), text);
  if (fits) return;
  const rule = `must be the issuer's https URL as its tokens have it in "iss", without query`;
  throw new Refusal('InvalidInput', {
    message: `body.url ${rule}.`,
    fields: { field: 'body.url' },
  });
}

/** Plain http is for an issuer on the gateway's own machine only. */
function isPlain(url: URL, text: string): boolean {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const isSecure =
    url.protocol === 'https:' || (url.protocol === 'http:' && isLoopbackAddress(host));
  const isWhole = url.href === text || url.href === `${text}/`;
  return isSecure && isWhole && !url.search && !url.hash && !url.username && !url.password;
}

/** The path in the one form that is stored. Throws Refusal InvalidInput. */
export function canonicalPathPrefix(text: string): string {
  try {
    return renderPath(parsePath(text));
  } catch (error) {
    if (!(error instanceof ScopeError)) throw error;
    const field = 'body.mapping.pathPrefix';
    throw new Refusal('InvalidInput', {
      message: `${field} ${error.message}.`,
      fields: { field },
      cause: error,
    });
  }
}
