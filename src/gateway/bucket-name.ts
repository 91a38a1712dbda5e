// Bucket names: "Bucket naming rules" of the Amazon S3 user guide, general purpose buckets.
import { Refusal } from '../core/errors.ts';

const shape = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const address = /^\d{1,3}(\.\d{1,3}){3}$/;
const reserved = /^(?:xn--|sthree-|amzn-s3-demo-)|(?:-s3alias|--ol-s3|\.mrap|--x-s3|--table-s3)$/;

/** Throws `Refusal` InvalidBucketName. */
export function checkBucketName(name: string): void {
  const fits =
    shape.test(name) && !/\.[.-]|-\./.test(name) && !address.test(name) && !reserved.test(name);
  if (!fits) throw new Refusal('InvalidBucketName', { fields: { BucketName: name } });
}
