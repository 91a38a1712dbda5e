// A pack: the records of consecutive tiles of the log, one after the other. Each tile's part can be
// read by itself: version 1, then for each of its 256 records the bytes that it takes (4,
// big-endian; 0: it had been erased), then the records as `sealed-record.ts` has them. Pure.
import { tileWidth } from '../log/merkle.ts';
import { openRecord, sealRecord } from './sealed-record.ts';

const version = 1;
const headBytes = 1 + 4 * tileWidth;

/** The part of a record that is packed: its text and its evidence. Neither has a line break. */
export interface PackedRecord {
  record: string;
  evidence: string | null;
}

/** A record that is about to be packed; null: it was erased. */
export type UnpackedRecord = (PackedRecord & { salt: Uint8Array }) | null;

/** One tile's part; `records` are the 256 of it. */
export function renderPart(records: readonly UnpackedRecord[], nonce: Uint8Array): Buffer {
  if (records.length !== tileWidth) throw new RangeError(`a tile of ${records.length} records`);
  const head = Buffer.alloc(headBytes);
  head[0] = version;
  const bodies = records.map((one, i) => {
    if (!one) return Buffer.alloc(0);
    const { record, evidence, salt } = one;
    const body = sealRecord(evidence === null ? record : `${record}\n${evidence}`, { salt, nonce });
    head.writeUInt32BE(body.length, 1 + 4 * i);
    return body;
  });
  return Buffer.concat([head, ...bodies]);
}

/** The sealed records of a part; undefined: it is none. */
export function parsePart(part: Uint8Array): Buffer[] | undefined {
  const bytes = Buffer.from(part.buffer, part.byteOffset, part.length);
  if (bytes.length < headBytes || bytes[0] !== version) return undefined;
  const bodies: Buffer[] = [];
  let at = headBytes;
  for (let i = 0; i < tileWidth; i++) {
    const end = at + bytes.readUInt32BE(1 + 4 * i);
    if (end > bytes.length) return undefined;
    bodies.push(bytes.subarray(at, end));
    at = end;
  }
  return at === bytes.length ? bodies : undefined;
}

/**
 * undefined: it does not open under this salt. Only its commitment tells whether it is the record.
 */
export function openPacked(
  sealed: Uint8Array,
  key: { salt: Uint8Array; nonce: Uint8Array },
): PackedRecord | undefined {
  const text = openRecord(sealed, key);
  if (text === undefined) return undefined;
  const end = text.indexOf('\n');
  if (end < 0) return { record: text, evidence: null };
  return { record: text.slice(0, end), evidence: text.slice(end + 1) };
}
