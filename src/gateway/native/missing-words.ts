// What is not there, by the names that the path of the call has: the code of a refusal says only of
// which kind it is. Nothing is told here that the caller has not said.
import { type ErrorCode, messageOf, type Refusal } from '../../core/errors.ts';

type Params = Readonly<Record<string, string | undefined>>;

const words: { readonly [C in ErrorCode]?: (params: Params) => string | undefined } = {
  NoSuchTenant: ({ t }) => t && `There is no tenant ${t}.`,
  NoSuchPrincipal: ({ t, p }) => t && p && `There is no principal ${t}/${p}.`,
  NoSuchGroup: ({ t, g }) => t && g && `There is no group ${g} of ${t}.`,
  NoSuchAccessKey: ({ t, p, id }) => t && p && id && `${t}/${p} has no access key ${id}.`,
  NoSuchPublicKey: ({ t, p, id }) => t && p && id && `${t}/${p} has no public key ${id} enrolled.`,
  NoSuchGrant: ({ t, grant }) => t && grant && `There is no grant ${grant} of ${t}.`,
  NoSuchMount: ({ t, p, mount }) => t && mount && `${p ? `${t}/${p}` : t} has no mount ${mount}.`,
  NoSuchIssuer: ({ t, i }) => t && i && `${t} trusts no issuer ${i}.`,
  NoSuchClass: ({ t, class: one }) => t && one && `${t} has no storage class ${one}.`,
  NoSuchBucket: ({ t, bucket }) => t && bucket && `There is no bucket ${bucket} of ${t}.`,
  NoSuchToken: ({ jti }) => jti && `No token ${jti} is known.`,
  NoSuchShare: ({ id }) => id && `There is no share link ${id}.`,
  NoSuchRecord: ({ index }) => index && `There is no record ${index}.`,
  NoSuchUpload: ({ upload }) => upload && `There is no upload ${upload}.`,
};

/** The message of a refusal that has none of its own; undefined: what its code says for all. */
export function missingWords(refusal: Refusal, params: unknown): string | undefined {
  if (refusal.message !== messageOf(refusal.code)) return undefined;
  return words[refusal.code]?.((params ?? {}) as Params) || undefined;
}
