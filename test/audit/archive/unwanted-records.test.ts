// Records in the archive that are not those of who asks: their store is not asked for them.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RecordStore } from '#bursar/audit/record-store.js';
import { partReader } from '#bursar/ledger/archive/part-reader.js';
import { type ArchiveRig, openArchiveRig } from './archive-rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let rig: ArchiveRig;

beforeEach(async () => {
  rig = await openArchiveRig();
});

afterEach(() => rig.close());

describe('a record in the archive', () => {
  it('that is not wanted is told by its leaf alone, whatever its store does', async () => {
    await rig.fill(600);
    const before = await rig.records.readRun(0, 600);
    await rig.archive();
    const away = new RecordStore(rig.fixture.read, async () => {
      throw new Error('the store is away');
    });
    const { tenant, bucketTenant, commitment, pseudonyms } = before[20] ?? {};
    const told = { tenant, bucketTenant, commitment, pseudonyms, opened: null };
    expect(await away.readRecord(20, (whose) => whose.tenant !== tenant)).toMatchObject(told);
    const run = await away.readRun(0, 600, () => false);
    expect(run.map((one) => one.commitment)).toEqual(before.map((one) => one.commitment));
    await expect(away.readRecord(20, (whose) => whose.tenant === tenant)).rejects.toThrow('away');
  });

  it('that could not be had is had once its store is back', async () => {
    await rig.fill(300);
    const before = await rig.records.readRecord(20);
    await rig.archive();
    const readPart = partReader(rig.tiering.reader, String);
    let isAway = true;
    const records = new RecordStore(rig.fixture.read, async (part) => {
      if (isAway) throw new Error('the store is away');
      return readPart(part);
    });
    await expect(records.readRecord(20)).rejects.toThrow('away');
    isAway = false;
    expect(await records.readRecord(20)).toEqual(before);
  });
});
