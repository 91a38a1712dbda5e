// What rolling a restored database forward found and did. Plain data.
import type { RebuildReport } from '../../ledger/rebuild/report.ts';

/** Of the stores, as a rebuild tells it: what was restored is what the backup did not have. */
export interface ForwardReport extends Omit<RebuildReport, 'ownerlessBuckets' | 'recordPacks'> {
  /** Whether the stores told everything that they had been told, and all of it is there. */
  isWhole: boolean;
  /** Versions of the backup that ended after it. */
  ended: number;
  /** Versions whose tags or locks were changed after it. */
  amended: number;
  /** Buckets that were set up otherwise, or deleted, after it. */
  configured: number;
  removed: number;
  /** Snapshots of the backup that were deleted after it. */
  deletedSnapshots: number;
  /** Uploads of the backup whose parts are gone: completed or aborted after it. */
  abortedUploads: number;
  /** Stores that have no journal, and nothing of the backup. */
  empty: string[];
}
