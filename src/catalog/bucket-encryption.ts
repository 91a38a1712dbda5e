// How objects of a bucket are encrypted whose writers say nothing of it: `PutBucketEncryption`.

export interface BucketEncryption {
  algorithm: 'AES256' | 'aws:kms';
  /** The key of AWS KMS as it was named; null: the gateway's. */
  kmsKeyId: string | null;
  bucketKeyEnabled: boolean;
  /** Keys that customers bring (SSE-C) are refused; absent: they are taken. */
  blocksCustomerKeys?: true;
}

/** Reads what `JSON.stringify` made of one. */
export function readEncryptionSetting(document: string): BucketEncryption {
  return JSON.parse(document) as BucketEncryption;
}
