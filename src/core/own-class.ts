// Which names of storage classes are those that tenants define.

/** Whether a class is one that tenants define, whose names are of lower case. */
export function isOwnClass(storageClass: string): boolean {
  return /^[a-z]/.test(storageClass);
}
