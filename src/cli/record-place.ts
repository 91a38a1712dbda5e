// What a record is about, as whoever asked calls it.

/** `bucketTenant`: absent where the bucket is of the tenant that asked. */
export interface RecordedPlace {
  bucketTenant?: string | undefined;
  bucket?: string | undefined;
  key?: string | undefined;
}

/** `BUCKET/KEY`, or `TENANT:BUCKET/KEY` of another tenant's; empty: it is about no bucket. */
export function placeFor(
  tenant: string,
  { bucketTenant = tenant, bucket, key }: RecordedPlace,
): string {
  const of = bucketTenant === tenant || bucket === undefined ? '' : `${bucketTenant}:`;
  return `${of}${[bucket, key].filter((part) => part !== undefined).join('/')}`;
}
