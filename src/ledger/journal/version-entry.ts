// A version as an entry of the journal.
import type { Version } from '../../catalog/versions.ts';
import type { VersionEntry } from './format.ts';

/** Of a version whose row was verified. */
export function versionEntry(version: Version, toldSeq: number): VersionEntry {
  const { bucketId, key, versionId, seq, createdMs, sizeBytes, etag, owner, attributes } = version;
  return {
    kind: 'version',
    bucketId,
    toldSeq: Math.max(seq, toldSeq),
    key,
    versionId,
    isMarker: version.isMarker === 1,
    seq,
    createdMs,
    sizeBytes,
    etag,
    sha256: version.sha256 && Buffer.from(version.sha256).toString('hex'),
    class: version.class,
    owner,
    attributes,
    manifest: Buffer.from(version.manifest).toString('base64'),
  };
}
