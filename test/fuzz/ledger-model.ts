// A small model of what the ledger promises of the catalog, in plain maps: objects, versions, uploads,
// extents and counters. It knows nothing of SQL, transactions or indexes.
// Invariant: it says for every change whether it is refused, and what each counter is afterwards.

import { decodeManifest } from '#bursar/core/manifest.js';
import type { CatalogChange } from '#bursar/ledger/commit.js';

export interface ModelBucket {
  id: number;
  tenant: string;
  name: string;
  owner: string;
}

export interface ModelVersion {
  bucketId: number;
  key: string;
  seq: number;
  supersededSeq: number | null;
  sizeBytes: number;
  etag: string;
  manifest: Uint8Array;
}

export interface ModelPart {
  sizeBytes: number;
  manifest: Uint8Array;
}

export interface ModelUpload {
  id: string;
  bucketId: number;
  key: string;
  completed: boolean;
  parts: Map<number, ModelPart>;
}

export interface ModelExtent {
  state: 'intent' | 'live' | 'condemned';
  refs: number;
  isInline: boolean;
  process: string | null;
}

export type ModelOutcome =
  | { ok: true; storedBytes: number; storedObjects: number }
  | { ok: false; code: string };

type Change<K extends CatalogChange['kind']> = Extract<CatalogChange, { kind: K }>;

const nothing: ModelOutcome = { ok: true, storedBytes: 0, storedObjects: 0 };
const refused = (code: string): ModelOutcome => ({ ok: false, code });
const idOf = (id: Uint8Array): string => Buffer.from(id).toString('hex');

export class LedgerModel {
  buckets: ModelBucket[] = [];
  versions: ModelVersion[] = [];
  uploads = new Map<string, ModelUpload>();
  extents = new Map<string, ModelExtent>();
  bucketsEver = 0;

  current(bucketId: number, key: string): ModelVersion | undefined {
    return this.versions.find(
      (one) => one.bucketId === bucketId && one.key === key && one.supersededSeq === null,
    );
  }

  currentOf(bucketId: number): ModelVersion[] {
    return this.versions.filter((one) => one.bucketId === bucketId && one.supersededSeq === null);
  }

  openUploadsOf(bucketId: number): ModelUpload[] {
    return [...this.uploads.values()].filter((one) => one.bucketId === bucketId && !one.completed);
  }

  /** What a bucket holds: its objects, and the parts of its unfinished uploads. */
  storedIn(bucketId: number): { storedBytes: number; storedObjects: number } {
    const objects = this.currentOf(bucketId);
    const parts = this.openUploadsOf(bucketId).flatMap((upload) => [...upload.parts.values()]);
    const storedBytes = [...objects, ...parts].reduce((sum, one) => sum + one.sizeBytes, 0);
    return { storedBytes, storedObjects: objects.length };
  }

  apply(change: CatalogChange, seq: number): ModelOutcome {
    switch (change.kind) {
      case 'createBucket':
        return this.#createBucket(change);
      case 'deleteBucket':
        return this.#deleteBucket(change);
      case 'putObject':
        return this.#putObject(change, seq);
      case 'copyObject':
        return this.#copyObject(change, seq);
      case 'deleteObject':
        return this.#deleteObject(change, seq);
      case 'createUpload':
        return this.#createUpload(change);
      case 'putPart':
        return this.#putPart(change);
      case 'completeUpload':
        return this.#completeUpload(change, seq);
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

  /** Lets go of the `max` versions that were superseded first. */
  purge(max: number): void {
    const old = this.versions
      .filter((one) => one.supersededSeq !== null)
      .sort((a, b) => (a.supersededSeq ?? 0) - (b.supersededSeq ?? 0))
      .slice(0, max);
    this.versions = this.versions.filter((one) => !old.includes(one));
    for (const { manifest } of old) this.#drop(manifest);
  }

  forget(ids: readonly Uint8Array[]): void {
    for (const id of ids) {
      if (this.extents.get(idOf(id))?.state === 'condemned') this.extents.delete(idOf(id));
    }
  }

  #createBucket({ tenant, name, owner }: Change<'createBucket'>): ModelOutcome {
    const taken = this.buckets.find((one) => one.tenant === tenant && one.name === name);
    if (taken) {
      return refused(taken.owner === owner ? 'BucketAlreadyOwnedByYou' : 'BucketAlreadyExists');
    }
    this.buckets.push({ id: ++this.bucketsEver, tenant, name, owner });
    return nothing;
  }

  #deleteBucket({ bucketId }: Change<'deleteBucket'>): ModelOutcome {
    if (!this.#has(bucketId)) return refused('NoSuchBucket');
    if (this.currentOf(bucketId).length > 0) return refused('BucketNotEmpty');
    const { storedBytes } = this.storedIn(bucketId);
    for (const upload of this.uploads.values()) {
      if (upload.bucketId === bucketId) this.#discard(upload);
    }
    this.buckets = this.buckets.filter((one) => one.id !== bucketId);
    return { ok: true, storedBytes: -storedBytes, storedObjects: 0 };
  }

  #putObject(change: Change<'putObject'>, seq: number): ModelOutcome {
    const refusal = this.#checkKey(change);
    if (refusal) return refusal;
    if (!this.#areIntents(change.extentIds)) return refused('RequestTimeout');
    this.#adopt(change.extentIds, change.inline?.id);
    return this.#replace(change, seq);
  }

  #copyObject(change: Change<'copyObject'>, seq: number): ModelOutcome {
    const refusal = this.#checkKey(change);
    if (refusal) return refusal;
    if (!this.#hasVersion(change.source)) return refused('SlowDown');
    this.#share(change.object.manifest);
    return this.#replace(change, seq);
  }

  #deleteObject(change: Change<'deleteObject'>, seq: number): ModelOutcome {
    const refusal = this.#checkKey(change);
    if (refusal) return refusal;
    const current = this.current(change.bucketId, change.key);
    if (!current) return nothing;
    current.supersededSeq = seq;
    return { ok: true, storedBytes: -current.sizeBytes, storedObjects: -1 };
  }

  #createUpload({ id, bucketId, key }: Change<'createUpload'>): ModelOutcome {
    if (!this.#has(bucketId)) return refused('NoSuchBucket');
    this.uploads.set(id, { id, bucketId, key, completed: false, parts: new Map() });
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

  #completeUpload(change: Change<'completeUpload'>, seq: number): ModelOutcome {
    const upload = this.uploads.get(change.uploadId);
    const fits = upload?.bucketId === change.bucketId && upload.key === change.key;
    if (!upload || !fits || upload.completed) return refused('NoSuchUpload');
    const refusal = this.#checkKey(change);
    if (refusal) return refusal;
    for (const { number, manifest } of change.parts) {
      const part = upload.parts.get(number);
      if (!part || !Buffer.from(part.manifest).equals(manifest)) return refused('SlowDown');
    }
    let partBytes = 0;
    const used = new Set(change.parts.map(({ number }) => number));
    for (const [number, part] of upload.parts) {
      partBytes += part.sizeBytes;
      if (!used.has(number)) this.#drop(part.manifest);
    }
    upload.parts.clear();
    upload.completed = true;
    const outcome = this.#replace(change, seq);
    if (outcome.ok) outcome.storedBytes -= partBytes;
    return outcome;
  }

  #abortUpload({ uploadId }: Change<'abortUpload'>): ModelOutcome {
    const upload = this.uploads.get(uploadId);
    if (!upload || upload.completed) return refused('NoSuchUpload');
    const bytes = [...upload.parts.values()].reduce((sum, part) => sum + part.sizeBytes, 0);
    this.#discard(upload);
    return { ok: true, storedBytes: -bytes, storedObjects: 0 };
  }

  #has(bucketId: number): boolean {
    return this.buckets.some((one) => one.id === bucketId);
  }

  #hasVersion(at: { bucketId: number; key: string; seq: number }): boolean {
    return this.versions.some(
      (one) => one.bucketId === at.bucketId && one.key === at.key && one.seq === at.seq,
    );
  }

  #checkKey(change: {
    bucketId: number;
    key: string;
    conditions: { ifMatch: readonly string[] | null; ifNoneMatch: readonly string[] | null };
  }): ModelOutcome | null {
    if (!this.#has(change.bucketId)) return refused('NoSuchBucket');
    const etag = this.current(change.bucketId, change.key)?.etag;
    const { ifMatch, ifNoneMatch } = change.conditions;
    const named = (tags: readonly string[]) =>
      etag !== undefined && (tags.includes('*') || tags.includes(etag));
    if (ifMatch && etag === undefined) return refused('NoSuchKey');
    if (ifMatch && !named(ifMatch)) return refused('PreconditionFailed');
    if (ifNoneMatch && named(ifNoneMatch)) return refused('PreconditionFailed');
    return null;
  }

  #replace(
    change: {
      bucketId: number;
      key: string;
      object: { sizeBytes: number; etag: string; manifest: Uint8Array };
    },
    seq: number,
  ): ModelOutcome {
    const { bucketId, key, object } = change;
    const { sizeBytes, etag, manifest } = object;
    const before = this.current(bucketId, key);
    if (before) before.supersededSeq = seq;
    this.versions.push({ bucketId, key, seq, supersededSeq: null, sizeBytes, etag, manifest });
    return {
      ok: true,
      storedBytes: sizeBytes - (before?.sizeBytes ?? 0),
      storedObjects: before ? 0 : 1,
    };
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
