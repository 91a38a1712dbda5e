// What the routes' table demands of every S3 operation: nothing can be added to it without naming
// its IAM action, what it is about, what it costs, and how much body it takes.
import type { S3Action } from '../../authz/grants/actions.ts';
import type { Tags } from '../../catalog/versions.ts';
import type { Reply } from '../http/reply.ts';
import type { S3Request } from './request.ts';
import type { Asked, Reserved, Resource } from './stages.ts';

/**
 * `R`: what it is about, and so what of a bucket and a key it is given. `Input`: what of the
 * request is read before it is decided, such as its body. `Decided`: what its own decision found
 * besides that it is allowed.
 */
export interface Operation<R extends Resource, Input = void, Decided = void> {
  name: string;
  action: S3Action;
  /** What records call it, where that is no action that can be granted. */
  recordedAs?: 's3:RenameObject';
  /** Its action where the request names a version; absent: there is none of its own. */
  versionAction?: S3Action;
  /** May a request name a version? Also where there is a `versionAction`. */
  takesVersion?: true;
  resource: R;
  /** Which of S3's prices for requests it has: as a PUT, as a GET, or none. */
  price: 'put' | 'get' | 'free';
  /** Does it set aside what it uses itself, once it knows how much? Until then nothing is. */
  reserves?: true;
  /** Most body bytes it takes; the pipeline refuses more before any is read. Absent: none. */
  bodyBytesMax?: number;
  /** What its body is stored as. */
  stores?: 'object' | 'part';
  /** The tags that the request gives to what it writes. */
  tags?: (request: S3Request) => Tags;
  /** Reads what the decision depends on. Throws `Refusal`. */
  parse?(asked: Asked<R>): Promise<Input>;
  /** Throws `Refusal` AccessDenied, where the action on the resource is not all that is decided. */
  admit?(asked: Asked<R>, input: Input): Promise<Decided>;
  run(context: Reserved<R>, input: Input, decided: Decided): Promise<Reply>;
}

/**
 * Any of them, as the routes find it. The table pairs each with requests that name what it is
 * about, and the pipeline admits it only where that is there.
 */
export type AnyOperation = Operation<Resource, unknown, unknown>;
