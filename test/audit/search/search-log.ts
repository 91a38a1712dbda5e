// A log in a database of its own, with a search index beside it that tests fill as far as they
// like.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RecordDraft } from '#bursar/audit/record.js';
import { RecordLog } from '#bursar/audit/record-log.js';
import { RecordStore } from '#bursar/audit/record-store.js';
import { blockWidth } from '#bursar/audit/search/positions.js';
import { RecordSearch } from '#bursar/audit/search/record-search.js';
import { SearchIndexReader, SearchIndexWriter } from '#bursar/audit/search/search-index.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';

const usual: RecordDraft = {
  action: 's3:GetObject',
  tenant: 'one',
  principal: 'alice',
  evidence: 'none',
  bucket: 'data',
  key: 'k',
  bytesIn: 0,
  bytesOut: 0,
  requestId: 'R',
  source: 'a test',
  status: 200,
};

export class SearchLog {
  readonly folder = mkdtempSync(join(tmpdir(), 'bursar-search-'));
  readonly logPath = join(this.folder, 'bursar.db');
  readonly indexPath = join(this.folder, 'search.db');
  readonly db: OpenDatabase = openDatabase(this.logPath, { readonly: false, cacheKib: 64 * 1024 });
  readonly store = new RecordStore(this.db.tx, async () => Buffer.alloc(0));
  #log: RecordLog | undefined;
  #reader: SearchIndexReader | null = null;

  /** Record `i` is made at `1000 * i` milliseconds. */
  async append(drafts: readonly Partial<RecordDraft>[]): Promise<void> {
    if (!this.#log) {
      this.db.exec(schema);
      this.#log = await RecordLog.open(this.db.tx);
    }
    this.db.exec('BEGIN');
    for (const draft of drafts) {
      const { size } = this.#log;
      const seal = {
        index: size,
        timeMs: 1000 * size,
        storedBytes: 0,
        storedObjects: 0,
        cost: null,
      };
      await this.#log.append({ ...usual, ...draft }, seal);
    }
    await this.#log.flush();
    this.db.exec('COMMIT');
  }

  /** Appends records of a tenant that nobody asks for, until there are `size`. */
  async fill(size: number): Promise<void> {
    const missing = size - (this.#log?.size ?? 0);
    const filler = { tenant: 'filler', principal: 'robot', bucket: 'fill', key: 'f' };
    await this.append(Array.from({ length: missing }, () => filler));
  }

  /** Indexes all whole blocks, and searches with the index from now on. */
  async index(): Promise<void> {
    const writer = await SearchIndexWriter.open(this.indexPath, this.store);
    for (let from = await writer.end(); from + blockWidth <= (this.#log?.size ?? 0); ) {
      const to = from + blockWidth;
      await writer.putBlock(from / blockWidth, await this.store.readRun(from, blockWidth));
      from = to;
    }
    writer.close();
    this.#reader?.close();
    this.#reader = new SearchIndexReader(this.indexPath);
  }

  get search(): RecordSearch {
    return new RecordSearch({ read: this.db.tx, store: this.store, index: this.#reader });
  }

  close(): void {
    this.#reader?.close();
    this.db.close();
    rmSync(this.folder, { recursive: true });
  }
}
