// Copies that are due: what keeps one from being made keeps no others.
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { newExtentId } from '#bursar/core/ids.js';
import { CopyWorker } from '#bursar/ledger/copy-worker.js';
import { DiskRoom } from '#bursar/quota/disk-room.js';
import { sealedBytes } from '#bursar/tiering/chunk-format.js';
import { ReadLeases } from '#bursar/tiering/read-leases.js';
import { sealAgain } from '#bursar/tiering/stored-extent.js';
import { keyring, type LedgerFixture, openLedger } from './fixture.ts';

let fixture: LedgerFixture;
/** By store, and by extent. */
let stored: Map<string, Buffer>;
let freeBytes: number;
/** What archives were asked for. */
let asked: string[];
/** A store that does not answer. */
let away: number;
/** How archives have what is in them. */
let archives: Map<number, 'archived' | 'coming' | 'there'>;

beforeEach(async () => {
  fixture = await openLedger();
  stored = new Map();
  freeBytes = 1e9;
  asked = [];
  away = 0;
  archives = new Map();
});
afterEach(() => fixture.close());

const nameIn = (store: number, id: Buffer) => `${store}/${id.toString('hex')}`;

function worker(): CopyWorker {
  const { ledger, read } = fixture;
  const leg = (number: number) => ({
    ...({ number } as never as ReturnType<
      ConstructorParameters<typeof CopyWorker>[0]['stores']['leg']
    >),
    archive: archives.has(number)
      ? {
          look: async (id: Buffer) => {
            const sizeBytes = stored.get(nameIn(number, id))?.length;
            return sizeBytes === undefined
              ? undefined
              : { sizeBytes, state: archives.get(number) as 'archived' };
          },
          recall: async (id: Buffer) => {
            asked.push(nameIn(number, id));
            archives.set(number, 'coming');
          },
        }
      : undefined,
    readEnd: async (id: Buffer) => {
      if (number === away) throw new Refusal('ServiceUnavailable');
      const bytes = stored.get(nameIn(number, id));
      return bytes && { bytes, sizeBytes: bytes.length };
    },
    replace: async (id: Buffer, pieces: readonly Uint8Array[]) => {
      stored.set(nameIn(number, id), Buffer.concat(pieces));
    },
  });
  return new CopyWorker({
    ...{ read, ledger, keyring, stores: { leg } },
    copies: { suspect: () => {} } as never,
    diskRoom: new DiskRoom(() => freeBytes),
    leases: new ReadLeases(),
    nameOf: String,
    recallDelayOf: () => 60_000,
    mayWrite: () => true,
    confirmPlace: async () => {},
    onError: () => {},
  });
}

/** An extent of store 2, of which a copy is due in another. */
async function putDue(to: number, dueMs: number): Promise<Buffer> {
  const id = newExtentId();
  const plain = randomBytes(1000);
  const { epoch } = keyring.tenantKey('one');
  const run = { id, store: 2, algorithm: 2, epoch, extentBytes: 1000, offset: 0, length: 1000 };
  const place = { tenant: 'one', bucket: 'b', bucketId: 1, key: 'k' };
  const again = { run: { ...run, trailerBytes: 550 }, plain, place };
  const bytes = await sealAgain({ keyring, tenant: 'one' }, again);
  expect(bytes.length).toBe(sealedBytes(1000) + 550);
  stored.set(nameIn(2, id), bytes);
  const hex = `x'${id.toString('hex')}'`;
  await fixture.edit(`INSERT INTO extents VALUES (${hex}, 2, 'one', 1, 1, 1, NULL, NULL)`);
  const copies = `(${hex}, 2, 1, 1, 1, 0), (${hex}, ${to}, 2, 1, ${dueMs}, 3)`;
  await fixture.edit(`INSERT INTO extent_copies VALUES ${copies}`);
  return id;
}

it('makes those after many of which no store has anything', async () => {
  for (let i = 0; i < 20; i++) stored.delete(nameIn(2, await putDue(3, i)));
  const id = await putDue(3, 100);
  await expect(worker().run()).rejects.toThrow('has no good copy');
  expect(stored.get(nameIn(3, id))).toEqual(stored.get(nameIn(2, id)));
});

it('is put into the data folder where its disk has room, and no sooner', async () => {
  const id = await putDue(1, 1);
  freeBytes = 100;
  await expect(worker().run()).rejects.toThrow('no room');
  expect(stored.has(nameIn(1, id))).toBe(false);
  freeBytes = 1e6;
  await fixture.edit('UPDATE extent_copies SET due_ms = 1 WHERE state = 2');
  await worker().run();
  expect(stored.get(nameIn(1, id))).toEqual(stored.get(nameIn(2, id)));
});

it('waits as long as before after it was tried on request', async () => {
  const id = await putDue(3, Number.MAX_SAFE_INTEGER);
  await fixture.ledger.maintain({ kind: 'retryCopies', id });
  const sql = 'SELECT due_ms AS dueMs, tries FROM extent_copies WHERE store = 3';
  const [row] = await fixture.read.all<{ dueMs: number; tries: number }>(sql);
  expect(row?.tries).toBe(3);
  expect(row?.dueMs).toBeLessThanOrEqual(Date.now());
});

it('asks an archive once for what nothing else has, and makes it of that', async () => {
  archives.set(2, 'archived');
  const ids = [await putDue(3, 1), await putDue(3, 2)];
  const hasten = () => fixture.edit('UPDATE extent_copies SET due_ms = 1 WHERE state = 2');
  const one = worker();
  await one.run();
  await hasten();
  await one.run();
  // One at a time, and none again that is on its way.
  expect(asked).toHaveLength(1);
  expect(one.counts).toEqual({ made: 0, repaired: 0, failed: 0 });
  archives.set(2, 'there');
  await hasten();
  await one.run();
  for (const id of ids) expect(stored.get(nameIn(3, id))).toEqual(stored.get(nameIn(2, id)));
  expect(asked).toHaveLength(1);
});

it('asks no archive for what is merely away elsewhere', async () => {
  archives.set(2, 'archived');
  const id = await putDue(3, 1);
  const hex = `x'${id.toString('hex')}'`;
  await fixture.edit(`INSERT INTO extent_copies VALUES (${hex}, 4, 1, 1, 1, 0)`);
  away = 4;
  await expect(worker().run()).rejects.toThrow('has no good copy');
  expect(asked).toEqual([]);
});
