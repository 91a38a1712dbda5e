// The stores as those who ask for buckets, and those who run the gateway, know them: by name.
import { invalidArgument, Refusal } from '../core/errors.ts';
import type { DeclaredPlace } from '../tiering/classes/declared-place.ts';

/** A store now. What is in `detail` is for operators only; no secret is. */
export interface StoreView {
  number: number;
  name: string;
  /** `s3://bucket/prefix at endpoint`, or `local`. */
  location: string;
  /** Whether the gateway was started with it: only then new buckets can be put there. */
  isConfigured: boolean;
  ready: boolean;
  /** Whether what is in it can be read: also where it takes no writes. */
  canRead: boolean;
  /** Why it is not ready; null when it is. */
  reason: string | null;
  /** What operators say of it. */
  declared: DeclaredPlace;
  /** For everybody: breaker, capabilities, room that is left. */
  health: Record<string, unknown>;
  /** For operators: counters. */
  detail: Record<string, unknown>;
}

export interface StoreList {
  /** Where buckets go that name no store and whose tenant names none. */
  readonly defaultName: string;
  /** Every store that any bucket can be in, in order of number. */
  all(): StoreView[];
  /** The number of a store that new buckets can be put in; undefined: there is none of the name. */
  numberOf(name: string): number | undefined;
  nameOf(number: number): string;
  declaredOf(number: number): DeclaredPlace;
  /** Whether what is in it is read only after its server has restored it. */
  isArchive(number: number): boolean;
}

export const storeHeader = 'x-bursar-store';

/**
 * The number of the store for a new bucket: the one asked for, else the tenant's, else the
 * gateway's. Refusal InvalidArgument for an unknown name, and for an archive of S3;
 * ServiceUnavailable when the tenant's own is not configured, as its bytes must not go elsewhere
 * unnoticed.
 */
export function chooseStore(
  stores: StoreList,
  asked: string | undefined,
  tenantDefault: string | null,
): number {
  const number = stores.numberOf(asked ?? tenantDefault ?? stores.defaultName);
  if (number !== undefined && stores.isArchive(number)) {
    throw invalidArgument(storeHeader, stores.nameOf(number), 'No bucket is in an archive of S3.');
  }
  if (number !== undefined) return number;
  if (asked !== undefined) {
    throw invalidArgument(storeHeader, asked, 'There is no store of this name.');
  }
  throw new Refusal('ServiceUnavailable', {
    message: 'The store for new buckets of this tenant is not configured.',
  });
}
