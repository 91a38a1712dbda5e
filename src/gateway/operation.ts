// What the routes' table demands of every S3 operation: nothing can be added to it without naming
// its IAM action, what it is about, and how much body it takes.
import type { S3Action } from '../authz/decide.ts';
import type { Context, Reply } from './context.ts';

export interface Operation {
  name: string;
  action: S3Action;
  /** What it is about. `bucketName`: the bucket need not exist. */
  resource: 'service' | 'bucketName' | 'bucket' | 'object';
  /** Most body bytes it takes; the pipeline refuses more before any is read. */
  bodyBytesMax: number;
  run(context: Context): Promise<Reply>;
}
