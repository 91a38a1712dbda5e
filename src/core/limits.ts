// The bounds of everything a client can send and of everything we hold for it. S3's own limits come
// from "Amazon S3 multipart upload limits" and "Creating object key names"; the rest are ours.

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

// S3
export const keyBytesMax = 1024;
export const metadataBytesMax = 2 * KiB;
export const singlePutBytesMax = 5 * GiB;
export const objectBytesMax = 5 * 1024 * GiB;
export const partCountMax = 10_000;
export const partBytesMin = 5 * MiB;
// Checksums of the parts of an object, which are kept with it: 10,000 of 64 bits.
export const partChecksumsBytesMax = 80_000;
export const listKeysMax = 1000;
export const deleteKeysMax = 1000;
export const tagsMax = 10;
export const bucketTagsMax = 50;
export const tagKeyLengthMax = 128;
export const tagValueLengthMax = 256;
export const presignSecondsMax = 7 * 24 * 3600;
export const clockSkewMsMax = 15 * 60 * 1000;
export const sessionTokenBytesMax = 8 * KiB;
export const bucketsPerTenantMax = 10_000;
export const mountsPerTenantMax = 10_000;
/** That the grants of one tenant bring to another. */
export const aliasesMax = 100;
/** Of a principal's own, which nobody else sees. */
export const ownMountsMax = 100;
export const snapshotsPerBucketMax = 10_000;

// Two pages of the database: longer ones lie apart from the rows of versions.
export const rowManifestBytesMax = 8 * KiB;

// HTTP
export const headerBytesMax = 32 * KiB;
export const headerCountMax = 200;
export const targetBytesMax = 16 * KiB;
export const queryParametersMax = 100;
export const rangeHeaderLengthMax = 100;
export const pipelinedRequestsMax = 32;

// XML request bodies: 10,000 parts with five checksums each fit in 4 MiB.
export const xmlBytesMax = 4 * MiB;
export const xmlDepthMax = 10;
// Elements and attributes together: 10,000 parts with a number, an ETag and five checksums are
// 80,001.
export const xmlNodesMax = 100_000;
// 1,000 keys of 1,024 bytes with version ids and ETags are 1.2 MiB; the rest is for escapes.
export const deleteBodyBytesMax = 2 * MiB;
// 1,000 rules of a prefix, an id and a few tags.
export const lifecycleBodyBytesMax = MiB;
export const lifecycleRulesMax = 1000;
export const lifecycleIdLengthMax = 255;
// The bytes of such bodies that the process holds while they come in.
export const smallBodiesBytesMax = 64 * MiB;

// Forms, without the file, and CORS: AWS's own limits.
export const formBytesMax = 20 * KiB;
export const corsBodyBytesMax = 64 * KiB;
export const corsRulesMax = 100;
/** Of a bucket. AWS has 1,000; each of these is written in turn. */
export const inventoriesMax = 100;
/** AWS's own: configurations of archives of a bucket, and how long their document is. */
export const tieringsMax = 1000;
export const tieringsLengthMax = MiB;
/** AWS's own: rules of notifications of a bucket. */
export const notificationRulesMax = 100;
/** AWS's own: rules of a website, and how long its document is. */
export const routingRulesMax = 50;
export const websiteBodyBytesMax = 128 * KiB;
// Rules of the longest names, prefixes and suffixes, escaped.
export const notificationBodyBytesMax = 512 * KiB;
/** Of allowed headers with something on both sides of their star, which cost the most to match. */
export const corsInfixesMax = 100;

// aws-chunked
export const chunkHeaderBytesMax = 4 * KiB;
export const chunkBytesMax = 64 * MiB;
export const trailerBytesMax = 8 * KiB;

// Bytes at rest (docs/formats/extent.md)
export const extentBytesMax = 16 * MiB;
export const chunkBytes = 256 * KiB;
export const tagBytes = 32;
export const inlineBytesMax = 64 * KiB;

/**
 * Extents of a version that lifecycle rules move, and of what it is written into, a class of
 * several legs counted once for each: one commit names them all, and nobody else can commit
 * meanwhile.
 */
export const movedExtentsMax = 10_000;

/** Runs of extents that an object of this size may have: copies of slices of slices must end. */
export function manifestRunsMax(sizeBytes: number): number {
  return 20_000 + 2 * Math.ceil(sizeBytes / extentBytesMax);
}

// Native API
export const nativeBodyBytesMax = 64 * KiB;
export const accessKeysPerPrincipalMax = 100;
export const issuersPerTenantMax = 20;
export const classesPerTenantMax = 50;
export const publicKeysPerPrincipalMax = 20;
export const groupsPerPrincipalMax = 100;
export const sharesPerPrincipalMax = 10_000;
export const sharePageEntriesMax = 200;
// Tokens that the gateway issued and that have not expired; those that others made and used here
// (the oldest of which are forgotten); and revocations of what was never seen.
export const tokensPerPrincipalMax = 10_000;
export const tokenSecondsMax = 366 * 24 * 3600;
// How long something that has expired is still listed.
export const expiredTokenKeptMs = 30 * 24 * 3600 * 1000;
export const seenTokensPerPrincipalMax = 10_000;
export const revocationsPerPrincipalMax = 10_000;
// How long the client token of a rename keeps the rename from being done once more.
export const renameTokenKeptMs = 7 * 24 * 3600 * 1000;
export const shareSecondsMax = 366 * 24 * 3600;
export const nativeListMax = 1000;

// An upload that takes longer than this is given up: its extents are swept and its commit refused.
export const uploadMsMax = 24 * 3600 * 1000;
// A write is committed much sooner than this after its last extent: a rebuild takes no older extent
// for a write that the journal does not tell yet.
export const commitMsMax = 3600 * 1000;
// So what was swept is remembered for longer than that, and than a snapshot takes which tells of
// it.
export const sweptKeptMs = 6 * commitMsMax;
// A completed multipart upload answers a repeated completion for this long.
export const completedUploadKeptMs = 7 * 24 * 3600 * 1000;
