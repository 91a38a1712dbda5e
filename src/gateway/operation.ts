// What the routes' table demands of every S3 operation: nothing can be added to it without naming
// its IAM action, what it is about, what it costs, and how much body it takes.
import type { S3Action } from '../authz/grants/actions.ts';
import type { Tags } from '../catalog/versions.ts';
import type { Context, Reply } from './context.ts';
import type { S3Request } from './request.ts';

export interface Operation {
  name: string;
  action: S3Action;
  /** Its action where the request names a version; absent: there is none of its own. */
  versionAction?: S3Action;
  /** May a request name a version? Also where there is a `versionAction`. */
  takesVersion?: true;
  /**
   * What it is about. `bucketName`: the bucket need not exist. `listing`: what in a bucket begins
   * with the query's `prefix`.
   */
  resource: 'service' | 'bucketName' | 'bucket' | 'listing' | 'object';
  /** Which of S3's prices for requests it has: as a PUT, as a GET, or none. */
  price: 'put' | 'get' | 'free';
  /** Does it set aside what it uses itself, once it knows how much? Until then nothing is. */
  reserves?: true;
  /** Most body bytes it takes; the pipeline refuses more before any is read. */
  bodyBytesMax: number;
  /** What its body is stored as. */
  stores?: 'object' | 'part';
  /** Has it a source, which `x-amz-copy-source` names? */
  copies?: true;
  /** The tags that the request gives to what it writes. */
  tags?: (request: S3Request) => Tags;
  /** Throws `Refusal` AccessDenied, where the action on the resource is not all that is decided. */
  admit?: (context: Context) => Promise<void>;
  run(context: Context): Promise<Reply>;
}
