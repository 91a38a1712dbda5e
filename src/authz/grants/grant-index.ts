// All grants, so arranged that a decision looks only at those that can concern it: by the place they
// are for, and where a place has many, by subject. Invariant: `propose` gives every grant that can
// change the decision; `verdictOf` says which of them apply, so places whose hashes are equal by
// chance cost time and never a wrong decision.
//
// A place is a path: `tenant`, `tenant/bucket`, `tenant/bucket/prefix` without a slash at its end.
// One pass over the path of a request gives the hash of each place around it.

import { keyBytesMax } from '../../core/limits.ts';
import type { AccessRequest } from './access-request.ts';
import { grantsPerPlaceMax } from './bounds.ts';
import { DenialsBelow, isDenialBelow } from './denials-below.ts';
import { compileGrant, type Grant } from './grant.ts';
import { PathHash } from './path-hash.ts';
import type { Rule } from './rule.ts';
import { addRule, countRules, pushRules, type RuleList, removeRule } from './rule-list.ts';
import { ShardedMap } from './sharded-map.ts';

/** Grants of a place that are looked at one by one; with more, the place is divided by subject. */
const undividedMax = 8;
/** Parts of grants that are remembered to be shared; beyond, sharing begins again. */
const sharedMax = 100_000;

/** UTF-16 units of a place: a tenant, a bucket, the longest key, and the slashes between them. */
const placeLengthMax = 63 + 1 + 63 + 1 + keyBytesMax;
/** `principal:`, a tenant, a slash and a name. */
const subjectLengthMax = 10 + 63 + 1 + 63;

export class GrantIndex {
  readonly #placeHash = new PathHash(placeLengthMax);
  readonly #subjectHash = new PathHash(subjectLengthMax);
  readonly #places = new ShardedMap<RuleList | DividedPlace>();
  readonly #denials = new DenialsBelow();
  readonly #shared = new Map<string, unknown>();
  // Used again at each call of `propose`.
  readonly #found: Rule[] = [];
  readonly #hashes: number[] = [];
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Adds a grant of which there is none of the same name. It counts from the next decision on. */
  add(tenant: string, grant: Grant): void {
    const rule = this.#compile(tenant, grant);
    const place = this.#placeOf(rule);
    let entry = this.#places.get(place);
    if (!(entry instanceof DividedPlace) && countRules(entry) >= undividedMax) {
      entry = this.#divide(entry as readonly Rule[]);
      this.#places.set(place, entry);
    }
    if (entry instanceof DividedPlace) entry.add(rule, this.#subjectHashes(rule));
    else this.#places.set(place, addRule(entry, rule));
    if (isDenialBelow(rule)) {
      for (const hash of this.#denialHashes(rule)) this.#denials.add(hash, rule);
    }
    this.#count += 1;
  }

  /** Removes a grant, given as it was added. Returns whether it was there. */
  remove(tenant: string, grant: Grant): boolean {
    const rule = this.#compile(tenant, grant);
    if (!this.#removeFromPlace(rule)) return false;
    if (isDenialBelow(rule)) {
      for (const hash of this.#denialHashes(rule)) this.#denials.remove(hash, rule);
    }
    this.#count -= 1;
    return true;
  }

  /** May one more grant be in this place? To be asked before a grant is stored. */
  hasRoomFor(tenant: string, grant: Grant): boolean {
    const rule = this.#compile(tenant, grant);
    const entry = this.#places.get(this.#placeOf(rule));
    if (!(entry instanceof DividedPlace)) return true;
    const hashes = this.#subjectHashes(rule);
    return hashes.every((hash) => countRules(entry.bySubject.get(hash)) < grantsPerPlaceMax);
  }

  /**
   * The grants that a decision must look at, some of them maybe twice. Good until the next call.
   */
  propose(request: AccessRequest): readonly Rule[] {
    this.#found.length = 0;
    this.#hashes.length = 0;
    const { tenant, bucket } = request;
    const hash = this.#placeHash;
    hash.restart();
    hash.add(tenant);
    this.#visit(hash.value, request);
    if (bucket === null) return this.#found;
    hash.add('/');
    hash.add(bucket);
    this.#visit(hash.value, request);
    if (request.listPrefix !== null) this.#visitDenials(hash.value, request);
    const text = request.listPrefix ?? request.key;
    if (text === null) return this.#found;
    hash.add('/');
    let start = 0;
    for (let slash = text.indexOf('/'); slash >= 0; slash = text.indexOf('/', start + 1)) {
      hash.add(text, start, slash);
      this.#visit(hash.value, request);
      start = slash;
      if (slash > keyBytesMax) return this.#found;
    }
    hash.add(text, start);
    this.#visit(hash.value, request);
    return this.#found;
  }

  #visit(place: number, request: AccessRequest): void {
    const entry = this.#places.get(place);
    if (entry === undefined) return;
    if (!(entry instanceof DividedPlace)) {
      pushRules(entry, this.#found);
      return;
    }
    for (const hash of this.#requesterHashes(request)) {
      const list = entry.bySubject.get(hash);
      if (list) pushRules(list, this.#found);
    }
  }

  #visitDenials(bucketHash: number, request: AccessRequest): void {
    for (const subject of this.#requesterHashes(request)) {
      this.#denials.propose(joinHashes(bucketHash, subject), request, this.#found);
    }
  }

  #requesterHashes({ subjects }: AccessRequest): readonly number[] {
    if (this.#hashes.length === 0) {
      for (const subject of subjects) this.#hashes.push(this.#subjectHash.of(subject));
    }
    return this.#hashes;
  }

  #subjectHashes({ subjects }: Rule): number[] {
    return subjects.names.map((name) => this.#subjectHash.of(name));
  }

  #denialHashes(rule: Rule): number[] {
    const bucket = this.#placeHash.of(`${rule.resource.tenant}/${rule.resource.bucket}`);
    return this.#subjectHashes(rule).map((subject) => joinHashes(bucket, subject));
  }

  #placeOf({ resource }: Rule): number {
    const { tenant, bucket } = resource;
    const prefix = resource.form === 'patterns' ? '' : resource.prefix;
    let path = bucket === null ? tenant : `${tenant}/${bucket}`;
    if (prefix !== '') path = `${path}/${prefix.endsWith('/') ? prefix.slice(0, -1) : prefix}`;
    return this.#placeHash.of(path);
  }

  #divide(rules: readonly Rule[]): DividedPlace {
    const place = new DividedPlace();
    for (const rule of rules) place.add(rule, this.#subjectHashes(rule));
    return place;
  }

  #removeFromPlace(rule: Rule): boolean {
    const place = this.#placeOf(rule);
    const entry = this.#places.get(place);
    if (entry === undefined) return false;
    if (entry instanceof DividedPlace) {
      if (!entry.remove(rule, this.#subjectHashes(rule))) return false;
      if (entry.bySubject.size === 0) this.#places.set(place, undefined);
      return true;
    }
    const rest = removeRule(entry, rule);
    this.#places.set(place, rest);
    return rest !== entry;
  }

  #compile(tenant: string, grant: Grant): Rule {
    return compileGrant(tenant, grant, (name, make) => {
      let part = this.#shared.get(name);
      if (part === undefined) {
        part = make();
        if (this.#shared.size >= sharedMax) this.#shared.clear();
        this.#shared.set(name, part);
      }
      return part as ReturnType<typeof make>;
    });
  }
}

/** Both are secret and independent, so a sum in which they do not swap is as good. */
function joinHashes(bucket: number, subject: number): number {
  return (Math.imul(bucket, 31) + subject) | 0;
}

/** A place with many grants: each is found by its subjects. */
class DividedPlace {
  readonly bySubject = new Map<number, RuleList>();

  add(rule: Rule, hashes: readonly number[]): void {
    for (const hash of hashes) this.bySubject.set(hash, addRule(this.bySubject.get(hash), rule));
  }

  remove(rule: Rule, hashes: readonly number[]): boolean {
    let isFound = false;
    for (const hash of hashes) {
      const list = this.bySubject.get(hash);
      const rest = list && removeRule(list, rule);
      if (rest !== list) isFound = true;
      if (rest === undefined) this.bySubject.delete(hash);
      else this.bySubject.set(hash, rest);
    }
    return isFound;
  }
}
