// Which lists of its objects a bucket has written, as its setting `inventory` stores it, and when
// each is due. Pure. Specification: "Amazon S3 Inventory" of the user guide.

export const inventoryFields = [
  ...(['Size', 'LastModifiedDate', 'ETag', 'StorageClass', 'IsMultipartUploaded'] as const),
  ...(['ReplicationStatus', 'IntelligentTieringAccessTier', 'ChecksumAlgorithm'] as const),
  'ObjectOwner',
] as const;
export type InventoryField = (typeof inventoryFields)[number];

export const inventoryFormats = ['CSV', 'Parquet'] as const;
export const inventoryFrequencies = ['Daily', 'Weekly'] as const;

export interface InventoryConfig {
  id: string;
  /** Who put it, in whose name it lists and writes. `cms/alice` */
  by: string;
  isEnabled: boolean;
  /** Name of a bucket, as its owner's S3 clients would name it. */
  destination: string;
  /** As it was named. */
  arn: string;
  /** In the destination; '' for none. */
  prefix: string;
  format: (typeof inventoryFormats)[number];
  /** All of them, or those that are current alone. */
  versions: 'All' | 'Current';
  frequency: (typeof inventoryFrequencies)[number];
  fields: readonly InventoryField[];
  /** Keys that begin so; '' for all. */
  filter: string;
}

/** What one inventory's objects are called, in its destination. */
export interface InventoryNames {
  manifest: string;
  /** Written last: where it is, all is. */
  checksum: string;
  /** Of the list's file of this number. */
  data(number: number, ending: string): string;
}

/** `bucket`: what is listed. `dueMs`: when it was due. */
export function namesOfInventory(
  { prefix, id }: Pick<InventoryConfig, 'prefix' | 'id'>,
  bucket: string,
  dueMs: number,
): InventoryNames {
  const folder = [...(prefix === '' ? [] : [prefix]), bucket, id].join('/');
  // 2026-11-27T00-00Z
  const stamp = `${new Date(dueMs).toISOString().slice(0, 16).replace(':', '-')}Z`;
  return {
    manifest: `${folder}/${stamp}/manifest.json`,
    checksum: `${folder}/${stamp}/manifest.checksum`,
    data: (number, ending) => `${folder}/data/${stamp}-${number}.${ending}`,
  };
}

const dayMs = 24 * 3_600_000;
/** 1970 began on a Thursday. */
const daysToSunday = 3;

/** The latest moment at which one of this frequency was due: midnight UTC, or that of a Sunday. */
export function lastDue(frequency: InventoryConfig['frequency'], nowMs: number): number {
  const day = Math.floor(nowMs / dayMs);
  if (frequency === 'Daily') return day * dayMs;
  return (day - ((day - daysToSunday) % 7)) * dayMs;
}
