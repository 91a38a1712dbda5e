// A ledger with records, a store beside it, and an archiver that takes packs of a few tiles.

import { RecordStore } from '#bursar/audit/record-store.js';
import { Archiver } from '#bursar/ledger/archive/archiver.js';
import { partReader } from '#bursar/ledger/archive/part-reader.js';
import { IntentPool } from '#bursar/ledger/intent-pool.js';
import { commitOf, type LedgerFixture, openLedger } from '../../ledger/fixture.ts';
import { makeRig, type Rig } from '../../tiering/rig.ts';

export interface ArchiveRig {
  fixture: LedgerFixture;
  tiering: Rig;
  records: RecordStore;
  /** Makes records until there are so many. */
  fill(size: number): Promise<void>;
  /** Archives all but the newest, as if all records were old. */
  archive(options?: { tilesPerPack?: number; afterMs?: number }): Promise<void>;
  archiver(options?: { tilesPerPack?: number; afterMs?: number }): Archiver;
  close(): Promise<void>;
}

export async function openArchiveRig(): Promise<ArchiveRig> {
  const fixture = await openLedger();
  const tiering = await makeRig();
  const readPart = partReader(tiering.reader, String);
  const rig: ArchiveRig = {
    fixture,
    tiering,
    records: new RecordStore(fixture.read, readPart),
    fill: async (size) => {
      const { ledger } = fixture;
      const last = await fixture.read.get<{ idx: number }>('SELECT max(idx) AS idx FROM records');
      const missing = size - ((last?.idx ?? -1) + 1);
      const commits = Array.from({ length: missing }, (_, i) =>
        commitOf({ kind: 'none' }, `k/${i}`),
      );
      await Promise.all(commits.map((one) => ledger.commit(one)));
      // Sums of usage come first.
      while ((await ledger.maintain({ kind: 'sumUsage', max: 200 })) === 200);
    },
    archiver: ({ tilesPerPack = 1, afterMs = 0 } = {}) =>
      new Archiver({
        path: fixture.path,
        read: fixture.read,
        ledger: fixture.ledger,
        intents: new IntentPool(fixture.ledger),
        writer: tiering.writer,
        readPart,
        store: 1,
        ...{ afterMs, intervalMs: 1000, tilesPerPack },
        mayArchive: () => true,
        onError: (error) => {
          throw error;
        },
      }),
    archive: (options) => rig.archiver(options).archive(),
    close: async () => {
      await fixture.close();
      await tiering.close();
    },
  };
  return rig;
}
