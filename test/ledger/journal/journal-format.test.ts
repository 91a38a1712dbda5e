import { expect, it } from 'vitest';
import { IntegrityError } from '#bursar/core/errors.js';
import { Keyring } from '#bursar/core/keyring.js';
import {
  completeName,
  type Entry,
  type Head,
  lastSeqOf,
  openObject,
  pageName,
  sealObject,
  segmentName,
  snapshotOf,
} from '#bursar/ledger/journal/format.js';
import { keyring } from '../fixture.ts';

const place = { generation: '000001763678000-0123abcd', name: segmentName(4, 9) };
const head: Head = { kind: 'segment', previous: null, lastSeq: 9, timeMs: 1_763_678_000_000 };
const entries: Entry[] = [
  {
    ...{ kind: 'bucket', id: 3, toldSeq: 9, tenant: 'one', name: 'data', owner: 'alice' },
    ...{ createdMs: 5, versioning: 'Enabled', objectLock: '{}', publicAccess: null },
    ownership: null,
  },
  {
    ...{ kind: 'gone', bucketId: 3, toldSeq: 7, key: 'line\nbreak \u2028 \ud800 "' },
    ...{ versionId: '0123456789abcdef0123456789abcdef', timeMs: 8 },
  },
  { kind: 'settings', bucketId: 3, toldSeq: 9, documents: { policy: '{}', cors: '[]' } },
];
const sealed = sealObject(
  keyring,
  place,
  [head, ...entries].map((one) => JSON.stringify(one)),
);

const oddEntry = (fields: object): string => JSON.stringify({ ...entries[1], ...fields });
const oddSettings = (documents: object): string => JSON.stringify({ ...entries[2], documents });

const open = (bytes: Buffer, at = place, keys = keyring) => openObject(keys, at, bytes);

it('an object opens to what was sealed, whatever its keys are', () => {
  expect(open(sealed)).toEqual({ head, entries });
});

it('an object with any bit changed does not open', () => {
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] as number) ^ (1 << (at % 8));
    expect(() => open(changed), String(at)).toThrow(IntegrityError);
  }
});

it('an object cut off anywhere, or with more behind it, does not open', () => {
  for (let end = 0; end < sealed.length; end++) {
    expect(() => open(sealed.subarray(0, end)), String(end)).toThrow(IntegrityError);
  }
  expect(() => open(Buffer.concat([sealed, Buffer.alloc(1)]))).toThrow(IntegrityError);
});

it('an object does not open under another name, in another generation or with other keys', () => {
  expect(() => open(sealed, { ...place, name: segmentName(4, 10) })).toThrow(IntegrityError);
  expect(() => open(sealed, { ...place, generation: '000001763678000-0123abce' })).toThrow(
    IntegrityError,
  );
  const other = new Keyring([{ epoch: 1, key: Buffer.alloc(32, 8) }]);
  expect(() => open(sealed, place, other)).toThrow(IntegrityError);
});

it('an object of an earlier epoch opens after a rotation', () => {
  const rotated = new Keyring([{ epoch: 1, key: Buffer.alloc(32, 7) }]);
  rotated.learn({ epoch: 2, key: Buffer.alloc(32, 9) });
  rotated.begin(2);
  expect(open(sealed, place, rotated)).toEqual({ head, entries });
  const later = sealObject(rotated, place, [JSON.stringify(head)]);
  expect(later.readUInt16BE(4)).toBe(2);
  expect(() => open(later)).toThrow(IntegrityError);
});

it.each([
  ['nothing', []],
  ['no JSON', ['{']],
  ['another kind of head', [JSON.stringify({ ...head, kind: 'other' })]],
  ['a head of the prototype’s', [JSON.stringify({ ...head, kind: 'constructor' })]],
  ['a head without a field', [JSON.stringify({ ...head, lastSeq: undefined })]],
  ['a negative seq', [JSON.stringify({ ...head, lastSeq: -1 })]],
  ['an entry of another kind', [JSON.stringify(head), '{"kind":"other"}']],
  ['an entry that is a number', [JSON.stringify(head), '7']],
  ['a version id that is none', [JSON.stringify(head), oddEntry({ versionId: 'null' })]],
  ['a version without its id', [JSON.stringify(head), oddEntry({ versionId: undefined })]],
  ['settings that are no texts', [JSON.stringify(head), oddSettings({ cors: 1 })]],
  ['an id that is no id', [JSON.stringify(head), '{"kind":"garbage","ids":["zz"]}']],
])('an object with %s in it is refused', (_, lines) => {
  expect(() => open(sealObject(keyring, place, lines))).toThrow(IntegrityError);
});

it('the length of an object does not tell the length of a key', () => {
  const lengthWith = (key: string): number =>
    sealObject(keyring, place, [JSON.stringify(head), JSON.stringify({ ...entries[1], key })])
      .length;
  expect(lengthWith('a')).toBe(lengthWith('a longer name'));
});

it('names sort as their numbers do, and are read back', () => {
  const names = [9, 10, 1e15].map((seq) => segmentName(seq, seq));
  expect([...names].sort()).toEqual(names);
  expect(lastSeqOf(segmentName(3, 12))).toBe(12);
  expect(lastSeqOf('begin')).toBeNull();
  expect(lastSeqOf(pageName(3, 12))).toBeNull();
  expect(snapshotOf(pageName(3, 12))).toEqual({ beginSeq: 3, isComplete: false });
  expect(snapshotOf(completeName(3))).toEqual({ beginSeq: 3, isComplete: true });
  expect(snapshotOf(segmentName(3, 12))).toBeNull();
});
