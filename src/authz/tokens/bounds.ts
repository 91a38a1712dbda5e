// The bounds of tokens and proofs, all checked before anything is parsed or verified, so that what
// a stranger sends costs at most its own few kilobytes.

const KiB = 1024;

/** A whole token: all its links and the `~` between them. Fits a header section of 32 KiB. */
export const tokenBytesMax = 16 * KiB;
export const linkBytesMax = 8 * KiB;
/** Links of a token; the deepest `del_depth` is one less. */
export const linksMax = 8;

export const scopeEntriesMax = 64;
/** `/`, a tenant and a bucket of 63 characters each and what parts them, and S3's longest key. */
export const scopePathBytesMax = 1 + 63 + 1 + 63 + 1 + 1024;

/** `iss`, `sub`, `aud`: names, URLs and thumbprint URIs. */
export const nameLengthMax = 256;
/** One link's own part of its `jti`. */
export const idPartLengthMax = 64;
export const networksMax = 64;
export const classesMax = 16;

/** The last second of the year 9999: what every clock and library can show. */
export const timeSecondsMax = 253_402_300_799;

/** A DPoP proof, a `Signature-Input` header, or a proof of a key. */
export const proofBytesMax = 4 * KiB;
export const coveredComponentsMax = 64;
export const nonceLengthMin = 8;
export const nonceLengthMax = 64;

/** How far the clocks of who signs and who verifies may be apart. */
export const clockSkewMs = 60_000;
/** How old or how far in the future a proof may be; also how long its nonce is remembered. */
export const proofWindowMs = 2 * 60_000;
/** Nonces that are remembered, at about 150 bytes each; and those of one principal's proofs. */
export const noncesMax = 500_000;
export const noncesPerOwnerMax = 100_000;
