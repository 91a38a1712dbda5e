// Grants that deny a listing of some part of a bucket, found from the prefix that a listing shows:
// what is denied must not show in the listing of something around it. Invariant: the denials of one
// bucket and subject are in the order of their prefixes, so those that begin with a listing's
// prefix are one run.
import type { AccessRequest } from './access-request.ts';
import { isSameGrant, type Rule, verdictOf } from './rule.ts';

/** Does the grant deny listing of a part of a bucket? */
export function isDenialBelow({ effect, actions, resource }: Rule): boolean {
  if (effect !== 'deny' || !('prefix' in resource)) return false;
  return resource.bucket !== null && resource.prefix !== '' && actions.hasListing();
}

export class DenialsBelow {
  readonly #lists = new Map<number, Rule[]>();

  /** `hash` is that of the bucket and a subject. */
  add(hash: number, rule: Rule): void {
    const list = this.#lists.get(hash);
    if (list) list.splice(lowerBound(list, prefixOf(rule)), 0, rule);
    else this.#lists.set(hash, [rule]);
  }

  remove(hash: number, rule: Rule): void {
    const list = this.#lists.get(hash) ?? [];
    const prefix = prefixOf(rule);
    let at = lowerBound(list, prefix);
    while (at < list.length && !isSameGrant(list[at] as Rule, rule)) at += 1;
    list.splice(at, 1);
    if (list.length === 0) this.#lists.delete(hash);
  }

  /** Gives the denials below the listing's prefix, up to the first that applies: one is enough. */
  propose(hash: number, request: AccessRequest, to: Rule[]): void {
    const list = this.#lists.get(hash);
    const { listPrefix } = request;
    if (!list || listPrefix === null) return;
    for (let at = lowerBound(list, listPrefix); at < list.length; at++) {
      const rule = list[at] as Rule;
      if (!prefixOf(rule).startsWith(listPrefix)) return;
      to.push(rule);
      if (verdictOf(rule, request) === 'applies') return;
    }
  }
}

function prefixOf({ resource }: Rule): string {
  return 'prefix' in resource ? resource.prefix : '';
}

/** The first place whose prefix is not before `prefix`, in the order of UTF-16 units. */
function lowerBound(list: readonly Rule[], prefix: string): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (prefixOf(list[middle] as Rule) < prefix) low = middle + 1;
    else high = middle;
  }
  return low;
}
