// Signed notes (C2SP signed-note) with Ed25519, and the cosignatures of witnesses (C2SP
// tlog-cosignature). A signature of a known key that does not verify makes the whole note
// worthless; those of unknown keys count for nothing.
import { createPublicKey, hash, type KeyObject, sign, verify } from 'node:crypto';
import { decodeBase64 } from '../../core/base64.ts';
import { decodeUtf8 } from '../../core/utf8.ts';

/** Types of signatures: by a log, and by a witness, who says when. */
export const ed25519 = 1;
export const cosignature = 4;

export interface NoteKey {
  name: string;
  type: typeof ed25519 | typeof cosignature;
  /** 32 bytes. */
  publicKey: Buffer;
  /** Four bytes, hex: they tell which key signed, and prove nothing. */
  id: string;
}

export interface NoteSigner {
  key: NoteKey;
  privateKey: KeyObject;
}

export interface NoteSignature {
  name: string;
  keyId: string;
  /** The bytes that follow the key's id. */
  bytes: Buffer;
  /** The line as it stands in the note, without its newline. */
  line: string;
}

export interface Note {
  /** The text of the note, with its last newline. */
  text: string;
  signatures: NoteSignature[];
}

/** golang.org/x/mod/sumdb/tlog reads checkpoints up to this length. */
const noteBytesMax = 1_000_000;
const signaturesMax = 100;
const keyNamePattern = /^[^\s+\p{Z}\p{C}]+$/u;
/** Unicode's spaces: `\s` has one more and one less. */
const signaturePattern = /^— ([^\p{White_Space}+]+) ([A-Za-z0-9+/]+={0,2})$/u;

/** Throws for a name that no key may have, and for a key of another length. */
export function noteKey(name: string, publicKey: Uint8Array, type: NoteKey['type']): NoteKey {
  if (!keyNamePattern.test(name)) throw new Error(`${JSON.stringify(name)} is no name of a key`);
  if (publicKey.length !== 32) throw new Error(`a public key of ${publicKey.length} bytes`);
  const typed = Buffer.concat([Buffer.of(type), publicKey]);
  const id = hash('sha256', Buffer.concat([Buffer.from(`${name}\n`), typed]), 'hex').slice(0, 8);
  return { name, type, publicKey: Buffer.from(publicKey), id };
}

/** The raw 32 bytes of an Ed25519 key's public half. */
export function rawPublicKey(key: KeyObject): Buffer {
  const jwk = (key.type === 'private' ? createPublicKey(key) : key).export({ format: 'jwk' });
  if (jwk.crv !== 'Ed25519' || jwk.x === undefined) throw new Error('this is no Ed25519 key');
  return Buffer.from(jwk.x, 'base64url');
}

/** `NAME+ID+BASE64`, as golang.org/x/mod/sumdb/note has verifiers. */
export function renderVerifier({ name, id, type, publicKey }: NoteKey): string {
  return `${name}+${id}+${Buffer.concat([Buffer.of(type), publicKey]).toString('base64')}`;
}

/** undefined: it is no verifier, or its id is not of this key. */
export function parseVerifier(line: string): NoteKey | undefined {
  const match = /^([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})$/.exec(line);
  if (!match) return undefined;
  const [, name = '', id, base64 = ''] = match;
  const typed = decodeBase64(base64);
  const type = typed?.[0];
  if (typed?.length !== 33 || (type !== ed25519 && type !== cosignature)) return undefined;
  if (!keyNamePattern.test(name)) return undefined;
  const key = noteKey(name, typed.subarray(1), type);
  return key.id === id ? key : undefined;
}

/** Signs with all keys; the same text and keys give the same note, byte for byte. */
export function signNote(text: string, signers: readonly NoteSigner[]): string {
  const lines = signers.map(({ key, privateKey }) => {
    const signature = sign(null, Buffer.from(text), privateKey);
    return renderSignature(key, signature);
  });
  return `${text}\n${lines.join('')}`;
}

/** A signature's line, with its newline. */
export function renderSignature({ name, id }: NoteKey, bytes: Uint8Array): string {
  return `— ${name} ${Buffer.concat([Buffer.from(id, 'hex'), bytes]).toString('base64')}\n`;
}

/** undefined: it is no signed note, or its bytes are no UTF-8. Nothing of it is verified. */
export function parseNote(given: string | Uint8Array): Note | undefined {
  if (Buffer.byteLength(given) > noteBytesMax) return undefined;
  const note = typeof given === 'string' ? given : decodeUtf8(given);
  if (note === undefined || /\p{Cs}/u.test(note)) return undefined;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
  if (/[\u0000-\u0009\u000b-\u001f]/.test(note)) return undefined;
  const blank = note.lastIndexOf('\n\n');
  if (blank < 0 || !note.endsWith('\n')) return undefined;
  const lines = note.slice(blank + 2, -1).split('\n');
  if (lines.length > signaturesMax) return undefined;
  const signatures: NoteSignature[] = [];
  for (const line of lines) {
    const match = signaturePattern.exec(line);
    if (!match) return undefined;
    const [, name = '', base64 = ''] = match;
    const bytes = decodeBase64(base64);
    if (!bytes || bytes.length <= 4) return undefined;
    const keyId = bytes.toString('hex', 0, 4);
    signatures.push({ name, keyId, bytes: bytes.subarray(4), line });
  }
  return { text: note.slice(0, blank + 1), signatures };
}

export interface VerifiedBy {
  key: NoteKey;
  /**
   * When a witness says that it saw the note, in seconds since 1970. Null means that a log signed
   * it.
   */
  timeS: number | null;
}

/**
 * Returns those of `keys` that signed the note. Undefined means that a signature is not one of this
 * note, so nothing in it may be believed.
 */
export function verifyNote(note: Note, keys: readonly NoteKey[]): VerifiedBy[] | undefined {
  const found: VerifiedBy[] = [];
  for (const { name, keyId, bytes } of note.signatures) {
    const key = keys.find((known) => known.name === name && known.id === keyId);
    if (!key || found.some((before) => before.key === key)) continue;
    const timeS = key.type === cosignature ? timeOf(bytes) : null;
    if (timeS === undefined) return undefined;
    const signed = timeS === null ? note.text : `cosignature/v1\ntime ${timeS}\n${note.text}`;
    const signature = timeS === null ? bytes : bytes.subarray(8);
    if (!verifySignature(key, Buffer.from(signed), signature)) return undefined;
    found.push({ key, timeS });
  }
  return found;
}

function timeOf(bytes: Buffer): number | undefined {
  if (bytes.length !== 8 + 64) return undefined;
  const timeS = Number(bytes.readBigUInt64BE());
  return Number.isSafeInteger(timeS) ? timeS : undefined;
}

function verifySignature({ publicKey }: NoteKey, signed: Buffer, signature: Buffer): boolean {
  const x = publicKey.toString('base64url');
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  return signature.length === 64 && verify(null, signed, key, signature);
}
