// What operators declare of a store: nothing of it is measured, and what is computed from it says
// so (docs/admin/classes.md).

/** Whether what is in a store is read at once, or has to be restored before. */
export type PlaceKind = 'online' | 'archive';

export interface DeclaredPlace {
  kind: PlaceKind;
  /** What may fail as one: `disk1`, `host1`, `site1`; none: nothing is declared. */
  domains: readonly string[];
  /** The share of what it holds that is expected to be lost in a year; null: not declared. */
  annualLoss: number | null;
  /** As its server is told it (`x-amz-storage-class`); null: none is named. */
  storageClass: string | null;
  /** How long an archive takes until what is asked for is there; null: nothing is said. */
  recallDelayMs: number | null;
  /** Whether drills may hide what is in it. */
  drills: boolean;
}

/** What is known of a store of which nothing is declared. */
export const undeclaredPlace: DeclaredPlace = {
  ...{ kind: 'online', domains: [], annualLoss: null, storageClass: null },
  ...{ recallDelayMs: null, drills: false },
};
