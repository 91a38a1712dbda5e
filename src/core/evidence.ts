// What a client signed with a key of its own, in plain data: authz takes it from requests, audit
// keeps and verifies it. Invariant: all that a text below stands for are its Latin-1 bytes, exactly
// those that were signed. Specification: docs/formats/evidence.md.

/** The members that RFC 7638 hashes, and no others. */
export type EvidenceJwk =
  | { kty: 'OKP'; crv: 'Ed25519'; x: string }
  | { kty: 'EC'; crv: 'P-256'; x: string; y: string };

export type EvidenceKind =
  /** AWS Signature Version 4A: `signed` is the string to sign. */
  | 'sigv4a'
  /** RFC 9421: the signature base. */
  | 'http-signature'
  /** RFC 9449: a JWS signing input, as are the two below. */
  | 'dpop'
  /** A link of the token that was used. */
  | 'token-link'
  /** The text that the holder of a key signed to enrol it. */
  | 'key-proof';

/** Something that somebody signed. */
export interface SignedPart {
  kind: EvidenceKind;
  jwk: EvidenceJwk;
  /** RFC 7638. */
  thumbprint: string;
  /** Log index of the record of the key's enrolment; absent: it is not enrolled. */
  enrolledAt?: number;
  signed: string;
  /** base64url: DER of a `sigv4a` signature, else 64 bytes. */
  signature: string;
  /** Of `sigv4a`: what the string to sign has the digest of. */
  canonicalRequest?: string;
}

/** All that proves one request. */
export interface SignedEvidence {
  /** Links first, from the first down; what was signed for this very request comes last. */
  parts: readonly SignedPart[];
  /** Until then whoever has it could send the request again; null: nobody could with it. */
  replayableUntilMs: number | null;
}
