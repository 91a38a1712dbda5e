// A change of an object as S3 tells of it.
// Specification: "Event message structure" of the Amazon S3 user guide, version 2.1, and "Supported
// event types".
import type { ChangeCause, ObjectChange } from '../../audit/changes/object-change.ts';

const creations: Partial<Record<ChangeCause, string>> = {
  copy: 'Copy',
  multipart: 'CompleteMultipartUpload',
};

/** `ObjectCreated:Put` */
export function eventNameOf({ kind, cause }: Pick<ObjectChange, 'kind' | 'cause'>): string {
  const removal = cause === 'lifecycle' ? 'LifecycleExpiration' : 'ObjectRemoved';
  switch (kind) {
    case 'created':
      return `ObjectCreated:${creations[cause] ?? 'Put'}`;
    case 'removed':
      return `${removal}:Delete`;
    case 'marked':
      return `${removal}:DeleteMarkerCreated`;
    case 'tagged':
      return 'ObjectTagging:Put';
    case 'untagged':
      return 'ObjectTagging:Delete';
    case 'acl':
      return 'ObjectAcl:Put';
    case 'lost':
      return 'ReducedRedundancyLostObject';
    case 'moved':
      return cause === 'use' ? 'IntelligentTiering' : 'LifecycleTransition';
    case 'restoring':
      return 'ObjectRestore:Post';
    case 'restored':
      return 'ObjectRestore:Completed';
    case 'restoreEnded':
      return 'ObjectRestore:Delete';
  }
}

export interface EventTerms {
  region: string;
  /** What the bucket is called by who is told. */
  bucket: string;
  /** May they know who made the change, and from where? */
  tellsWho: boolean;
  /** Of the rule by which it is told; absent: somebody asked. */
  configurationId?: string;
}

export function renderEvent(change: ObjectChange, terms: EventTerms): object {
  const { index, time, tenant, key, versionId, size, etag, sha256, version, requestId } = change;
  const { region, bucket, tellsWho, configurationId } = terms;
  return {
    eventVersion: '2.1',
    eventSource: 'aws:s3',
    awsRegion: region,
    eventTime: time,
    eventName: eventNameOf(change),
    userIdentity: tellsWho ? { principalId: change.by } : {},
    requestParameters: tellsWho ? { sourceIPAddress: change.source } : {},
    responseElements: { 'x-amz-request-id': requestId },
    s3: {
      s3SchemaVersion: '1.0',
      configurationId,
      bucket: { name: bucket, arn: `arn:aws:s3:::${bucket}` },
      object: { key: eventKey(key), size, eTag: etag, versionId, sequencer: sequencerOf(index) },
    },
    bursar: { index, tenant, version, class: change.class, sha256 },
  };
}

/** An event as it was told last: to who may know who made the change, and to who may not. */
interface Told {
  bucket: string;
  bytes: Buffer;
}

/** As long as the change is kept. */
const lastTold = new WeakMap<ObjectChange, { openly?: Told; else?: Told }>();

/**
 * The same as JSON. Those who follow a bucket are told the same, so it is written once for all of
 * them who call the bucket by one name.
 */
export function eventBytes(change: ObjectChange, terms: Omit<EventTerms, 'configurationId'>) {
  let told = lastTold.get(change);
  if (!told) {
    told = {};
    lastTold.set(change, told);
  }
  const whom = terms.tellsWho ? 'openly' : 'else';
  const last = told[whom];
  if (last?.bucket === terms.bucket) return last.bytes;
  const bytes = Buffer.from(JSON.stringify(renderEvent(change, terms)));
  told[whom] = { bucket: terms.bucket, bytes };
  return bytes;
}

/** Encoded as HTML forms are, but for slashes: as S3's own events have it. */
function eventKey(key: string): string {
  return encodeURIComponent(key).replaceAll('%20', '+').replaceAll('%2F', '/');
}

/** Of two events of one key that with the greater text is the later. */
function sequencerOf(index: number): string {
  return index.toString(16).toUpperCase().padStart(16, '0');
}
