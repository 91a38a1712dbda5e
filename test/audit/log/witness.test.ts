// What is asked of a witness, to the letter of C2SP tlog-witness, and how little of an answer
// counts.
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { renderCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { emptyRoot } from '#bursar/audit/log/merkle.js';
import {
  cosignature,
  ed25519,
  type NoteKey,
  noteKey,
  parseNote,
  rawPublicKey,
  renderSignature,
  renderVerifier,
  signNote,
  verifyNote,
} from '#bursar/audit/log/note.js';
import {
  addCosignatures,
  parseWitness,
  readAnswer,
  renderAddCheckpoint,
  type WitnessAnswer,
} from '#bursar/audit/log/witness.js';

interface Signing {
  key: NoteKey;
  privateKey: KeyObject;
}

function newKey(name: string, type: NoteKey['type']): Signing {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  return { key: noteKey(name, rawPublicKey(publicKey), type), privateKey };
}

const log = newKey('log.test/one', ed25519);
const witness = newKey('witness.test/w1', cosignature);
const stranger = newKey('witness.test/w2', cosignature);
const text = renderCheckpoint({ origin: 'log.test/one', size: 3, root: emptyRoot });
const note = signNote(text, [log]);

function cosign({ key, privateKey }: Signing, { timeS = 1_700_000_001n, signed = text } = {}) {
  const message = `cosignature/v1\ntime ${timeS}\n${signed}`;
  const time = Buffer.alloc(8);
  time.writeBigUInt64BE(timeS);
  const signature = sign(null, Buffer.from(message), privateKey);
  return renderSignature(key, Buffer.concat([time, signature]));
}

function answer(body: string, status = 200, contentType = 'text/plain'): WitnessAnswer {
  return readAnswer(witness, note, { status, contentType, body });
}

describe('a request', () => {
  it('is the old size, the proof, an empty line and the note', () => {
    const proof = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
    expect(renderAddCheckpoint({ oldSize: 2, proof, note })).toBe(
      `old 2\n${Buffer.alloc(32, 1).toString('base64')}\n` +
        `${Buffer.alloc(32, 2).toString('base64')}\n\n${note}`,
    );
    expect(renderAddCheckpoint({ oldSize: 0, proof: [], note })).toBe(`old 0\n\n${note}`);
  });

  it('has no more than 63 hashes, all of 32 bytes', () => {
    const hashes = (count: number, bytes = 32) => Array(count).fill(Buffer.alloc(bytes));
    expect(renderAddCheckpoint({ oldSize: 1, proof: hashes(63), note })).toContain(note);
    expect(() => renderAddCheckpoint({ oldSize: 1, proof: hashes(64), note })).toThrow(RangeError);
    expect(() => renderAddCheckpoint({ oldSize: 1, proof: hashes(1, 31), note })).toThrow(
      RangeError,
    );
  });
});

describe('an answer', () => {
  it('is a cosignature where the witness signed exactly what was sent', () => {
    const line = cosign(witness);
    expect(answer(line)).toEqual({ kind: 'cosigned', line, timeS: 1_700_000_001 });
  });

  it('of several keys gives the line of the one that is known', () => {
    const line = cosign(witness);
    expect(answer(cosign(stranger) + line)).toMatchObject({ kind: 'cosigned', line });
  });

  it.each([
    ['nothing', ''],
    ['no note', 'hello'],
    ['a signature by a stranger alone', cosign(stranger)],
    ['a signature of another checkpoint', cosign(witness, { signed: text.replace('3', '4') })],
    ['a cosignature without a time', cosign(witness, { timeS: 0n })],
    ['a second text', `${text}\n${cosign(witness)}`],
    ['an empty line before it', `\n${cosign(witness)}`],
    ['a line that is cut short', cosign(witness).slice(0, -2)],
    ['the log’s own signature', renderSignature(log.key, Buffer.alloc(64))],
  ])('is refused where it is %s', (_what, body) => {
    expect(answer(body).kind).toBe('refused');
  });

  it('says which size was seen, if it says so to the letter', () => {
    const type = 'text/x.tlog.size';
    expect(answer('0\n', 409, type)).toEqual({ kind: 'seen', size: 0 });
    expect(answer('12345678901\n', 409, type)).toEqual({ kind: 'seen', size: 12_345_678_901 });
    for (const body of [
      '',
      '\n',
      '7',
      ' 7\n',
      '07\n',
      '-1\n',
      '7\n\n',
      '9007199254740992\n',
      'x\n',
    ]) {
      expect(answer(body, 409, type).kind).toBe('refused');
    }
    expect(answer('7\n', 409, 'text/plain').kind).toBe('refused');
  });

  it('of 422 says that another log was seen, and any other status nothing of the log', () => {
    expect(answer('', 422)).toEqual({ kind: 'inconsistent' });
    for (const status of [201, 204, 301, 400, 403, 404, 429, 500, 503]) {
      expect(answer('3\n', status, 'text/x.tlog.size').kind).toBe('refused');
    }
  });
});

describe('cosignatures', () => {
  it('are added once each, and leave the signature of the log as it is', () => {
    const first = cosign(witness);
    const second = cosign(witness, { timeS: 1_700_000_002n });
    const other = cosign(stranger);
    const both = addCosignatures(addCosignatures(note, [first]), [second, other]);
    expect(both).toBe(`${note}${second}${other}`);
    const parsed = parseNote(both);
    const keys = [log.key, witness.key, stranger.key];
    expect(parsed && verifyNote(parsed, keys)).toHaveLength(3);
  });
});

describe('a witness as a setting', () => {
  it('is its verifier and its URL', () => {
    const line = renderVerifier(witness.key);
    const { key, url } = parseWitness(`${line} https://witness.test/prefix/`);
    expect({ key, url }).toEqual({ key: witness.key, url: 'https://witness.test/prefix' });
  });

  it.each([
    '',
    'https://witness.test',
    renderVerifier(witness.key),
    `${renderVerifier(witness.key)} witness.test`,
    `${renderVerifier(witness.key)} ftp://witness.test`,
    `${renderVerifier(witness.key)} https://witness.test?a=b`,
    `${renderVerifier(witness.key)} https://me:secret@witness.test`,
    `${renderVerifier(witness.key)} https://witness.test https://other.test`,
    `${renderVerifier(log.key)} https://witness.test`,
    `${renderVerifier(witness.key).replace('w1', 'w3')} https://witness.test`,
  ])('is refused as %j', (setting) => {
    expect(() => parseWitness(setting)).toThrow(/must/);
  });
});
