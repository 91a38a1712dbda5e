// How reads are recorded, of each tenant and bucket. Invariant: a change counts from the next request
// on; tenants are kept in memory, buckets are by `BucketCache`.
import type { AuthzChange, Follower } from '../authz/changes.ts';
import type { Bucket } from '../catalog/buckets.ts';
import type { Reader } from '../core/database.ts';
import { type RecordReads, recordReadsDefault } from '../core/record-reads.ts';

export class ReadRecording implements Follower {
  readonly #read: Reader;
  /** Those that have said something. */
  #tenants: ReadonlyMap<string, RecordReads> = new Map();

  private constructor(read: Reader) {
    this.#read = read;
  }

  static async load(read: Reader): Promise<ReadRecording> {
    const recording = new ReadRecording(read);
    await recording.#load();
    return recording;
  }

  /** `bucket`: null where none is concerned. */
  modeOf(tenant: string, bucket: Pick<Bucket, 'recordReads'> | null): RecordReads {
    return bucket?.recordReads ?? this.#tenants.get(tenant) ?? recordReadsDefault;
  }

  async follow(change: AuthzChange): Promise<() => void | Promise<void>> {
    switch (change.type) {
      case 'createTenant':
      case 'updateTenant':
      case 'deleteTenant':
        return () => this.#load();
      default:
        return () => {};
    }
  }

  async #load(): Promise<void> {
    const sql = 'SELECT name, record_reads AS mode FROM tenants WHERE record_reads IS NOT NULL';
    const { sparing = this.#read } = this.#read;
    const rows = await sparing.all<{ name: string; mode: RecordReads }>(sql);
    this.#tenants = new Map(rows.map(({ name, mode }) => [name, mode]));
  }
}
