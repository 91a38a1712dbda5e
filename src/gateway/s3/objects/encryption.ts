// Server-side encryption as S3 names it: what a write asks for, and what is answered of an object.
// Everything is encrypted in one way, under keys that derive from the root keys and the tenant's
// secret; `aws:kms` says that the root key is wrapped by a key of AWS KMS. Invariant: of bytes that
// are not encrypted nothing says that they are, whatever was asked for.
// Specification: "Protecting data with server-side encryption" of the Amazon S3 user guide.
import type { BucketEncryption } from '../../../catalog/bucket-encryption.ts';
import type { Attributes, KmsEncryption } from '../../../catalog/versions.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { isEncryptedManifest } from '../../../core/manifest.ts';
import type { S3Request } from '../request.ts';
import type { Reserved } from '../stages.ts';

export const encryptionHeader = 'x-amz-server-side-encryption';
const keyHeader = `${encryptionHeader}-aws-kms-key-id`;
const bucketKeyHeader = `${encryptionHeader}-bucket-key-enabled`;

/** What a write asks for. */
export type Wanted = Pick<Attributes, 'encryption'>;

const byDefault: Wanted = {};

/**
 * How what the request makes is to be encrypted: as it says, else as its bucket does. Throws
 * `Refusal` InvalidArgument or NotImplemented. A promise only where the bucket's word is not in
 * memory.
 */
export function readEncryption(context: Reserved<'object'>): Wanted | Promise<Wanted> {
  const { request, services, bucket } = context;
  const asked = readAsked(request.headers);
  if (!services.encrypts) {
    if (!asked && request.headers[keyHeader] === undefined) return byDefault;
    throw notHere('This gateway does not encrypt what it stores.');
  }
  if (asked) return decide(context, asked);
  const found = services.encryption.find(bucket.id);
  if (found instanceof Promise) return found.then((set) => decideAsSet(context, set));
  return decideAsSet(context, found);
}

function decideAsSet(context: Reserved<'object'>, set: BucketEncryption | null): Wanted {
  const bucketKey = context.request.headers[bucketKeyHeader];
  if (bucketKey === undefined) return set ? decide(context, set) : byDefault;
  if (set?.algorithm !== 'aws:kms') throw notWithKms(null);
  return decide(context, { ...set, bucketKeyEnabled: bucketKey.toLowerCase() === 'true' });
}

/**
 * Is encryption asked for, by the request or by its bucket? Else old bytes are left as they are.
 */
export async function demandsEncryption({
  request,
  services,
  bucket,
}: Reserved<'object'>): Promise<boolean> {
  if (!services.encrypts) return false;
  if (request.headers[encryptionHeader] !== undefined) return true;
  return (await services.encryption.find(bucket.id)) !== null;
}

/** null: the request says nothing of it. */
function readAsked(headers: S3Request['headers']): BucketEncryption | null {
  const algorithm = headers[encryptionHeader];
  const kmsKeyId = headers[keyHeader] ?? null;
  if (algorithm === undefined && kmsKeyId === null) return null;
  if (algorithm !== undefined) checkAlgorithm(algorithm, encryptionHeader);
  if (algorithm !== 'aws:kms') {
    const isOfKms = kmsKeyId !== null || headers[bucketKeyHeader] !== undefined;
    if (algorithm !== undefined && !isOfKms) return plainAes;
    throw notWithKms(algorithm ?? null);
  }
  const bucketKey = headers[bucketKeyHeader]?.toLowerCase();
  return { algorithm, kmsKeyId, bucketKeyEnabled: bucketKey === 'true' };
}

/** What belongs to KMS was given without it. */
function notWithKms(algorithm: string | null): Refusal {
  const message =
    'Server Side Encryption with AWS KMS managed key requires HTTP header ' +
    'x-amz-server-side-encryption : aws:kms';
  return invalidArgument(encryptionHeader, algorithm ?? 'null', message);
}

const plainAes: BucketEncryption = { algorithm: 'AES256', kmsKeyId: null, bucketKeyEnabled: false };

/** Throws `Refusal` InvalidArgument, or NotImplemented for one that is only S3's. */
export function checkAlgorithm(
  algorithm: string,
  argument: string,
): asserts algorithm is BucketEncryption['algorithm'] {
  if (algorithm === 'AES256' || algorithm === 'aws:kms') return;
  if (algorithm === 'aws:kms:dsse') {
    throw notHere('Dual-layer encryption (aws:kms:dsse) is not implemented.');
  }
  throw invalidArgument(argument, algorithm, 'The encryption method specified is not supported');
}

function decide(context: Reserved<'object'>, asked: BucketEncryption): Wanted {
  if (asked.algorithm === 'AES256') return byDefault;
  const kms = checkKmsKey(context.services.keyring.wrappedBy, asked.kmsKeyId);
  return { encryption: { kms, ...(asked.bucketKeyEnabled && { bucketKey: true as const }) } };
}

/**
 * The ARN of the KMS key that `aws:kms` means here. `wrappedBy`: that of the newest root key.
 * Throws `Refusal` NotImplemented where there is none, or InvalidArgument for another key.
 */
export function checkKmsKey(wrappedBy: string | null, kmsKeyId: string | null): string {
  if (wrappedBy === null) {
    throw notHere(
      'The newest root key of this gateway is not wrapped by AWS KMS, so nothing is encrypted ' +
        'under a key of KMS.',
    );
  }
  const isIt = kmsKeyId === null || kmsKeyId === wrappedBy || wrappedBy.endsWith(`/${kmsKeyId}`);
  if (isIt) return wrappedBy;
  const message = `This gateway encrypts under the KMS key ${wrappedBy} alone.`;
  throw invalidArgument(keyHeader, kmsKeyId, message);
}

function notHere(message: string): Refusal {
  return new Refusal('NotImplemented', { message, fields: { Header: encryptionHeader } });
}

const aes = { [encryptionHeader]: 'AES256' } as const;
const none: Record<string, string> = {};

/** What is answered of bytes: nothing, where they are not encrypted. */
export function encryptionHeaders(
  manifest: Uint8Array,
  { encryption, customer }: Wanted & Pick<Attributes, 'customer'>,
  { encrypts }: { encrypts: boolean },
): Record<string, string> {
  // Who brings the customer's key is told of that alone (`customerHeaders`).
  if (customer) return none;
  // Of an object without bytes it is said as of those that are written now.
  const isEncrypted = manifest.length === 0 ? encrypts : isEncryptedManifest(manifest);
  if (!isEncrypted) return none;
  return encryption ? kmsHeaders(encryption) : aes;
}

/** The same of what is to be written. */
export function plannedHeaders(
  { encryption, customer }: Wanted & Pick<Attributes, 'customer'>,
  { encrypts }: { encrypts: boolean },
): Record<string, string> {
  if (!encrypts || customer) return none;
  return encryption ? kmsHeaders(encryption) : aes;
}

function kmsHeaders({ kms, bucketKey }: KmsEncryption): Record<string, string> {
  const headers = { [encryptionHeader]: 'aws:kms', [keyHeader]: kms };
  return bucketKey ? { ...headers, [bucketKeyHeader]: 'true' } : headers;
}

/** Whether bytes that are shared are encrypted as the copy of them is to be. */
export function fitsWanted(
  source: { manifest: Uint8Array; attributes: string },
  wanted: Wanted,
): boolean {
  if (!isEncryptedManifest(source.manifest)) return false;
  if (!wanted.encryption) return true;
  const { encryption } = JSON.parse(source.attributes) as Attributes;
  return encryption?.kms === wanted.encryption.kms;
}

/**
 * Throws `Refusal` where the header of encryption is not for this operation: on reads, and on
 * parts, whose upload says it.
 */
export function refuseStrayEncryption({ method, headers, query, key }: S3Request): void {
  if (key === null) return;
  const isRead = method === 'GET' || method === 'HEAD';
  const isPart = query.some(([name]) => name === 'partNumber') && method === 'PUT';
  const asked = headers[encryptionHeader];
  if (asked !== undefined && (isRead || isPart)) {
    const message = `${encryptionHeader} header is not supported for this operation.`;
    throw invalidArgument(encryptionHeader, asked, message);
  }
}
