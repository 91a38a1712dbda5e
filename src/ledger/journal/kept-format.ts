// What the journal tells of snapshots, and of versions that ended, or were changed, while one had
// them (docs/formats/journal.md). It is in the heads of segments and pages, as identities are:
// release 0.1.0 calls an object damaged that has a line of another kind, and passes over members of
// a head that it does not know.
import { isCount } from '../../core/json.ts';
import {
  type Checking,
  type Fields,
  hasFields,
  isFlag,
  isText,
  isTextOrNull,
} from './identity-format.ts';

const isCountOrNull = (value: unknown): value is number | null => value === null || isCount(value);
const isCounts = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every(isCount);
const isLock = (value: unknown): value is 'governance' | 'compliance' | null =>
  value === null || value === 'governance' || value === 'compliance';

const keptKinds = {
  /** All snapshots of a bucket that lived then: their numbers. */
  snapshots: { toldSeq: isCount, bucketId: isCount, living: isCounts },
  /** One that was made. Nothing of it changes but that it is there. */
  snapshot: {
    bucketId: isCount,
    /** What was made up to this change, and had not ended, is in it. */
    seq: isCount,
    name: isText,
    prefix: isText,
    createdMs: isCount,
    expiresMs: isCountOrNull,
    lock: isLock,
  },
  /** It was deleted, or never told to be there. */
  snapshotGone: { bucketId: isCount, seq: isCount },
  /** A version that ended by the change `endedSeq`, or as it was before that changed it. */
  held: {
    bucketId: isCount,
    key: isText,
    versionId: isTextOrNull,
    isMarker: isFlag,
    seq: isCount,
    createdMs: isCount,
    sizeBytes: isCount,
    etag: isText,
    sha256: isTextOrNull,
    class: isText,
    owner: isText,
    attributes: isText,
    manifest: isText,
    endedSeq: isCount,
    /** It went on, with other attributes. */
    isImage: isFlag,
  },
} satisfies Record<string, Fields>;

export type KeptEntry = Checking<keyof typeof keptKinds, typeof keptKinds>;
export type SnapshotEntry = Checking<'snapshot', typeof keptKinds>;
export type HeldEntry = Checking<'held', typeof keptKinds>;

/** What a head has of them. Throws for what is none; what a later version added is passed over. */
export function readKept(value: unknown): KeptEntry[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw new Error('what is kept is no list');
  return value.flatMap((one: unknown) => {
    const kind = (one as { kind?: unknown } | null)?.kind;
    if (typeof kind !== 'string') throw new Error('what is kept is of no kind');
    if (!Object.hasOwn(keptKinds, kind)) return [];
    const known = kind as KeptEntry['kind'];
    if (!hasFields(one, keptKinds[known])) throw new Error(`${kind} has an odd field`);
    return [one as KeptEntry];
  });
}
