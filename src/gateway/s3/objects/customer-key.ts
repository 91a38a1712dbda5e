// Keys that customers bring in headers (SSE-C): of what is written or read, and of what is copied.
// Invariants: the key is in no answer, record, log or error; what was written with one tells
// nothing, and gives no byte, to who does not bring it, whatever else they may.
// Specification: "Using server-side encryption with customer-provided keys" of the Amazon S3 user
// guide; docs/decisions/0143-customer-keys.md.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isLoopbackAddress } from '../../../authz/oidc/address-policy.ts';
import type { Bucket } from '../../../catalog/buckets.ts';
import type { Attributes } from '../../../catalog/versions.ts';
import {
  type CustomerSeal,
  CustomerSecret,
  customerKeyBytes,
  customerNonceBytes,
  type Transform,
} from '../../../core/customer-key.ts';
import { Refusal } from '../../../core/errors.ts';
import type { CustomerWrite } from '../../../tiering/customer-sink.ts';
import type { RequestServices } from '../../services.ts';
import type { S3Request } from '../request.ts';
import type { Reserved } from '../stages.ts';
import { partSizesOf } from './object-parts.ts';

const encryptionHeader = 'x-amz-server-side-encryption';

/** Where a request says a key: for what it writes or reads, or for the source of a copy. */
export type KeyHeaders = 'own' | 'source';

function namesBehind(prefix: string) {
  return { algorithm: `${prefix}algorithm`, key: `${prefix}key`, md5: `${prefix}key-md5` };
}

const names = {
  own: namesBehind(`${encryptionHeader}-customer-`),
  source: namesBehind('x-amz-copy-source-server-side-encryption-customer-'),
} as const;

/** All of them, in lower case. */
export const customerHeaderNames = [names.own, names.source].flatMap(Object.values<string>);

/** `name`: in lower case. */
export function isCustomerHeader(name: string): boolean {
  return customerHeaderNames.includes(name);
}

export interface CustomerKey {
  key: Buffer;
  /** As the client gave it, and as it fits the key. */
  md5: string;
}

/**
 * The key that the request brings; null: none. Throws `Refusal` InvalidRequest where others could
 * read it on the way, InvalidArgument or InvalidEncryptionAlgorithmError.
 */
export function readCustomerKey(request: S3Request, which: KeyHeaders): CustomerKey | null {
  const { headers } = request;
  const named = names[which];
  const algorithm = headers[named.algorithm];
  const text = headers[named.key];
  const md5 = headers[named.md5];
  if (algorithm === undefined && text === undefined && md5 === undefined) return null;
  checkConnection(request);
  const other = which === 'own' ? headers[encryptionHeader] : undefined;
  if (other !== undefined) {
    const message =
      'Server Side Encryption with Customer provided key is incompatible with the encryption ' +
      'method specified';
    throw invalid(message, { ArgumentValue: other });
  }
  const who = 'Requests specifying Server Side Encryption with Customer provided keys must provide';
  if (algorithm === undefined) throw invalid(`${who} a valid encryption algorithm.`);
  if (algorithm !== 'AES256') {
    const fields = { ArgumentName: encryptionHeader, ArgumentValue: algorithm };
    throw new Refusal('InvalidEncryptionAlgorithmError', { fields });
  }
  if (text === undefined) throw invalid(`${who} an appropriate secret key.`);
  if (md5 === undefined) throw invalid(`${who} the client calculated MD5 of the secret key.`);
  const key = Buffer.from(text, 'base64');
  const digest = createHash('md5').update(key).digest();
  const claimed = Buffer.from(md5, 'base64');
  const isIt = claimed.length === digest.length && timingSafeEqual(claimed, digest);
  if (isIt) return { key, md5: digest.toString('base64') };
  throw invalid('The calculated MD5 hash of the key did not match the hash that was provided.');
}

function invalid(message: string, fields: Record<string, string> = {}): Refusal {
  return new Refusal('InvalidArgument', {
    message,
    fields: { ArgumentName: encryptionHeader, ...fields },
  });
}

/** A key comes by TLS, as this gateway or a proxy that it trusts says, or from this machine. */
function checkConnection({ isSecure, source }: S3Request): void {
  if (isSecure || isLoopbackAddress(source)) return;
  const message =
    'Requests specifying Server Side Encryption with Customer provided keys must be made over a ' +
    'secure connection.';
  throw new Refusal('InvalidRequest', { message });
}

/** What belongs to a key that was found to fit. */
export interface KnownCustomer {
  secret: CustomerSecret;
  seal: CustomerSeal;
  /** Of the key, base64. */
  md5: string;
}

/** Whose object it is. */
type Place = Pick<Bucket, 'tenant'>;
type Services = Pick<RequestServices, 'keyring'>;

/**
 * The request's own key, for what it begins to write; null: it brings none. Throws `Refusal` as
 * `readCustomerKey`; AccessDenied where the bucket takes none. A promise only where it brings one.
 */
export function createCustomer(
  context: Reserved<'object' | 'copy'>,
): Promise<KnownCustomer> | null {
  const given = readCustomerKey(context.request, 'own');
  return given && begin(context, given);
}

async function begin(
  { services, bucket }: Reserved<'object' | 'copy'>,
  given: CustomerKey,
): Promise<KnownCustomer> {
  if (given.key.length !== customerKeyBytes) {
    throw invalid('The secret key was invalid for the specified algorithm.');
  }
  const set = await services.encryption.find(bucket.id);
  if (set?.blocksCustomerKeys) {
    const message = 'Server Side Encryption with Customer provided keys is blocked by the bucket.';
    throw new Refusal('AccessDenied', { message });
  }
  const made = CustomerSecret.create(services.keyring, bucket.tenant, given.key);
  return { ...made, md5: given.md5 };
}

/**
 * Who reads what has these attributes brings its key; null: it needs none. Throws `Refusal`
 * InvalidRequest for a key that is missing or not applicable, or AccessDenied for another one.
 */
export function openCustomer(
  request: S3Request,
  which: KeyHeaders,
  { customer: seal }: Pick<Attributes, 'customer'>,
  place: Place,
  services: Services,
): KnownCustomer | null {
  const given = readCustomerKey(request, which);
  if (!given && !seal) return null;
  if (!seal) {
    const message = 'The encryption parameters are not applicable to this object.';
    throw new Refusal('InvalidRequest', { message });
  }
  if (!given) {
    const message =
      'The object was stored using a form of Server Side Encryption. The correct parameters must ' +
      'be provided to retrieve the object.';
    throw new Refusal('InvalidRequest', { message });
  }
  const secret = openSecret(services, place, { seal, given });
  if (secret) return { secret, seal, md5: given.md5 };
  const message =
    'Requests specifying Server Side Encryption with Customer provided keys must provide the ' +
    'correct secret key.';
  throw new Refusal('AccessDenied', { message });
}

/**
 * Who sends a part of an upload that was begun with these attributes, or a list of its parts,
 * brings the upload's key; null: it has none. Throws `Refusal` InvalidRequest.
 */
export function openUploadCustomer(
  request: S3Request,
  { customer: seal }: Pick<Attributes, 'customer'>,
  place: Place,
  services: Services,
): KnownCustomer | null {
  const given = readCustomerKey(request, 'own');
  if (!given && !seal) return null;
  if (!given || !seal) {
    const message =
      'The multipart upload initiate requested encryption. Subsequent part requests must include ' +
      'the appropriate encryption parameters.';
    throw new Refusal('InvalidRequest', { message });
  }
  const secret = openSecret(services, place, { seal, given });
  if (secret) return { secret, seal, md5: given.md5 };
  const message = 'The provided encryption parameters did not match the ones used originally.';
  throw new Refusal('InvalidRequest', { message });
}

function openSecret(
  { keyring }: Services,
  { tenant }: Place,
  { seal, given: { key } }: { seal: CustomerSeal; given: CustomerKey },
): CustomerSecret | null {
  if (key.length !== customerKeyBytes) return null;
  return CustomerSecret.open(keyring, tenant, { seal, key });
}

/** How the bytes of one write are encrypted, whose nonce becomes their ETag. */
export function writeWith({ secret }: KnownCustomer): CustomerWrite {
  const nonce = randomBytes(customerNonceBytes);
  return { encrypt: secret.encrypt(nonce), nonce, compared: { md5: false, sha256: false } };
}

/** What is kept of an object that is one write. */
export function sealOf(
  { seal }: KnownCustomer,
  { nonce }: Pick<CustomerWrite, 'nonce'>,
): Pick<Attributes, 'customer'> {
  return { customer: { ...seal, nonces: nonce.toString('base64') } };
}

/** What decrypts the bytes of an object from `start` on. */
export function readWith(
  { secret, seal }: KnownCustomer,
  { attributes, sizeBytes }: { attributes: Attributes; sizeBytes: number },
  start = 0,
): Transform {
  return secret.decrypt(seal, partSizesOf(attributes) ?? [sizeBytes], start);
}

/** What answers say of a key that fits. */
export function customerHeaders({ md5 }: Pick<KnownCustomer, 'md5'>): Record<string, string> {
  return { [names.own.algorithm]: 'AES256', [names.own.md5]: md5 };
}

/** Whether a key cannot mean anything: for a bucket, or for the source of what is no copy. */
export function isStrayKey(name: string, { headers, key }: S3Request): boolean {
  if (key === null) return true;
  return name.startsWith('x-amz-copy-source-') && headers['x-amz-copy-source'] === undefined;
}
