// The root keys in a backup: the key file's text, sealed under a passphrase, or as it is where KMS
// protects each of its keys. Invariant: who has the place and not the passphrase, or the use of the
// KMS key, has no root key. The key is scrypt's (RFC 7914) of the passphrase, the cipher
// AES-256-GCM.
import { createCipheriv, createDecipheriv, randomBytes, scryptSync } from 'node:crypto';
import { IntegrityError } from '../core/errors.ts';

export type SealedKeys =
  | { form: 'kms'; file: string }
  | { form: 'scrypt'; cost: number; salt: string; sealed: string };

/** scrypt's cost: each guess needs 128 MiB and some tenths of a second. */
const cost = 2 ** 17;
/** The cost is read before anything is known to be authentic, so it is bounded: 16 to 256 MiB. */
const [costMin, costMax] = [2 ** 14, 2 ** 18];
const blockSize = 8;
const saltBytes = 16;
const nonceBytes = 12;
const tagBytes = 16;
const fileBytesMax = 1024 * 1024;

/** `file`: the text of the key file. */
export function sealKeys(file: string, passphrase: string, id: string): SealedKeys {
  const salt = randomBytes(saltBytes);
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', keyOf(passphrase, salt, cost), nonce);
  cipher.setAAD(associatedData(id));
  const body = Buffer.concat([cipher.update(file, 'utf8'), cipher.final()]);
  const sealed = Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64');
  return { form: 'scrypt', cost, salt: salt.toString('base64'), sealed };
}

/** The text of the key file. Throws IntegrityError: another passphrase, or damage. */
export function openKeys(
  keys: Extract<SealedKeys, { form: 'scrypt' }>,
  passphrase: string,
  id: string,
): string {
  const sealed = Buffer.from(keys.sealed, 'base64');
  try {
    const key = keyOf(passphrase, Buffer.from(keys.salt, 'base64'), keys.cost);
    const nonce = sealed.subarray(0, nonceBytes);
    const options = { authTagLength: tagBytes };
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, options);
    decipher.setAAD(associatedData(id));
    decipher.setAuthTag(sealed.subarray(nonceBytes, nonceBytes + tagBytes));
    const body = decipher.update(sealed.subarray(nonceBytes + tagBytes));
    return Buffer.concat([body, decipher.final()]).toString('utf8');
  } catch (cause) {
    const message = `the keys in backup ${id} do not open: another passphrase, or they are damaged`;
    throw new IntegrityError(message, { cause });
  }
}

export function isSealedKeys(value: unknown): value is SealedKeys {
  const { form, file, cost: given, salt, sealed } = Object(value) as Record<string, unknown>;
  if (form === 'kms') return typeof file === 'string' && file.length <= fileBytesMax;
  return (
    form === 'scrypt' &&
    isCost(given) &&
    typeof salt === 'string' &&
    salt.length <= 128 &&
    typeof sealed === 'string' &&
    sealed.length <= 2 * fileBytesMax
  );
}

function isCost(value: unknown): boolean {
  return (
    typeof value === 'number' &&
    value >= costMin &&
    value <= costMax &&
    Number.isInteger(Math.log2(value))
  );
}

function keyOf(passphrase: string, salt: Buffer, n: number): Buffer {
  const maxmem = 256 * n * blockSize;
  return scryptSync(passphrase.normalize('NFC'), salt, 32, { N: n, r: blockSize, p: 1, maxmem });
}

function associatedData(id: string): Buffer {
  return Buffer.from(`bursar/backup-keys/v1\0${id}`);
}

/** Returns whether a text is a key file in which KMS wrapped every key. */
export function isKeyFileWrapped(file: string): boolean {
  try {
    const { keys } = JSON.parse(file) as { keys: { key?: unknown; wrapped: string }[] };
    return (
      keys.length > 0 &&
      keys.every(({ key, wrapped }) => key === undefined && typeof wrapped === 'string')
    );
  } catch {
    return false;
  }
}
