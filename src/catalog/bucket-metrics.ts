// Which requests of a bucket are counted by themselves, as its setting `metrics` stores it.

export interface MetricsConfiguration {
  id: string;
  /** Of requests for keys that begin with it; absent: of all for the bucket. */
  prefix?: string;
}

/** In a bucket, as on S3. */
export const metricsMax = 1000;
/** Of the JSON of all of them. */
export const metricsLengthMax = 256 * 1024;
