// What a decision looks at: who wants to do what with which resource, and the facts of the request
// that conditions ask for. The gateway makes it; names in it are decoded once, as they will be
// used.
import type { Headers, QueryPairs } from '../../core/canonical-request.ts';
import type { Principal } from '../../core/principal.ts';
import type { Action } from './actions.ts';

export interface AccessRequest {
  /** null: without credentials. */
  readonly who: Principal | null;
  /** `subjectsOf` who asks. */
  readonly subjects: readonly string[];
  readonly action: Action;
  /** The tenant in whose namespace the resource is. */
  readonly tenant: string;
  /** null: the action is about no bucket. */
  readonly bucket: string | null;
  /** The name of the bucket's owner in `tenant`; null where there is no such bucket. */
  readonly owner: string | null;
  /** null: the action is about no object. */
  readonly key: string | null;
  /** The prefix that a listing shows, '' for all; null where the action is no listing. */
  readonly listPrefix: string | null;
  /** Does what lets everybody in not let in who asks? S3's RestrictPublicBuckets. */
  readonly isShutOut?: boolean;
  readonly facts: RequestFacts;
}

export interface RequestFacts {
  /** The gateway's clock, in milliseconds since 1970. */
  readonly timeMs: number;
  /** The client's address, behind trusted proxies only. */
  readonly sourceAddress: string;
  readonly isSecure: boolean;
  readonly headers: Headers;
  readonly query: QueryPairs;
  /** The version that is asked for; null: the current one. */
  readonly versionId: string | null;
  /** The source of a copy as `bucket/key`, decoded; null where nothing is copied. */
  readonly copySource: string | null;
  readonly authentication: Authentication | null;
  /** Tags that the request brings. */
  readonly requestTags: ReadonlyMap<string, string>;
  /**
   * Tags of the object (and version) that is there; empty where there is none; undefined: not
   * loaded yet, so that a decision which depends on them says `needsTags`.
   */
  readonly objectTags: ReadonlyMap<string, string> | undefined;
  /** What the request would lock a version with. */
  readonly lock?: RequestedLock | undefined;
}

export interface RequestedLock {
  readonly retention?: { readonly mode: string; readonly untilMs: number };
  readonly legalHold?: boolean;
}

export interface Authentication {
  /** `REST-HEADER`, `REST-QUERY-STRING` or `POST`, as `s3:authType` has it; `BEARER` for tokens. */
  readonly type: string;
  /** `AWS4-HMAC-SHA256` and the like. */
  readonly version: string;
  readonly signedAtMs: number;
}
