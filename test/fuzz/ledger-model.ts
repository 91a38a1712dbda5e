// A small model of what the ledger promises of the catalog, in plain maps: objects, versions,
// markers, locks, uploads, extents and counters. It knows nothing of SQL, transactions or indexes.
// Invariant: it says for every change whether it is refused, and what each counter is afterwards.

import { decodeManifest } from '#bursar/core/manifest.js';
import type { Change as LedgerChange } from '#bursar/ledger/commands/index.js';

/** What changes buckets, versions and uploads. */
export type CatalogChange =
  | Extract<
      LedgerChange,
      {
        kind:
          | 'createBucket'
          | 'deleteBucket'
          | 'putObject'
          | 'copyObject'
          | 'renameObject'
          | 'deleteObject'
          | 'amendVersion'
          | 'createUpload'
          | 'putPart'
          | 'completeUpload'
          | 'transferUpload'
          | 'abortUpload';
      }
    >
  | { kind: 'setVersioning'; bucketId: number; versioning: 'Enabled' | 'Suspended' };

export interface ModelBucket {
  id: number;
  tenant: string;
  name: string;
  owner: string;
  versioning: 'Unversioned' | 'Enabled' | 'Suspended';
  isLocked: boolean;
}

export interface ModelVersion {
  bucketId: number;
  key: string;
  seq: number;
  versionId: string | null;
  isMarker: boolean;
  /** It is not there any more, but for the extents that it names. */
  hasEnded: boolean;
  sizeBytes: number;
  etag: string;
  manifest: Uint8Array;
  tags: readonly (readonly [string, string])[] | undefined;
  retention: { mode: 'GOVERNANCE' | 'COMPLIANCE'; untilMs: number } | undefined;
  legalHold: boolean;
  /** undefined: the bucket's owner. */
  writer: string | undefined;
}

export interface ModelPart {
  sizeBytes: number;
  manifest: Uint8Array;
}

export interface ModelUpload {
  id: string;
  bucketId: number;
  key: string;
  initiator: string;
  completed: boolean;
  /** `seq` of what was current then; null: nothing. */
  begunOn: number | null;
  /** What was current was deleted since then, and no marker came in its place. */
  isDisturbed: boolean;
  parts: Map<number, ModelPart>;
}

export interface ModelExtent {
  state: 'intent' | 'live' | 'condemned';
  refs: number;
  isInline: boolean;
  process: string | null;
}

export type ModelOutcome =
  | { ok: true; storedBytes: number; storedObjects: number; named?: Named }
  | { ok: false; code: string };

/** What the ledger says of a version that was made, changed or ended. */
interface Named {
  versionId: string | null;
  isMarker: boolean;
}

interface ConditionalWrite {
  bucketId: number;
  key: string;
  versionId?: string | undefined;
  conditions: { ifMatch: readonly string[] | null; ifNoneMatch: readonly string[] | null };
}

type Change<K extends CatalogChange['kind']> = Extract<CatalogChange, { kind: K }>;

type Done = Extract<ModelOutcome, { ok: true }>;
const nothing: Done = { ok: true, storedBytes: 0, storedObjects: 0 };
const refused = (code: string): ModelOutcome => ({ ok: false, code });
const marker = { sizeBytes: 0, etag: '', manifest: Buffer.alloc(0), attributes: '{}' };
const idOf = (id: Uint8Array): string => Buffer.from(id).toString('hex');

export class LedgerModel {
  buckets: ModelBucket[] = [];
  versions: ModelVersion[] = [];
  uploads = new Map<string, ModelUpload>();
  extents = new Map<string, ModelExtent>();
  bucketsEver = 0;

  /** What is kept of a key, from the newest down: the first is current. */
  kept(bucketId: number, key: string): ModelVersion[] {
    return this.keptOf(bucketId).filter((one) => one.key === key);
  }

  keptOf(bucketId: number): ModelVersion[] {
    const kept = this.versions.filter((one) => one.bucketId === bucketId && !one.hasEnded);
    return kept.sort((a, b) => b.seq - a.seq);
  }

  /** The current version, unless that is a marker. */
  current(bucketId: number, key: string): ModelVersion | undefined {
    const [newest] = this.kept(bucketId, key);
    return newest?.isMarker ? undefined : newest;
  }

  currentOf(bucketId: number): ModelVersion[] {
    const keys = new Set(this.keptOf(bucketId).map(({ key }) => key));
    return [...keys].flatMap((key) => this.current(bucketId, key) ?? []);
  }

  openUploadsOf(bucketId: number): ModelUpload[] {
    return [...this.uploads.values()].filter((one) => one.bucketId === bucketId && !one.completed);
  }

  /** What a bucket holds: its objects, and the parts of its unfinished uploads. */
  storedIn(bucketId: number): { storedBytes: number; storedObjects: number } {
    const objects = this.keptOf(bucketId).filter((one) => !one.isMarker);
    const parts = this.openUploadsOf(bucketId).flatMap((upload) => [...upload.parts.values()]);
    const storedBytes = [...objects, ...parts].reduce((sum, one) => sum + one.sizeBytes, 0);
    return { storedBytes, storedObjects: objects.length };
  }

  /**
   * `newId` is what the ledger calls the version, if it makes one that has an id; `markerId` the
   * same of the marker that a rename leaves.
   */
  apply(
    change: CatalogChange,
    seq: number,
    newId: string | null,
    markerId: string | null = null,
  ): ModelOutcome {
    switch (change.kind) {
      case 'setVersioning':
        return this.#setVersioning(change);
      case 'amendVersion':
        return this.#amendVersion(change, seq);
      case 'createBucket':
        return this.#createBucket(change);
      case 'deleteBucket':
        return this.#deleteBucket(change);
      case 'putObject':
        return this.#putObject(change, seq, newId);
      case 'copyObject':
        return this.#copyObject(change, seq, newId);
      case 'renameObject':
        return this.#renameObject(change, seq, { newId, markerId });
      case 'deleteObject':
        return this.#deleteObject(change, seq, newId);
      case 'createUpload':
        return this.#createUpload(change);
      case 'putPart':
        return this.#putPart(change);
      case 'completeUpload':
        return this.#completeUpload(change, seq, newId);
      case 'transferUpload':
        return this.#transferUpload(change);
      case 'abortUpload':
        return this.#abortUpload(change);
    }
  }

  declare(ids: readonly Uint8Array[], process: string): void {
    for (const id of ids) {
      this.extents.set(idOf(id), { state: 'intent', refs: 0, isInline: false, process });
    }
  }

  /** Condemns the intents of other processes than this one. */
  condemnIntents(process: string): void {
    for (const extent of this.extents.values()) {
      if (extent.state === 'intent' && extent.process !== process) extent.state = 'condemned';
    }
  }

  /** Lets go of the `max` oldest versions that ended. */
  purge(max: number): void {
    const old = this.versions
      .filter((one) => one.hasEnded)
      .sort((a, b) => a.seq - b.seq)
      .slice(0, max);
    this.versions = this.versions.filter((one) => !old.includes(one));
    for (const { manifest } of old) this.#drop(manifest);
  }

  forget(ids: readonly Uint8Array[]): void {
    for (const id of ids) {
      if (this.extents.get(idOf(id))?.state === 'condemned') this.extents.delete(idOf(id));
    }
  }

  #createBucket({ tenant, name, owner, objectLock }: Change<'createBucket'>): ModelOutcome {
    const taken = this.buckets.find((one) => one.tenant === tenant && one.name === name);
    if (taken) {
      return refused(taken.owner === owner ? 'BucketAlreadyOwnedByYou' : 'BucketAlreadyExists');
    }
    const isLocked = objectLock === true;
    const versioning = isLocked ? 'Enabled' : 'Unversioned';
    const id = ++this.bucketsEver;
    this.buckets.push({ id, tenant, name, owner, versioning, isLocked });
    return nothing;
  }

  #deleteBucket({ bucketId }: Change<'deleteBucket'>): ModelOutcome {
    if (!this.#has(bucketId)) return refused('NoSuchBucket');
    if (this.keptOf(bucketId).length > 0) return refused('BucketNotEmpty');
    const { storedBytes } = this.storedIn(bucketId);
    for (const upload of this.uploads.values()) {
      if (upload.bucketId === bucketId) this.#discard(upload);
    }
    this.buckets = this.buckets.filter((one) => one.id !== bucketId);
    return { ok: true, storedBytes: -storedBytes, storedObjects: 0 };
  }

  #setVersioning({ bucketId, versioning }: Change<'setVersioning'>): ModelOutcome {
    const bucket = this.#bucket(bucketId);
    if (!bucket) return refused('NoSuchBucket');
    if (bucket.isLocked && versioning === 'Suspended') return refused('InvalidBucketState');
    bucket.versioning = versioning;
    return nothing;
  }

  #putObject(change: Change<'putObject'>, seq: number, newId: string | null): ModelOutcome {
    const refusal = this.#checkWrite(change, seq);
    if (refusal) return refusal;
    if (!this.#areIntents(change.extentIds)) return refused('RequestTimeout');
    this.#adopt(change.extentIds, change.inline?.id);
    return this.#replace(change, seq, newId);
  }

  #copyObject(change: Change<'copyObject'>, seq: number, newId: string | null): ModelOutcome {
    const refusal = this.#checkWrite(change, seq);
    if (refusal) return refusal;
    if (!this.#hasVersion(change.source)) return refused('SlowDown');
    this.#share(change.object.manifest);
    return this.#replace(change, seq, newId);
  }

  /** Two changes, of which the second is in the next record. */
  #renameObject(
    change: Change<'renameObject'>,
    seq: number,
    { newId, markerId }: { newId: string | null; markerId: string | null },
  ): ModelOutcome {
    const { bucketId, key, source } = change;
    if (key === source.key) return refused('InvalidRequest');
    const refusal = this.#checkWrite(change, seq);
    if (refusal) return refusal;
    const left = { bucketId, key: source.key };
    const [version] = this.kept(bucketId, source.key);
    if (version?.seq !== source.seq || version.isMarker) return refused('SlowDown');
    if (isHeld(version, seq, false)) return refused('AccessDenied');
    const isMoved = this.#replacedBy(left) === version;
    const { sizeBytes, etag, manifest, tags, writer } = version;
    if (!isMoved) this.#share(manifest);
    const object = { sizeBytes, etag, manifest, attributes: JSON.stringify({ tags, writer }) };
    const there = this.#replace({ bucketId, key, object }, seq, newId);
    if (!there.ok) return there;
    if (isMoved) {
      this.#disturb(version);
      this.versions = this.versions.filter((one) => one !== version);
      there.storedBytes -= sizeBytes;
      there.storedObjects -= 1;
    }
    if (this.#bucket(bucketId)?.versioning === 'Unversioned') return there;
    this.#replace({ ...left, object: marker, isMarker: true }, seq + 1, markerId);
    return there;
  }

  #deleteObject(change: Change<'deleteObject'>, seq: number, newId: string | null): ModelOutcome {
    const { bucketId, key, versionId, bypassGovernance = false } = change;
    const refusal = this.#checkKey(change);
    if (refusal) return refusal;
    const bucket = this.#bucket(bucketId) as ModelBucket;
    if (versionId !== undefined) {
      const version = this.#named(change);
      const id = versionId === 'null' ? null : versionId;
      const named = { versionId: id, isMarker: version?.isMarker ?? false };
      const told = bucket.versioning === 'Unversioned' ? {} : { named };
      if (!version) return { ...nothing, ...told };
      if (isHeld(version, seq, bypassGovernance)) return refused('AccessDenied');
      this.#disturb(version);
      return { ...this.#end(version), ...told };
    }
    if (bucket.versioning === 'Unversioned') {
      const [current] = this.kept(bucketId, key);
      if (current && isHeld(current, seq, bypassGovernance)) return refused('AccessDenied');
      if (current) this.#disturb(current);
      return current ? this.#end(current) : nothing;
    }
    const ends = this.#replacedBy(change);
    if (ends && isHeld(ends, seq, bypassGovernance)) return refused('AccessDenied');
    return this.#replace({ bucketId, key, object: marker, isMarker: true }, seq, newId);
  }

  #amendVersion(change: Change<'amendVersion'>, seq: number): ModelOutcome {
    const { bucketId, key, versionId, amendment, bypassGovernance = false } = change;
    const bucket = this.#bucket(bucketId);
    if (!bucket) return refused('NoSuchBucket');
    const version = this.#named({ bucketId, key, versionId });
    if (!version) return refused(versionId === undefined ? 'NoSuchKey' : 'NoSuchVersion');
    if (version.isMarker) return refused('MethodNotAllowed');
    if (!('tags' in amendment) && !bucket.isLocked) return refused('InvalidRequest');
    if ('tags' in amendment) {
      version.tags = amendment.tags?.length ? amendment.tags : undefined;
    } else if ('legalHold' in amendment) {
      version.legalHold = amendment.legalHold;
    } else if ('retention' in amendment) {
      const { mode, untilMs } = version.retention ?? { mode: 'GOVERNANCE', untilMs: 0 };
      const { retention } = amendment;
      const isLonger = retention?.mode === mode && retention.untilMs >= untilMs;
      const mayBypass = mode === 'GOVERNANCE' && bypassGovernance;
      if (untilMs > seq && !isLonger && !mayBypass) return refused('AccessDenied');
      version.retention = retention ?? undefined;
    }
    const named = { versionId: version.versionId, isMarker: false };
    return bucket.versioning === 'Unversioned' ? nothing : { ...nothing, named };
  }

  #createUpload({ id, bucketId, key, initiator }: Change<'createUpload'>): ModelOutcome {
    if (!this.#has(bucketId)) return refused('NoSuchBucket');
    const begunOn = this.kept(bucketId, key)[0]?.seq ?? null;
    this.uploads.set(id, {
      id,
      bucketId,
      key,
      initiator,
      completed: false,
      parts: new Map(),
      begunOn,
      isDisturbed: false,
    });
    return nothing;
  }

  #putPart(change: Change<'putPart'>): ModelOutcome {
    const upload = this.uploads.get(change.uploadId);
    if (!upload || upload.completed) return refused('NoSuchUpload');
    const { number, sizeBytes, manifest } = change.part;
    if (change.source) {
      if (!this.#hasVersion(change.source)) return refused('SlowDown');
      this.#share(manifest);
    } else {
      if (!this.#areIntents(change.extentIds)) return refused('RequestTimeout');
      this.#adopt(change.extentIds, change.inline?.id);
    }
    const before = upload.parts.get(number);
    if (before) this.#drop(before.manifest);
    upload.parts.set(number, { sizeBytes, manifest });
    return { ok: true, storedBytes: sizeBytes - (before?.sizeBytes ?? 0), storedObjects: 0 };
  }

  #completeUpload(
    change: Change<'completeUpload'>,
    seq: number,
    newId: string | null,
  ): ModelOutcome {
    const upload = this.uploads.get(change.uploadId);
    const fits = upload?.bucketId === change.bucketId && upload.key === change.key;
    if (!upload || !fits) return refused('NoSuchUpload');
    if (upload.completed) return refused('SlowDown');
    const refusal = this.#checkWrite(change, seq);
    if (refusal) return refusal;
    const { ifMatch, ifNoneMatch } = change.conditions;
    const now = this.kept(change.bucketId, change.key)[0]?.seq ?? null;
    if ((ifMatch || ifNoneMatch) && (now !== upload.begunOn || upload.isDisturbed)) {
      return refused('ConditionalRequestConflict');
    }
    const { numbers, manifestBytes } = change.parts;
    let at = 0;
    for (const [i, number] of numbers.entries()) {
      const part = upload.parts.get(number);
      const manifest = change.object.manifest.subarray(at, at + (manifestBytes[i] as number));
      at += manifest.length;
      if (!part || !Buffer.from(part.manifest).equals(manifest)) return refused('SlowDown');
    }
    let partBytes = 0;
    const used = new Set(numbers);
    for (const [number, part] of upload.parts) {
      partBytes += part.sizeBytes;
      if (!used.has(number)) this.#drop(part.manifest);
    }
    upload.parts.clear();
    upload.completed = true;
    const outcome = this.#replace(change, seq, newId);
    if (outcome.ok) outcome.storedBytes -= partBytes;
    return outcome;
  }

  #transferUpload({ bucketId, id, from, to }: Change<'transferUpload'>): ModelOutcome {
    if (!this.#has(bucketId)) return refused('NoSuchBucket');
    const upload = this.uploads.get(id);
    const isMeant = upload?.bucketId === bucketId && upload.initiator === from;
    if (!upload || upload.completed || !isMeant) return refused('NoSuchUpload');
    upload.initiator = to;
    return nothing;
  }

  #abortUpload({ uploadId }: Change<'abortUpload'>): ModelOutcome {
    const upload = this.uploads.get(uploadId);
    if (!upload || upload.completed) return refused('NoSuchUpload');
    const bytes = [...upload.parts.values()].reduce((sum, part) => sum + part.sizeBytes, 0);
    this.#discard(upload);
    return { ok: true, storedBytes: -bytes, storedObjects: 0 };
  }

  #has(bucketId: number): boolean {
    return this.#bucket(bucketId) !== undefined;
  }

  #bucket(bucketId: number): ModelBucket | undefined {
    return this.buckets.find((one) => one.id === bucketId);
  }

  #named(at: { bucketId: number; key: string; versionId?: string | undefined }) {
    const kept = this.kept(at.bucketId, at.key);
    if (at.versionId === undefined) return kept[0];
    const id = at.versionId === 'null' ? null : at.versionId;
    return kept.find((one) => one.versionId === id);
  }

  #hasVersion(at: { bucketId: number; key: string; seq: number }): boolean {
    return this.versions.some(
      (one) => one.bucketId === at.bucketId && one.key === at.key && one.seq === at.seq,
    );
  }

  #checkKey(change: ConditionalWrite): ModelOutcome | null {
    if (!this.#has(change.bucketId)) return refused('NoSuchBucket');
    const version = this.#named(change);
    const etag = version?.isMarker ? undefined : version?.etag;
    const { ifMatch, ifNoneMatch } = change.conditions;
    const named = (tags: readonly string[]) =>
      etag !== undefined && (tags.includes('*') || tags.includes(etag));
    if (ifMatch && etag === undefined) return refused('NoSuchKey');
    if (ifMatch && !named(ifMatch)) return refused('PreconditionFailed');
    if (ifNoneMatch && named(ifNoneMatch)) return refused('PreconditionFailed');
    return null;
  }

  #checkWrite(change: ConditionalWrite, seq: number): ModelOutcome | null {
    const refusal = this.#checkKey(change);
    if (refusal) return refusal;
    const ends = this.#replacedBy(change);
    return ends && isHeld(ends, seq, false) ? refused('AccessDenied') : null;
  }

  /** The version that ends when another comes: S3's `null` version, unless ids are given. */
  #replacedBy({ bucketId, key }: { bucketId: number; key: string }): ModelVersion | undefined {
    if (this.#bucket(bucketId)?.versioning === 'Enabled') return undefined;
    return this.kept(bucketId, key).find((one) => one.versionId === null);
  }

  #replace(
    change: {
      bucketId: number;
      key: string;
      object: { sizeBytes: number; etag: string; manifest: Uint8Array; attributes: string };
      isMarker?: boolean;
    },
    seq: number,
    newId: string | null,
  ): ModelOutcome {
    const { bucketId, key, object, isMarker = false } = change;
    const { sizeBytes, etag, manifest } = object;
    const { tags, retention, legalHold = false, writer } = JSON.parse(object.attributes);
    const { versioning } = this.#bucket(bucketId) as ModelBucket;
    const replaced = this.#replacedBy(change);
    const freed = replaced ? this.#end(replaced) : nothing;
    const versionId = versioning === 'Enabled' ? newId : null;
    const locks = { tags, retention, legalHold };
    const what = { isMarker, hasEnded: false, sizeBytes, etag, manifest, ...locks, writer };
    this.versions.push({ bucketId, key, seq, versionId, ...what });
    const { storedBytes, storedObjects } = freed;
    return {
      ok: true,
      storedBytes: sizeBytes + storedBytes,
      storedObjects: (isMarker ? 0 : 1) + storedObjects,
      ...(versioning !== 'Unversioned' && { named: { versionId, isMarker } }),
    };
  }

  #end(version: ModelVersion): Done {
    version.hasEnded = true;
    if (!version.isMarker) {
      return { ok: true, storedBytes: -version.sizeBytes, storedObjects: -1 };
    }
    this.versions = this.versions.filter((one) => one !== version);
    return nothing;
  }

  /** Tells uploads of its key that a version is about to be deleted. */
  #disturb(version: ModelVersion): void {
    const { bucketId, key } = version;
    if (this.kept(bucketId, key)[0] !== version) return;
    for (const upload of this.uploads.values()) {
      if (upload.bucketId === bucketId && upload.key === key) upload.isDisturbed = true;
    }
  }

  #discard(upload: ModelUpload): void {
    for (const { manifest } of upload.parts.values()) this.#drop(manifest);
    this.uploads.delete(upload.id);
  }

  #areIntents(ids: readonly Uint8Array[]): boolean {
    return ids.every((id) => this.extents.get(idOf(id))?.state === 'intent');
  }

  #adopt(ids: readonly Uint8Array[], inlineId: Uint8Array | undefined): void {
    const live = { state: 'live', refs: 1, process: null } as const;
    for (const id of ids) this.extents.set(idOf(id), { ...live, isInline: false });
    if (inlineId) this.extents.set(idOf(inlineId), { ...live, isInline: true });
  }

  #share(manifest: Uint8Array): void {
    for (const run of decodeManifest(manifest)) this.#extent(run.id).refs += 1;
  }

  #drop(manifest: Uint8Array): void {
    for (const run of decodeManifest(manifest)) {
      const extent = this.#extent(run.id);
      extent.refs -= 1;
      if (extent.refs === 0) extent.state = 'condemned';
    }
  }

  #extent(id: Uint8Array): ModelExtent {
    const extent = this.extents.get(idOf(id));
    if (!extent) throw new Error('the model has lost an extent');
    return extent;
  }
}

function isHeld(version: ModelVersion, timeMs: number, bypassGovernance: boolean): boolean {
  if (version.legalHold) return true;
  const { mode, untilMs } = version.retention ?? { mode: 'GOVERNANCE', untilMs: 0 };
  return untilMs > timeMs && (mode === 'COMPLIANCE' || !bypassGovernance);
}
