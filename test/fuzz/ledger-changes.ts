// Random changes of the catalog that mostly make sense, given the model's state: names repeat, so
// that changes meet; some refer to what is gone, so that refusals happen.
import { randomUUID } from 'node:crypto';
import type { RecordDraft } from '#bursar/audit/record.js';
import { type PartPlace, sealObject, sealPart } from '#bursar/catalog/authentic.js';
import type { Amendment } from '#bursar/catalog/version-changes.js';
import type { ObjectDraft } from '#bursar/catalog/versions.js';
import { Keyring } from '#bursar/core/keyring.js';
import {
  decodeManifest,
  type ExtentRun,
  encodeManifest,
  sliceRuns,
} from '#bursar/core/manifest.js';
import type { CatalogChange, LedgerModel, ModelBucket, ModelUpload } from './ledger-model.ts';
import { randomBelow, randomBytesOf, randomOf } from './seeded-random.ts';

type Random = () => number;

export const keyring = new Keyring([{ epoch: 1, key: Buffer.alloc(32, 7) }]);
export const tenants = ['one', 'two'];
export const owners = ['alice', 'bob'];
const names = ['data', 'logs', 'raw'];
const letters = ['a', 'b', '/', '-', '%', '\u0001', 'é', '\ud7ff', '\uffff', '\u{10000}'];

export function randomText(random: Random, lengthMax: number): string {
  let text = '';
  for (let i = randomBelow(random, lengthMax + 1); i > 0; i--) text += randomOf(random, letters);
  return text;
}

interface RandomChange {
  change: CatalogChange;
  /** Extents to be declared before. */
  declare: Buffer[];
}

export function randomChange(random: Random, model: LedgerModel, seq: number): RandomChange {
  const make = randomOf(random, [
    makeBucket,
    removeBucket,
    setVersioning,
    putObject,
    putObject,
    putObject,
    copyObject,
    renameObject,
    renameObject,
    deleteObject,
    deleteObject,
    deleteVersion,
    deleteVersion,
    amendVersion,
    createUpload,
    putPart,
    putPart,
    putPart,
    copyPart,
    completeUpload,
    completeUpload,
    abortUpload,
    transferUpload,
  ]);
  return make(random, model, seq);
}

function makeBucket(random: Random): RandomChange {
  const tenant = randomOf(random, tenants);
  const name = randomOf(random, names);
  const owner = randomOf(random, owners);
  const change = { kind: 'createBucket', tenant, name, owner, store: 1 } as const;
  const isLocked = randomBelow(random, 4) === 0;
  return { change: isLocked ? { ...change, objectLock: true } : change, declare: [] };
}

function setVersioning(random: Random, model: LedgerModel): RandomChange {
  const versioning = randomOf(random, ['Enabled', 'Enabled', 'Suspended'] as const);
  const { id: bucketId } = bucketOf(random, model);
  return { change: { kind: 'setVersioning', bucketId, versioning }, declare: [] };
}

function removeBucket(random: Random, model: LedgerModel): RandomChange {
  return { change: { kind: 'deleteBucket', bucketId: bucketOf(random, model).id }, declare: [] };
}

/** One that is there, or (seldom) one that is not. */
function bucketOf(random: Random, model: LedgerModel): ModelBucket {
  const none: ModelBucket = {
    ...{ id: 9999, tenant: 'one', name: 'none', owner: 'alice' },
    ...{ versioning: 'Unversioned', isLocked: false },
  };
  if (model.buckets.length === 0 || randomBelow(random, 20) === 0) return none;
  return randomOf(random, model.buckets);
}

function keyOf(random: Random, model: LedgerModel, bucketId: number): string {
  const there = model.keptOf(bucketId);
  if (there.length > 0 && randomBelow(random, 2) === 0) return randomOf(random, there).key;
  return `${randomText(random, 3)}k`;
}

function conditionsOf(random: Random, model: LedgerModel, bucketId: number, key: string) {
  const etag = model.current(bucketId, key)?.etag ?? 'none';
  const choices = [null, null, null, null, null, ['*'], [etag], ['other'], ['other', etag]];
  return { ifMatch: randomOf(random, choices), ifNoneMatch: randomOf(random, choices) };
}

interface Body {
  manifest: Buffer;
  sizeBytes: number;
  extentIds: Buffer[];
  inline: { id: Buffer; body: Buffer } | null;
}

/** Nothing, one inline extent, or some in a store. */
function bodyOf(random: Random): Body {
  const kind = randomBelow(random, 5);
  const isInline = kind === 1 || kind === 2;
  const count = kind === 0 ? 0 : isInline ? 1 : 1 + randomBelow(random, 3);
  const runs = Array.from({ length: count }, (): ExtentRun => {
    const length = 1 + randomBelow(random, 1000);
    const id = randomBytesOf(random, 16);
    const store = isInline ? 0 : 1;
    const extent = { id, store, algorithm: 1, epoch: 1, extentBytes: length, trailerBytes: 0 };
    return { ...extent, offset: 0, length };
  });
  const ids = runs.map(({ id }) => id);
  const [first] = ids;
  return {
    manifest: encodeManifest(runs),
    sizeBytes: runs.reduce((sum, run) => sum + run.length, 0),
    extentIds: isInline ? [] : ids,
    // The id stands for the body, so that a mix-up shows.
    inline: isInline && first ? { id: first, body: first } : null,
  };
}

/** Where the bucket has no lock either: what is locked holds wherever it is. */
function attributesOf(random: Random, seq: number): string {
  const common = { headers: {}, metadata: {} };
  const isHeld = randomBelow(random, 12) === 0;
  const writer = writerOf(random);
  const written = { ...common, ...(writer !== undefined && { writer }) };
  return JSON.stringify(isHeld ? { ...written, retention: retentionOf(random, seq) } : written);
}

/** undefined: the bucket's owner. */
function writerOf(random: Random): string | undefined {
  return randomOf(random, [undefined, 'one/bob', 'two/bob']);
}

/** Soon over: the clock of these changes is their number. */
function retentionOf(random: Random, seq: number) {
  const mode = randomOf(random, ['GOVERNANCE', 'COMPLIANCE'] as const);
  return { mode, untilMs: seq + randomBelow(random, 60) };
}

function objectOf(
  tenant: string,
  sizeBytes: number,
  manifest: Uint8Array,
  seq: number,
  attributes = '{"headers":{},"metadata":{}}',
): ObjectDraft {
  return sealObject(keyring, {
    tenant,
    sizeBytes,
    etag: `etag-${seq}`,
    sha256: null,
    class: 'STANDARD',
    owner: 'alice',
    attributes,
    manifest,
  });
}

function putObject(random: Random, model: LedgerModel, seq: number): RandomChange {
  const { id: bucketId, tenant } = bucketOf(random, model);
  const key = keyOf(random, model, bucketId);
  const { manifest, sizeBytes, extentIds, inline } = bodyOf(random);
  const conditions = conditionsOf(random, model, bucketId, key);
  const object = objectOf(tenant, sizeBytes, manifest, seq, attributesOf(random, seq));
  return {
    change: { kind: 'putObject', bucketId, key, conditions, object, extentIds, inline },
    declare: extentIds,
  };
}

/** A version that is there, current or not; seldom one that never was. */
function sourceOf(random: Random, model: LedgerModel) {
  const none = { bucketId: 1, key: 'none', seq: 999_999 };
  if (model.versions.length === 0 || randomBelow(random, 10) === 0) {
    return { source: none, manifest: Buffer.alloc(0), sizeBytes: 0 };
  }
  const { bucketId, key, seq, manifest, sizeBytes } = randomOf(random, model.versions);
  return { source: { bucketId, key, seq }, manifest, sizeBytes };
}

function copyObject(random: Random, model: LedgerModel, seq: number): RandomChange {
  const { id: bucketId, tenant } = bucketOf(random, model);
  const key = keyOf(random, model, bucketId);
  const conditions = conditionsOf(random, model, bucketId, key);
  const { source, manifest, sizeBytes } = sourceOf(random, model);
  const object = objectOf(tenant, sizeBytes, manifest, seq);
  return {
    change: { kind: 'copyObject', bucketId, key, conditions, source, object },
    declare: [],
  };
}

/** Mostly of a current object, now and then of one that is not current any more. */
function renameObject(random: Random, model: LedgerModel): RandomChange {
  const { id: bucketId } = bucketOf(random, model);
  const key = keyOf(random, model, bucketId);
  const conditions = conditionsOf(random, model, bucketId, key);
  const current = model.currentOf(bucketId);
  const kept = model.keptOf(bucketId);
  const from = randomBelow(random, 8) === 0 ? kept : current;
  const { key: sourceKey, seq } = from.length > 0 ? randomOf(random, from) : { key: 'k', seq: 1 };
  const source = { key: sourceKey, seq };
  return {
    change: { kind: 'renameObject', bucketId, key, conditions, source, token: null },
    declare: [],
  };
}

function deleteObject(random: Random, model: LedgerModel): RandomChange {
  const { id: bucketId } = bucketOf(random, model);
  const key = keyOf(random, model, bucketId);
  const conditions = conditionsOf(random, model, bucketId, key);
  return { change: { kind: 'deleteObject', bucketId, key, conditions }, declare: [] };
}

/** Mostly one that is there, by its id. */
function namedOf(random: Random, model: LedgerModel) {
  const all = model.versions.filter((one) => !one.hasEnded);
  if (all.length === 0 || randomBelow(random, 15) === 0) {
    return { bucketId: bucketOf(random, model).id, key: 'k', versionId: 'f'.repeat(32) };
  }
  const { bucketId, key, versionId } = randomOf(random, all);
  return { bucketId, key, versionId: versionId ?? 'null' };
}

function deleteVersion(random: Random, model: LedgerModel): RandomChange {
  const named = namedOf(random, model);
  const none = { ifMatch: null, ifNoneMatch: null };
  const own = model.kept(named.bucketId, named.key).map(({ etag }) => etag);
  const isConditional = own.length > 0 && randomBelow(random, 3) === 0;
  const conditions = isConditional ? { ...none, ifMatch: [randomOf(random, own)] } : none;
  const bypassGovernance = randomBelow(random, 2) === 0;
  const change = { kind: 'deleteObject', ...named, conditions, bypassGovernance } as const;
  return { change, declare: [] };
}

function amendVersion(random: Random, model: LedgerModel, seq: number): RandomChange {
  const { versionId, ...at } = namedOf(random, model);
  const amendment = randomOf<Amendment>(random, [
    { tags: [['colour', 'blue']] },
    { tags: null },
    { retention: retentionOf(random, seq) },
    { retention: null },
    { legalHold: true },
    { legalHold: false },
    { legalHold: false },
  ]);
  const bypassGovernance = randomBelow(random, 2) === 0;
  const named = randomBelow(random, 3) === 0 ? at : { ...at, versionId };
  const change = { kind: 'amendVersion', ...named, amendment, bypassGovernance } as const;
  return { change, declare: [] };
}

function createUpload(random: Random, model: LedgerModel): RandomChange {
  const { id: bucketId } = bucketOf(random, model);
  const change = {
    kind: 'createUpload',
    id: randomBytesOf(random, 16).toString('base64url'),
    bucketId,
    key: keyOf(random, model, bucketId),
    initiator: writerOf(random) ?? 'one/alice',
    class: 'STANDARD',
    attributes: '{}',
    epoch: 1,
  } as const;
  return { change, declare: [] };
}

/** Mostly one that is unfinished; seldom one that is finished, or none. */
function uploadOf(random: Random, model: LedgerModel): ModelUpload {
  const at = { id: 'none', bucketId: 1, key: 'k', begunOn: null, isDisturbed: false };
  const initiator = 'one/alice';
  const none = { ...at, initiator, completed: false, parts: new Map() };
  if (model.uploads.size === 0 || randomBelow(random, 20) === 0) return none;
  const all = [...model.uploads.values()];
  const open = all.filter((upload) => !upload.completed);
  return randomOf(random, open.length > 0 && randomBelow(random, 8) > 0 ? open : all);
}

function placeOf(model: LedgerModel, upload: ModelUpload): PartPlace {
  const bucket = model.buckets.find(({ id }) => id === upload.bucketId);
  return { tenant: bucket?.tenant ?? 'one', uploadId: upload.id };
}

function partOf(random: Random, place: PartPlace, sizeBytes: number, manifest: Uint8Array) {
  const number = 1 + randomBelow(random, 4);
  const part = { number, sizeBytes, etag: 'part', checksum: null, manifest };
  return sealPart(keyring, place, part);
}

function putPart(random: Random, model: LedgerModel): RandomChange {
  const place = placeOf(model, uploadOf(random, model));
  const { manifest, sizeBytes, extentIds, inline } = bodyOf(random);
  const part = partOf(random, place, sizeBytes, manifest);
  return {
    change: { kind: 'putPart', ...place, part, extentIds, inline, source: null },
    declare: extentIds,
  };
}

/** A random run of a version's bytes. */
function copyPart(random: Random, model: LedgerModel): RandomChange {
  const place = placeOf(model, uploadOf(random, model));
  const { source, manifest, sizeBytes } = sourceOf(random, model);
  const start = randomBelow(random, sizeBytes + 1);
  const end = start + randomBelow(random, sizeBytes - start + 1);
  const sliced = encodeManifest(sliceRuns(decodeManifest(manifest), start, end));
  const part = partOf(random, place, end - start, sliced);
  return {
    change: {
      kind: 'putPart',
      ...place,
      part,
      extentIds: [],
      inline: null,
      source,
    },
    declare: [],
  };
}

/** Some of the parts; seldom one that is not there or has changed, or another key. */
function completeUpload(random: Random, model: LedgerModel, seq: number): RandomChange {
  const upload = uploadOf(random, model);
  const parts = [...upload.parts]
    .filter(() => randomBelow(random, 4) > 0)
    .sort(([a], [b]) => a - b)
    .map(([number, { manifest, sizeBytes }]) => ({ number, manifest, sizeBytes }));
  if (randomBelow(random, 15) === 0) {
    parts.push({ number: 5, manifest: Buffer.alloc(0), sizeBytes: 0 });
  }
  const first = parts[0];
  if (first && randomBelow(random, 15) === 0) first.manifest = Buffer.alloc(36);
  const key = randomBelow(random, 15) === 0 ? 'another' : upload.key;
  const manifest = Buffer.concat(parts.map((part) => part.manifest));
  const sizeBytes = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
  const { tenant } = placeOf(model, upload);
  return {
    change: {
      kind: 'completeUpload',
      bucketId: upload.bucketId,
      key,
      uploadId: upload.id,
      conditions: conditionsOf(random, model, upload.bucketId, key),
      parts: {
        numbers: Uint32Array.from(parts, ({ number }) => number),
        manifestBytes: Uint32Array.from(parts, (part) => part.manifest.length),
      },
      fingerprint: '',
      object: objectOf(tenant, sizeBytes, manifest, seq),
    },
    declare: [],
  };
}

function transferUpload(random: Random, model: LedgerModel): RandomChange {
  const { id, bucketId, initiator } = uploadOf(random, model);
  const from = randomBelow(random, 8) === 0 ? 'one/nobody' : initiator;
  const to = randomOf(random, ['one/alice', 'one/bob', 'two/bob']);
  return { change: { kind: 'transferUpload', bucketId, id, from, to }, declare: [] };
}

function abortUpload(random: Random, model: LedgerModel): RandomChange {
  const upload = uploadOf(random, model);
  const { bucketId, key } = upload;
  const change = { kind: 'abortUpload', bucketId, key, ...placeOf(model, upload) } as const;
  return { change, declare: [] };
}

/** A record that names, as its target, the bucket's account. */
export function draftOf(
  change: CatalogChange,
  charged: { tenant: string; principal: string; bucket: ModelBucket | null },
  transfer: { ingressBytes: number; egressBytes: number },
  /** What a rename is of. */
  renamed: Pick<ObjectDraft, 'sizeBytes' | 'etag' | 'sha256' | 'class'> | null,
): RecordDraft {
  const { bucket } = charged;
  const object = 'object' in change ? change.object : renamed;
  return {
    action: change.kind,
    tenant: charged.tenant,
    principal: charged.principal,
    accessKeyId: null,
    evidence: 'none',
    bucket: bucket?.name ?? null,
    bucketTenant: bucket && bucket.tenant !== charged.tenant ? bucket.tenant : null,
    key: 'key' in change ? change.key : null,
    target: bucket ? `bucket:${bucket.tenant}/${bucket.name}` : null,
    bytesIn: transfer.ingressBytes,
    bytesOut: transfer.egressBytes,
    sizeBytes: object?.sizeBytes ?? null,
    etag: object?.etag ?? null,
    sha256: object?.sha256 ? Buffer.from(object.sha256).toString('hex') : null,
    class: object?.class ?? null,
    range: null,
    requestId: randomUUID(),
    source: 'a test',
    status: 200,
    error: null,
  };
}
