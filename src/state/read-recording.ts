// How reads are recorded, by tenant and bucket. Invariant: a change counts from the next request
// on. The settings of tenants are kept here, those of buckets by `BucketCache`.
import type { Reader } from '../core/database.ts';
import type { RecordReads } from '../core/record-reads.ts';
import type { LedgerEvent } from '../ledger/events.ts';

export class ReadRecording {
  /** The tenants that have the setting. */
  readonly tenants: Map<string, RecordReads>;

  private constructor(tenants: Map<string, RecordReads>) {
    this.tenants = tenants;
  }

  static async load(read: Reader): Promise<ReadRecording> {
    const sql = 'SELECT name, record_reads AS mode FROM tenants WHERE record_reads IS NOT NULL';
    const rows = await read.all<{ name: string; mode: RecordReads }>(sql);
    return new ReadRecording(new Map(rows.map(({ name, mode }) => [name, mode])));
  }

  apply(event: LedgerEvent): void {
    if (event.kind !== 'tenant') return;
    const { name, isGone, recordReads } = event;
    if (isGone) this.tenants.delete(name);
    else if (recordReads !== undefined) this.tenants.set(name, recordReads);
  }
}
