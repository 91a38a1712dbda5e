// A ledger with a bucket in an S3 store that is kept by a real server, behind the proxy that
// injects faults; the store's journal; and what replaying it gives.
import { mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sealObject } from '#bursar/catalog/authentic.js';
import { newExtentId } from '#bursar/core/ids.js';
import { encodeManifest } from '#bursar/core/manifest.js';
import { openObject, type VersionEntry } from '#bursar/ledger/journal/format.js';
import { Journal, type JournalOptions } from '#bursar/ledger/journal/journal.js';
import { findJournal, replayJournal } from '#bursar/ledger/rebuild/replay.js';
import type { JournalReport } from '#bursar/ledger/rebuild/report.js';
import { type StagedBucket, Staging } from '#bursar/ledger/rebuild/staging.js';
import type { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import type { S3Rig } from '../../stores/s3-rig.ts';
import { commitOf, keyring, type LedgerFixture, openLedger } from '../fixture.ts';

/** The bucket in the S3 store; 1 is the fixture's, in the local one. */
export const bucketId = 2;

const anyConditions = { ifMatch: null, ifNoneMatch: null };

export class JournalRig {
  readonly fixture: LedgerFixture;
  readonly store: S3Store;
  readonly errors: unknown[] = [];
  /** Of the version that was made, changed or ended last. */
  versionId = 'null';
  #journal: Journal | null = null;

  private constructor(fixture: LedgerFixture, store: S3Store) {
    this.fixture = fixture;
    this.store = store;
  }

  static async start(s3: S3Rig): Promise<JournalRig> {
    const rig = new JournalRig(await openLedger(), await s3.open());
    const { ledger } = rig.fixture;
    await ledger.maintain({ kind: 'registerStore', name: 'remote', location: 'there' });
    // As if a snapshot had told identities: so none is due at the start.
    rig.fixture.edit('INSERT INTO journal_identities VALUES (2, 2)');
    await rig.commit({
      kind: 'createBucket',
      tenant: 'one',
      name: 'far',
      owner: 'alice',
      store: 2,
    });
    return rig;
  }

  get journal(): Journal {
    if (!this.#journal) throw new Error('the journal is not open');
    return this.#journal;
  }

  /** Opens the journal as a start of the gateway does. */
  async open(options: Partial<JournalOptions> = {}): Promise<Journal> {
    const { ledger, read } = this.fixture;
    this.#journal = await Journal.open({
      store: this.store,
      read,
      ledger,
      keyring,
      confirmOwner: async () => {},
      onError: (error) => this.errors.push(error),
      ...options,
    });
    return this.#journal;
  }

  /** Gives the change's seq. */
  async commit(change: Parameters<typeof commitOf>[0]): Promise<number> {
    const result = await this.fixture.ledger.commit(commitOf(change));
    if (!result.ok) throw new Error(`refused: ${result.code}`);
    this.versionId = result.version?.versionId ?? 'null';
    return result.index as number;
  }

  setVersioning(versioning: 'Enabled' | 'Suspended'): Promise<number> {
    return this.commit({ kind: 'setVersioning', bucketId, versioning });
  }

  /** Makes a version, and gives its id. */
  async putVersion(key: string, etag = 'etag'): Promise<string> {
    await this.put(key, etag);
    return this.versionId;
  }

  /** Makes an object whose extent is said to be in the store, where nothing is. */
  async put(key: string, etag = 'etag'): Promise<number> {
    const id = newExtentId();
    await this.fixture.ledger.maintain({ kind: 'declareExtents', store: 2, ids: [id] });
    const run = { id, store: 2, algorithm: 1, epoch: 1, extentBytes: 10, offset: 0, length: 10 };
    return this.commit({
      kind: 'putObject',
      bucketId,
      key,
      conditions: anyConditions,
      object: sealObject(keyring, {
        tenant: 'one',
        sizeBytes: 10,
        etag,
        sha256: Buffer.alloc(32, 9),
        class: 'STANDARD',
        owner: 'alice',
        attributes: '{"headers":{},"metadata":{"a":"b"}}',
        manifest: encodeManifest([{ ...run, trailerBytes: 300 }]),
      }),
      extentIds: [id],
      inline: null,
    });
  }

  remove(key: string, versionId?: string): Promise<number> {
    const conditions = anyConditions;
    return this.commit({ kind: 'deleteObject', bucketId, key, versionId, conditions });
  }

  async names(prefix = 'journal/'): Promise<string[]> {
    const names: string[] = [];
    for await (const { name } of this.store.listObjects(prefix)) names.push(name);
    return names;
  }

  /** The segments, and what belongs to snapshots. */
  async files(): Promise<{ segments: string[]; snapshots: string[] }> {
    const names = await this.names();
    return {
      segments: names.filter((name) => /\/\d{20}-\d{20}$/.test(name)),
      snapshots: names.filter((name) => name.includes('/snapshot-')),
    };
  }

  /** Edits the database behind everybody's back. */
  async edit(sql: string): Promise<void> {
    this.fixture.edit(sql);
  }

  /** Copies the database as it is. */
  async keepCopy(): Promise<void> {
    await this.edit(`VACUUM INTO '${await this.#databaseFile()}.copy'`);
  }

  /** Puts the copy in the place of the database, as who restores a backup does. */
  async goBackToCopy(): Promise<void> {
    const file = await this.#databaseFile();
    await this.fixture.reopen(() => {
      for (const end of ['-wal', '-shm']) rmSync(file + end, { force: true });
      renameSync(`${file}.copy`, file);
    });
  }

  async outboxRows(): Promise<number> {
    const row = await this.fixture.read.get<{ n: number }>('SELECT count(*) AS n FROM outbox');
    return row?.n ?? -1;
  }

  /** What a rebuild would learn from the journal. */
  async replay(): Promise<Replayed> {
    const found = await findJournal({ store: this.store, keyring, number: null }, undefined);
    if (!found) throw new Error('there is no journal');
    const folder = mkdtempSync(join(tmpdir(), 'bursar-replay-'));
    const staging = Staging.open(join(folder, 'staging.db'));
    try {
      const { report, begin } = found;
      const reading = { store: this.store, keyring, report, begin, revocationsAlone: false };
      await replayJournal(reading, staging);
      const objects: Record<string, string> = {};
      const versions: VersionEntry[] = [];
      for await (const { version } of staging.listVersions()) {
        versions.push(version);
        objects[version.key] = version.etag;
      }
      const staged = await staging.listBuckets();
      const buckets = staged.map(({ name }) => name);
      return { objects, versions, staged, buckets, report };
    } finally {
      staging.close();
      rmSync(folder, { recursive: true });
    }
  }

  /** Extents that the journal says belong to nothing, hex. */
  async listGarbage(): Promise<Set<string>> {
    const ids: string[] = [];
    for (const full of await this.names()) {
      const [, generation = '', name = ''] = full.split('/');
      const bytes = await this.store.getObject(full);
      // A snapshot has taken its place meanwhile.
      if (!bytes) continue;
      const { entries } = openObject(keyring, { generation, name }, bytes);
      for (const entry of entries) if (entry.kind === 'garbage') ids.push(...entry.ids);
    }
    return new Set(ids);
  }

  async #databaseFile(): Promise<string> {
    const sql = "SELECT file FROM pragma_database_list WHERE name = 'main'";
    return (await this.fixture.read.get<{ file: string }>(sql))?.file as string;
  }

  async close(): Promise<void> {
    await this.#journal?.close();
    await this.fixture.close();
  }
}

export interface Replayed {
  /** ETag by key, of the newest version. */
  objects: Record<string, string>;
  /** All of them, the oldest first. */
  versions: VersionEntry[];
  staged: StagedBucket[];
  buckets: string[];
  report: JournalReport;
}
