// What is read of segments and of SQLite's log, whatever the bytes are: it is what was written, or
// it is said that it is not.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { PieceSealer } from '#bursar/backup/pieces.js';
import type { BackupPlace } from '#bursar/backup/place.js';
import {
  encodeLast,
  type Page,
  readPages,
  readSegment,
  segmentName,
} from '#bursar/backup/shipping/segment.js';
import { WalFollower } from '#bursar/backup/shipping/wal-follower.js';
import { IntegrityError } from '#bursar/core/errors.js';
import { Keyring } from '#bursar/core/keyring.js';
import { randomBelow, randomBytesOf, randomOf, seededRandom } from './seeded-random.ts';

const rounds = 2000;
const sealer = new PieceSealer(new Keyring([{ epoch: 1, key: Buffer.alloc(32, 7) }]));
const root = mkdtempSync(join(tmpdir(), 'bursar-segments-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const stream = '20261122T153012123Z-89abcdef';
const head = {
  ...{ stream, seq: 3, previous: 'ab'.repeat(32), timeMs: 12, records: 5 },
  ...{ pageBytes: 512, pageCount: 4, covers: [stream], attempt: '01234567', parts: [] },
};
const pages: Page[] = [2, 4].map((number) => ({ number, bytes: Buffer.alloc(512, number) }));
const name = segmentName(stream, 3);

/** Undefined: IntegrityError. Fails on any other error. */
async function read(stored: Buffer): Promise<Page[] | undefined> {
  const place = { read: async () => stored } as unknown as BackupPlace;
  try {
    const segment = await readSegment(place, sealer, { stream, seq: 3 });
    if (!segment) return undefined;
    const all: Page[] = [];
    for await (const some of readPages(place, sealer, segment)) all.push(...some);
    return all;
  } catch (error) {
    expect(error).toBeInstanceOf(IntegrityError);
    return undefined;
  }
}

function alter(random: () => number, bytes: Buffer): Buffer {
  const altered = Buffer.from(bytes);
  const kind = randomBelow(random, 3);
  if (kind === 0) return altered.subarray(0, randomBelow(random, altered.length));
  if (kind === 1)
    return Buffer.concat([altered, randomBytesOf(random, 1 + randomBelow(random, 9))]);
  const at = randomBelow(random, altered.length);
  altered[at] = (altered[at] as number) ^ (1 + randomBelow(random, 255));
  return altered;
}

it('a stored segment is what was written, or is refused', async () => {
  const random = seededRandom(72);
  const stored = sealer.sealSegment(name, encodeLast(head, pages));
  expect(await read(stored)).toEqual(pages);
  for (let i = 0; i < rounds; i++) expect(await read(alter(random, stored))).toBeUndefined();
  // One of another number, put there under this name.
  const other = sealer.sealSegment(segmentName(stream, 2), encodeLast({ ...head, seq: 2 }, pages));
  expect(await read(other)).toBeUndefined();
});

it('one that has our seal and no sense is refused, too', async () => {
  const random = seededRandom(73);
  const values = [null, -1, 1.5, 1e300, 'a', '../../x', {}, [], [null], true, 0, 513, 2 ** 40];
  for (let i = 0; i < rounds; i++) {
    const member = randomOf(random, Object.keys(head));
    const wrong = { ...head, [member]: randomOf(random, values) } as typeof head;
    const plain = encodeLast(wrong, pages);
    const told = await read(sealer.sealSegment(name, i % 2 ? plain : alter(random, plain)));
    for (const { number, bytes } of told ?? []) {
      expect(number).toBeLessThanOrEqual(wrong.pageCount);
      expect(bytes.length).toBe(wrong.pageBytes);
    }
  }
});

it('a log of random bytes tells of no page', () => {
  const random = seededRandom(74);
  const path = join(root, 'random-wal');
  for (let i = 0; i < 200; i++) {
    const bytes = randomBytesOf(random, randomBelow(random, 5000));
    if (bytes.length > 16) {
      bytes.writeUInt32BE(0x377f0682, 0);
      bytes.writeUInt32BE(randomOf(random, [0, 1, 512, 16384, 0xffffffff]), 8);
    }
    writeFileSync(path, bytes);
    const follower = new WalFollower(path);
    expect(follower.advance()).toEqual({ kind: 'none' });
    follower.close();
  }
});
