// All steps, in their order. The first is from the schema of release 0.1.0, which is 3.
import { schemaHistory } from './0004-schema-history.ts';
import { journalObjects } from './0005-journal-objects.ts';
import { deletionsDuringUploads } from './0006-deletions-during-uploads.ts';
import { erasureNotices } from './0007-erasure-notices.ts';
import { identityOutbox } from './0008-identity-outbox.ts';
import { alteredRecords } from './0009-altered-records.ts';
import { seals } from './0010-seals.ts';
import { renameTokens } from './0011-rename-tokens.ts';
import { snapshots } from './0012-snapshots.ts';
import { undeleteWindows } from './0013-undelete-windows.ts';
import { heldSums } from './0014-held-sums.ts';
import { tenantKeys } from './0015-tenant-keys.ts';
import { ownMounts } from './0016-own-mounts.ts';
import { longManifests } from './0017-long-manifests.ts';
import { targets } from './0018-targets.ts';
import { classes } from './0019-classes.ts';
import { extentCopies } from './0020-extent-copies.ts';
import { lostVersions } from './0021-lost-versions.ts';
import { storedCounts } from './0022-stored-counts.ts';
import { work } from './0023-work.ts';
import { restores } from './0024-restores.ts';
import { workIndexes } from './0025-work-indexes.ts';
import { restoreIndexes } from './0026-restore-indexes.ts';
import { versionUses } from './0027-version-uses.ts';
import { restoreTiers } from './0028-restore-tiers.ts';
import type { Migration } from './migration.ts';

/** The oldest schema that steps lead on from. */
export const oldestSchema = 3;

export const steps: readonly Migration[] = [
  schemaHistory,
  journalObjects,
  deletionsDuringUploads,
  erasureNotices,
  identityOutbox,
  alteredRecords,
  seals,
  renameTokens,
  snapshots,
  undeleteWindows,
  heldSums,
  tenantKeys,
  ownMounts,
  longManifests,
  targets,
  classes,
  extentCopies,
  lostVersions,
  storedCounts,
  work,
  restores,
  workIndexes,
  restoreIndexes,
  versionUses,
  restoreTiers,
];

/** The schema of this Bursar. */
export const schemaVersion = oldestSchema + steps.length;

/** The steps that a database of this schema needs. */
export function stepsFrom(schema: number): readonly Migration[] {
  return steps.filter(({ to }) => to > schema);
}
