// What the routes' table demands of every S3 operation: nothing can be added to it without naming
// its IAM action, what it is about, what it costs, and how much body it takes.
import type { S3Action } from '../authz/grants/actions.ts';
import type { Context, Reply } from './context.ts';

export interface Operation {
  name: string;
  action: S3Action;
  /**
   * What it is about. `bucketName`: the bucket need not exist. `listing`: what in a bucket begins
   * with the query's `prefix`.
   */
  resource: 'service' | 'bucketName' | 'bucket' | 'listing' | 'object';
  /** Which of S3's prices for requests it has: as a PUT, as a GET, or none. */
  price: 'put' | 'get' | 'free';
  /** Most body bytes it takes; the pipeline refuses more before any is read. */
  bodyBytesMax: number;
  run(context: Context): Promise<Reply>;
}
