// CompleteMultipartUpload: joins the parts' manifests in one commit; asked twice, it answers the
// same.
import { createHash } from 'node:crypto';
import { sealObject } from '../../../catalog/authentic.ts';
import { type CompletedUpload, listParts, type Part } from '../../../catalog/uploads.ts';
import { type Attributes, findCurrent } from '../../../catalog/versions.ts';
import { percentEncode } from '../../../core/canonical-request.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { objectBytesMax, partBytesMin, partCountMax, xmlBytesMax } from '../../../core/limits.ts';
import { countRuns } from '../../../core/manifest.ts';
import { Pace } from '../../../core/pace.ts';
import {
  type ChecksumAlgorithm,
  type CrcAlgorithm,
  checksumAlgorithms,
  combineCrc,
  createChecksum,
  defaultChecksum,
  loadChecksums,
} from '../../../tiering/checksums.ts';
import { quoted, type Reply, xmlReply } from '../../http/reply.ts';
import { parseLargeXml, textOf, type XmlNode } from '../../http/xml.ts';
import { madeHeaders } from '../asked-version.ts';
import { receiveSmall } from '../body.ts';
import { decideConditions, noConditions } from '../conditional.ts';
import {
  checksumElement,
  checksumHeader,
  decodeChecksum,
  isChecksum,
  severalChecksums,
} from '../objects/checksum-headers.ts';
import { openUploadCustomer, readCustomerKey } from '../objects/customer-key.ts';
import { encryptionHeaders } from '../objects/encryption.ts';
import { writtenExpiration } from '../objects/lifecycle-headers.ts';
import { withWriter } from '../objects/object-attributes.ts';
import { joinPartChecksums, joinPartSizes } from '../objects/object-parts.ts';
import {
  checkRunCount,
  findNamedUpload,
  type OpenUpload,
  readChecksumType,
  type UploadAttributes,
} from '../objects/upload-attributes.ts';
import { reserveForWriter } from '../objects/writer-budget.ts';
import { storeOfClass } from '../objects/written-class.ts';
import type { Operation } from '../operation.ts';
import type { S3Request } from '../request.ts';
import type { Reserved } from '../stages.ts';

export const completeMultipartUpload: Operation<'object'> = {
  name: 'CompleteMultipartUpload',
  action: 's3:PutObject',
  resource: 'object',
  price: 'put',
  bodyBytesMax: xmlBytesMax,
  run,
};

/** Parts may be replaced while we compose them; the commit notices, and we compose again. */
const triesMax = 3;

interface AskedPart {
  number: number;
  etag: string;
  checksum: string | undefined;
}

async function run(context: Reserved<'object'>): Promise<Reply> {
  // The upload is looked up first: for one that is not there, the list of parts does not matter.
  const { upload } = await findNamedUpload(context);
  const place = { tenant: context.bucket.tenant, uploadId: upload.id };
  const nodes = await readList(await receiveSmall(context, 'object'));
  for (let tries = 1; ; tries++) {
    // Parts first: if the upload is still open after that, they are not those of a completed one.
    const stored = await listParts(context.services, place, 0, partCountMax);
    const open = await findNamedUpload(context);
    checkMode(context.request, open.attributes);
    checkCustomer(context, open.attributes);
    const asked = await parseParts(nodes, open);
    // What follows takes some milliseconds of many parts.
    await new Pace().wait();
    const fingerprint = createHash('sha256').update(JSON.stringify(asked)).digest('hex');
    if (open.upload.completed !== null) return repeat(context, open, fingerprint);
    const parts = matchParts(asked, stored, open);
    const result = await commit(context, open, parts, fingerprint);
    if (result.ok) {
      const reply = describe(context, result, result.version?.versionId);
      const { manifest, attributes } = result;
      Object.assign(reply.headers, encryptionHeaders(manifest, attributes, context.services));
      const rules = context.services.lifecycle.find(context.bucket.id);
      if (rules) {
        const { timeMs: createdMs } = result;
        const made = { key: context.key, sizeBytes: sumBytes(parts), createdMs, attributes };
        Object.assign(reply.headers, await writtenExpiration(rules, made));
      }
      return reply;
    }
    const lost = result.code === 'SlowDown' || result.code === 'NoSuchUpload';
    if (!lost || tries === triesMax) throw context.failureOf(result);
  }
}

async function commit(
  context: Reserved<'object'>,
  open: OpenUpload,
  parts: Part[],
  fingerprint: string,
) {
  const { upload } = open;
  const { bucket, key, services } = context;
  const attributes = await composeAttributes(open.attributes, parts);
  compareWithHeaders(context.request, open.attributes, attributes, parts);
  const etag = compositeTag(parts);
  const sizeBytes = sumBytes(parts);
  const manifest = Buffer.concat(parts.map((part) => part.manifest));
  checkRunCount(countRuns(manifest), sizeBytes);
  context.asked.checkWritten({ storageClass: upload.class, sizeBytes });
  context.writeTo(storeOfClass(services, bucket, upload.class), upload.class);
  // Again for each try: what the one before it held is free.
  await context.budget.reserve({ storedObjects: 1 });
  await reserveForWriter(context, upload.initiator, { storedBytes: 0, storedObjects: 1 });
  await context.budget.reserveStorage(upload.class, sizeBytes);
  const result = await context.tryCommit(
    {
      kind: 'completeUpload',
      bucketId: bucket.id,
      key,
      uploadId: upload.id,
      conditions: (await decideConditions(context)) ?? noConditions,
      parts: {
        numbers: Uint32Array.from(parts, ({ number }) => number),
        manifestBytes: Uint32Array.from(parts, ({ manifest }) => manifest.length),
      },
      fingerprint,
      object: sealObject(services.keyring, {
        tenant: bucket.tenant,
        sizeBytes,
        etag,
        sha256: null,
        class: upload.class,
        owner: bucket.owner,
        attributes: withWriter(attributes, upload.initiator, bucket),
        manifest,
      }),
    },
    { sizeBytes, etag, class: upload.class },
  );
  return { ...result, etag, attributes, manifest };
}

/** The answer of the first time, if the same was asked then. */
async function repeat(
  context: Reserved<'object'>,
  open: OpenUpload,
  fingerprint: string,
): Promise<Reply> {
  const done = JSON.parse(open.upload.completed ?? '') as CompletedUpload;
  if (done.fingerprint !== fingerprint) {
    throw new Refusal('NoSuchUpload', { fields: { UploadId: open.upload.id } });
  }
  context.detail = { ...context.detail, etag: done.etag };
  const attributes = JSON.parse(done.attributes) as Attributes;
  const reply = describe(context, { etag: done.etag, attributes }, done.versionId);
  // How its bytes are stored is known where it is still what the key is.
  const { bucket, key, services } = context;
  const current = await findCurrent(services, bucket, key);
  if (current?.etag === done.etag) {
    Object.assign(reply.headers, encryptionHeaders(current.manifest, attributes, services));
  }
  return reply;
}

function describe(
  context: Reserved<'object'>,
  { etag, attributes }: { etag: string; attributes: Attributes },
  versionId: string | null | undefined,
): Reply {
  const { key, request } = context;
  const origin = `${request.isSecure ? 'https' : 'http'}://${request.headers.host ?? ''}`;
  const { checksum } = attributes;
  const reply = xmlReply('CompleteMultipartUploadResult', {
    // The request's own path names the object, with its bucket where the host does not.
    Location: `${origin}${percentEncode(request.path, true)}`,
    Bucket: context.askedName,
    Key: key,
    ETag: quoted(etag),
    ...(checksum ? { [checksumElement(checksum.algorithm)]: checksum.value } : {}),
    ChecksumType: checksum?.type,
  });
  Object.assign(reply.headers, madeHeaders(versionId));
  return reply;
}

/** The elements of the parts in the order of the list. Throws `Refusal` MalformedXML. */
async function readList(body: Buffer): Promise<XmlNode[]> {
  if (body.length === 0) {
    throw new Refusal('InvalidRequest', { message: 'You must specify at least one part' });
  }
  const root = await parseLargeXml(body, 'CompleteMultipartUpload');
  const nodes = root.children.filter((child) => child.name === 'Part');
  if (nodes.length === 0 || nodes.length > partCountMax) throw new Refusal('MalformedXML');
  return nodes;
}

/** Longer than any value that fits, and all of one that does not that an answer repeats. */
const valueLengthMax = 256;

async function parseParts(
  nodes: readonly XmlNode[],
  { upload: { id: uploadId }, attributes }: OpenUpload,
): Promise<AskedPart[]> {
  const asked: AskedPart[] = [];
  let before = 0;
  const pace = new Pace();
  for (const node of nodes) {
    if (pace.isDue) await pace.wait();
    const text = textOf(node, 'PartNumber')?.trim() ?? '';
    const etag = textOf(node, 'ETag')
      ?.trim()
      .slice(0, valueLengthMax)
      .replace(/^"(.*)"$/, '$1');
    if (!/^-?\d{1,9}$/.test(text) || etag === undefined) throw new Refusal('MalformedXML');
    const number = Number(text);
    if (number < 1) throw invalidArgument('PartNumber', text, 'PartNumber must be >= 1');
    if (number <= before) {
      throw new Refusal('InvalidPartOrder', { fields: { UploadId: uploadId } });
    }
    before = number;
    const checksum = readPartChecksum(node, attributes.checksum, { number, etag, uploadId });
    asked.push({ number, etag, checksum });
  }
  return asked;
}

/**
 * The checksum that the list gives of a part. Throws `Refusal` for what cannot be compared: its
 * sender takes it for verified. An upload that was begun without an algorithm has parts without
 * checksums, and there is no such part as one that has one.
 */
function readPartChecksum(
  node: XmlNode,
  upload: UploadAttributes['checksum'],
  part: NamedPart,
): string | undefined {
  const given = node.children.filter(({ name }) => /^Checksum(?!Type$)/.test(name));
  const [one, another] = given;
  if (!one && upload?.type === 'COMPOSITE') throw missingPartChecksum(upload.algorithm, part);
  if (!one) return undefined;
  if (!upload) throw invalidPart(part);
  const { algorithm } = upload;
  const value = one.text.trim().slice(0, valueLengthMax);
  if (another) throw invalidPartChecksum(value);
  if (one.name !== checksumElement(algorithm)) {
    const name = one.name.slice('Checksum'.length, valueLengthMax).toLowerCase();
    const { number } = part;
    const message = `The ${name} you specified for part ${number} did not match what we received.`;
    throw new Refusal('BadDigest', { message });
  }
  if (!isChecksum(algorithm, value)) throw invalidPartChecksum(value);
  return value;
}

function missingPartChecksum(algorithm: ChecksumAlgorithm, { number }: NamedPart): Refusal {
  const message =
    `The upload was created using a ${algorithm.toLowerCase()} checksum. The complete request ` +
    `must include the checksum for each part. It was missing for part ${number} in the request.`;
  return new Refusal('InvalidRequest', { message });
}

function invalidPartChecksum(value: string): Refusal {
  return invalidArgument(
    'Checksum',
    value,
    'A part has more than one checksum, or one that is none.',
  );
}

interface NamedPart {
  number: number;
  etag: string;
  uploadId: string;
}

function invalidPart({ number, etag, uploadId }: NamedPart): Refusal {
  const fields = { UploadId: uploadId, PartNumber: String(number), ETag: etag };
  return new Refusal('InvalidPart', { fields });
}

function matchParts(
  asked: AskedPart[],
  stored: Part[],
  { upload: { id: uploadId }, attributes }: OpenUpload,
): Part[] {
  const byNumber = new Map(stored.map((part) => [part.number, part]));
  const parts = asked.map(({ number, etag, checksum }) => {
    const part = byNumber.get(number);
    const fits =
      part?.etag === etag &&
      (checksum === undefined || part.checksum === null || checksum === part.checksum);
    if (!part || !fits) throw invalidPart({ number, etag, uploadId });
    return part;
  });
  for (const part of parts.slice(0, -1)) {
    if (part.sizeBytes >= partBytesMin) continue;
    const fields = {
      ProposedSize: String(part.sizeBytes),
      MinSizeAllowed: String(partBytesMin),
      PartNumber: String(part.number),
      ETag: part.etag,
    };
    throw new Refusal('EntityTooSmall', { fields });
  }
  const sizeBytes = sumBytes(parts);
  if (sizeBytes > objectBytesMax) throw new Refusal('EntityTooLarge');
  if (attributes.checksum && parts.some((part) => part.checksum === null)) {
    throw new Error('a part of an upload with checksums has none');
  }
  return parts;
}

function sumBytes(parts: readonly Part[]): number {
  return parts.reduce((sum, part) => sum + part.sizeBytes, 0);
}

/** S3's ETag of a multipart object: the MD5 of the parts' MD5s, and their number. */
function compositeTag(parts: readonly Part[]): string {
  const md5 = createHash('md5');
  for (const part of parts) md5.update(Buffer.from(part.etag, 'hex'));
  return `${md5.digest('hex')}-${parts.length}`;
}

async function composeAttributes(
  upload: UploadAttributes,
  parts: readonly Part[],
): Promise<Attributes> {
  const attributes: Attributes = {
    ...upload.object,
    partBytes: joinPartSizes(parts.map((part) => part.sizeBytes)),
  };
  const { customer } = upload.object;
  if (customer) attributes.customer = { ...customer, nonces: joinNonces(parts) };
  // As on AWS, which needs the customer's key for it.
  if (customer && !upload.checksum) return attributes;
  // Parts that release 0.1.0 took have no checksum of their own accord.
  if (parts.some((part) => part.checksum === null)) return attributes;
  const checksums = parts.map((part) => Buffer.from(part.checksum ?? '', 'base64'));
  if (!upload.checksum) {
    const value = await joinCrcs(defaultChecksum, checksums, parts);
    return { ...attributes, checksum: { algorithm: defaultChecksum, type: 'FULL_OBJECT', value } };
  }
  const { algorithm, type } = upload.checksum;
  await loadChecksums([algorithm]);
  const value =
    type === 'COMPOSITE'
      ? compositeChecksum(algorithm, checksums)
      : await joinCrcs(algorithm as CrcAlgorithm, checksums, parts);
  return {
    ...attributes,
    partChecksums: joinPartChecksums(checksums),
    checksum: { algorithm, type, value },
  };
}

function compositeChecksum(algorithm: ChecksumAlgorithm, checksums: readonly Buffer[]): string {
  const checksum = createChecksum(algorithm);
  for (const one of checksums) checksum.update(one);
  return `${checksum.digest().toString('base64')}-${checksums.length}`;
}

async function joinCrcs(
  algorithm: CrcAlgorithm,
  checksums: readonly Buffer[],
  parts: readonly Part[],
): Promise<string> {
  const [first, ...rest] = checksums;
  let joined = first as Buffer;
  const pace = new Pace();
  for (const [i, checksum] of rest.entries()) {
    joined = combineCrc(algorithm, joined, checksum, (parts[i + 1] as Part).sizeBytes);
    if (pace.isDue) await pace.wait();
  }
  return joined.toString('base64');
}

/** The ETag of a part that a customer's key encrypts is its nonce (tiering/customer-sink.ts). */
function joinNonces(parts: readonly Part[]): string {
  return Buffer.from(parts.map((part) => part.etag).join(''), 'hex').toString('base64');
}

/** A customer's key need not come with the list of parts; one that does has to be the upload's. */
function checkCustomer(context: Reserved<'object'>, { object }: UploadAttributes): void {
  const { request, bucket, services } = context;
  if (readCustomerKey(request, 'own')) openUploadCustomer(request, object, bucket, services);
}

/** Throws `Refusal` where the request says another type of checksum than the upload has. */
function checkMode(request: S3Request, { checksum }: UploadAttributes): void {
  const type = readChecksumType(request);
  if (type === null || type === checksum?.type) return;
  const message =
    `The upload was created using the ${checksum?.type ?? null} checksum mode. The complete ` +
    'request must use the same checksum mode.';
  throw new Refusal('InvalidRequest', { message });
}

function compareWithHeaders(
  request: S3Request,
  upload: UploadAttributes,
  { checksum }: Attributes,
  parts: readonly Part[],
): void {
  const size = request.headers['x-amz-mp-object-size'];
  if (size !== undefined && size !== String(sumBytes(parts))) {
    const message =
      `The provided 'x-amz-mp-object-size' header value ${size} does not match what was ` +
      `computed: ${sumBytes(parts)}`;
    throw new Refusal('InvalidRequest', { message });
  }
  const claimed = claimedFinal(request);
  if (claimed) compareChecksum(upload, checksum, claimed);
}

/**
 * The checksum of the whole object in the headers; after a composite one is the number of parts.
 */
function claimedFinal(
  request: S3Request,
): { algorithm: ChecksumAlgorithm; value: string } | undefined {
  const claims = checksumAlgorithms.flatMap((algorithm) => {
    const value = request.headers[checksumHeader(algorithm)];
    return value === undefined ? [] : [{ algorithm, value }];
  });
  if (claims.length > 1) throw severalChecksums();
  const [claim] = claims;
  if (claim) decodeChecksum(claim.algorithm, claim.value.replace(/-\d{1,5}$/, ''));
  return claim;
}

/** What cannot be compared is refused: its sender takes it for verified. */
function compareChecksum(
  upload: UploadAttributes,
  checksum: Attributes['checksum'],
  { algorithm, value }: { algorithm: ChecksumAlgorithm; value: string },
): void {
  const name = algorithm.toLowerCase();
  if (checksum && upload.checksum && checksum.algorithm !== algorithm) {
    throw badDigest(checksum.algorithm);
  }
  if (checksum?.algorithm !== algorithm) {
    const message =
      'Checksum Type mismatch occurred, expected checksum Type: ' +
      `${checksum?.algorithm.toLowerCase() ?? 'null'}, actual checksum Type: ${name}`;
    throw new Refusal('InvalidRequest', { message });
  }
  // minio-go leaves out the number of parts.
  if (value === checksum.value || value === checksum.value.replace(/-\d+$/, '')) return;
  throw badDigest(algorithm);
}

function badDigest(algorithm: string): Refusal {
  const name = algorithm.toLowerCase();
  const message = `The ${name} you specified did not match the calculated checksum.`;
  return new Refusal('BadDigest', { message });
}
