// The storage classes of Amazon S3, by the names that `x-amz-storage-class` has for them.
// Specification: `StorageClass` of PutObject in the Amazon S3 API reference.

/** The class of what nobody gave one. */
export const awsStandard = 'STANDARD';

/** Those in which a bucket of S3 can have objects. */
export const awsClasses: ReadonlySet<string> = new Set([
  awsStandard,
  'REDUCED_REDUNDANCY',
  'STANDARD_IA',
  'ONEZONE_IA',
  'INTELLIGENT_TIERING',
  'GLACIER',
  'GLACIER_IR',
  'DEEP_ARCHIVE',
  'EXPRESS_ONEZONE',
]);

/** Those whose objects are read only after RestoreObject. */
const archiveClasses: ReadonlySet<string> = new Set(['GLACIER', 'DEEP_ARCHIVE']);

/** Whether what is in a class is read only after RestoreObject. */
export function isArchiveClass(storageClass: string | null | undefined): boolean {
  return typeof storageClass === 'string' && archiveClasses.has(storageClass);
}
