// All grants, so arranged that a decision looks only at those that can concern it: by the place
// they are for, and where a place has many, by subject. Invariant: `propose` gives every grant that
// can change the decision; `verdictOf` says which of them apply, so places whose hashes are equal
// by chance cost time and never a wrong decision.
//
// A place is a path: `tenant`, `tenant/bucket`, `tenant/bucket/prefix` without a slash at its end.
// One pass over the path of a request gives the hash of each place around it. What grants are kept
// as is off the heap of JavaScript (record-table.ts), where a million objects would make the
// garbage collector stop every request for a second.

import { randomFillSync } from 'node:crypto';
import { keyBytesMax } from '../../core/limits.ts';
import type { AccessRequest } from './access-request.ts';
import { grantsPerPlaceMax } from './bounds.ts';
import { compileGrant, type Grant } from './grant.ts';
import { isSameGrant, type Rule, verdictOf } from './rule.ts';
import {
  holdParts,
  RecordTable,
  releaseParts,
  SharedParts,
  StoredGrant,
  type UseRecord,
  writeGrant,
} from './stored-grant.ts';

/** Grants of a place that are looked at one by one; with more, the place is divided by subject. */
const undividedMax = 8;

/** UTF-16 units of a place: a tenant, a bucket, the longest key, and the slashes between them. */
const placeLengthMax = 63 + 1 + 63 + 1 + keyBytesMax;
/** `principal:`, a tenant, a slash and a name. */
const subjectLengthMax = 10 + 63 + 1 + 63;

export class GrantIndex {
  readonly #placeHash = new PathHash(placeLengthMax);
  readonly #subjectHash = new PathHash(subjectLengthMax);
  readonly #parts: SharedParts;
  readonly #byPlace = new RecordTable();
  readonly #bySubject = new RecordTable();
  /** How many grants the divided places have; all those are in `#bySubject`. */
  readonly #divided = new Map<number, number>();
  readonly #denials = new DenialsBelow();
  /** Grants that deny reading of a part of a bucket, by bucket and subject. */
  readonly #partsDenied = new Map<number, number>();
  // Used again at each call of `propose`.
  readonly #found: Rule[] = [];
  readonly #hashes: number[] = [];
  readonly #push: UseRecord = (bytes, at) => {
    this.#found.push(new StoredGrant(bytes, at, this.#parts));
  };
  /** How many there are; `add` and `remove` count. */
  count = 0;

  constructor(parts = new SharedParts()) {
    this.#parts = parts;
  }

  /** Adds a grant of which there is none of the same name. It counts from the next decision on. */
  add(tenant: string, grant: Grant): void {
    const place = this.#placeOf(tenant, grant);
    const record = writeGrant(tenant, grant, this.#parts);
    const count = this.#divided.get(place) ?? this.#byPlace.count(place);
    if (count < undividedMax && !this.#divided.has(place)) {
      this.#byPlace.add(place, record);
    } else {
      if (!this.#divided.has(place)) this.#divide(place);
      this.#divided.set(place, count + 1);
      this.#addBySubject(place, record);
    }
    const rule = this.#read(record);
    if (isDenialBelow(rule)) {
      for (const hash of this.#denialHashes(tenant, grant)) {
        this.#denials.add(hash, compileGrant(tenant, grant));
      }
    }
    if (deniesPart(rule)) this.#countParts(tenant, grant, 1);
    this.count += 1;
  }

  /** Removes a grant, given as it was added. Returns whether it was there. */
  remove(tenant: string, grant: Grant): boolean {
    const place = this.#placeOf(tenant, grant);
    const rule = compileGrant(tenant, grant);
    const isMeant = (bytes: Buffer, at: number) => {
      if (!isSameGrant(new StoredGrant(bytes, at, this.#parts), rule)) return false;
      releaseParts(bytes, at, this.#parts);
      return true;
    };
    const divided = this.#divided.get(place);
    if (divided === undefined) {
      if (!this.#byPlace.remove(place, isMeant)) return false;
    } else {
      const hashes = this.#hashesBySubject(place, rule);
      const isFound = hashes.map((hash) => this.#bySubject.remove(hash, isMeant));
      if (!isFound.includes(true)) return false;
    }
    if (divided === 1) this.#divided.delete(place);
    else if (divided !== undefined) this.#divided.set(place, divided - 1);
    if (isDenialBelow(rule)) {
      for (const hash of this.#denialHashes(tenant, grant)) this.#denials.remove(hash, rule);
    }
    if (deniesPart(rule)) this.#countParts(tenant, grant, -1);
    this.count -= 1;
    return true;
  }

  /** May one more grant be in this place? To be asked before a grant is stored. */
  hasRoomFor(tenant: string, grant: Grant): boolean {
    const place = this.#placeOf(tenant, grant);
    if (!this.#divided.has(place)) return true;
    const hashes = grant.subjects.map((name) => joinHashes(place, this.#subjectHash.of(name)));
    return hashes.every((hash) => this.#bySubject.count(hash) < grantsPerPlaceMax);
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

  /**
   * Does a grant deny who asks to read some part of the bucket, on whatever conditions? Of all of
   * it `propose` knows.
   */
  deniesParts(request: AccessRequest): boolean {
    if (this.#partsDenied.size === 0 || request.bucket === null) return false;
    const bucket = this.#placeHash.of(`${request.tenant}/${request.bucket}`);
    this.#hashes.length = 0;
    for (const subject of this.#requesterHashes(request)) {
      if (this.#partsDenied.has(joinHashes(bucket, subject))) return true;
    }
    return false;
  }

  #countParts(tenant: string, grant: Grant, more: 1 | -1): void {
    for (const hash of this.#denialHashes(tenant, grant)) {
      const count = (this.#partsDenied.get(hash) ?? 0) + more;
      if (count > 0) this.#partsDenied.set(hash, count);
      else this.#partsDenied.delete(hash);
    }
  }

  #visit(place: number, request: AccessRequest): void {
    if (!this.#divided.has(place)) {
      this.#byPlace.forEach(place, this.#push);
      return;
    }
    for (const subject of this.#requesterHashes(request)) {
      this.#bySubject.forEach(joinHashes(place, subject), this.#push);
    }
  }

  #visitDenials(bucket: number, request: AccessRequest): void {
    for (const subject of this.#requesterHashes(request)) {
      this.#denials.propose(joinHashes(bucket, subject), request, this.#found);
    }
  }

  #requesterHashes({ subjects }: AccessRequest): readonly number[] {
    if (this.#hashes.length === 0) {
      for (const subject of subjects) this.#hashes.push(this.#subjectHash.of(subject));
    }
    return this.#hashes;
  }

  #placeOf(tenant: string, { bucket, prefix, key }: Grant): number {
    const text = key ?? prefix ?? '';
    let path = bucket === undefined ? tenant : `${tenant}/${bucket}`;
    if (text !== '') path = `${path}/${text.endsWith('/') ? text.slice(0, -1) : text}`;
    return this.#placeHash.of(path);
  }

  #hashesBySubject(place: number, { subjects }: Rule): number[] {
    return subjects.names.map((name) => joinHashes(place, this.#subjectHash.of(name)));
  }

  #denialHashes(tenant: string, { bucket, subjects }: Grant): number[] {
    const place = this.#placeHash.of(`${tenant}/${bucket}`);
    return subjects.map((name) => joinHashes(place, this.#subjectHash.of(name)));
  }

  #divide(place: number): void {
    for (const record of this.#byPlace.takeAll(place)) this.#addBySubject(place, record);
  }

  /** Adds a record under each of its subjects, a copy for each. */
  #addBySubject(place: number, record: Buffer): void {
    for (const [i, hash] of this.#hashesBySubject(place, this.#read(record)).entries()) {
      if (i > 0) holdParts(record, this.#parts);
      this.#bySubject.add(hash, record);
    }
  }

  #read(record: Buffer): Rule {
    return new StoredGrant(record, 0, this.#parts);
  }
}

/** Both are secret and independent, so a sum in which they do not swap is as good. */
function joinHashes(place: number, subject: number): number {
  return (Math.imul(place, 31) + subject) | 0;
}

// A hash that grows with its text, so that one pass over a path gives the hash of each path around
// it; with a secret, so that nobody can choose texts that collide. Invariant: two texts of at most
// `lengthMax` units collide with probability 2^-32 over the secret, however they were chosen; what
// a text has beyond that length does not count.
//
// It is two times the upper half of Σ r[i]·(unit[i] + 1) modulo 2^32, with secret random words r:
// multilinear hashing, of which each is strongly universal (Lemire and Kaser 2014, "Strongly
// universal string hashing is fast").

export class PathHash {
  readonly #first: Int32Array;
  readonly #second: Int32Array;
  readonly #lengthMax: number;
  #a = 0;
  #b = 0;
  #length = 0;

  constructor(lengthMax: number) {
    this.#lengthMax = lengthMax;
    this.#first = randomFillSync(new Int32Array(lengthMax));
    this.#second = randomFillSync(new Int32Array(lengthMax));
  }

  /** Begins a text anew. */
  restart(): void {
    this.#a = 0;
    this.#b = 0;
    this.#length = 0;
  }

  /** Adds the units of `text` from `start` up to `end` to what was added before. */
  add(text: string, start = 0, end = text.length): void {
    const [first, second] = [this.#first, this.#second];
    let [a, b, at] = [this.#a, this.#b, this.#length];
    const stop = Math.min(end, start + this.#lengthMax - at);
    for (let i = start; i < stop; i++, at++) {
      const unit = text.charCodeAt(i) + 1;
      a = (a + Math.imul(first[at] as number, unit)) | 0;
      b = (b + Math.imul(second[at] as number, unit)) | 0;
    }
    this.#a = a;
    this.#b = b;
    this.#length = at;
  }

  /** The hash of what was added: a signed word of 32 bits, which is what V8 holds best. */
  get value(): number {
    return (this.#a & 0xffff0000) | (this.#b >>> 16);
  }

  /** The hash of a whole text. */
  of(text: string): number {
    this.restart();
    this.add(text);
    return this.value;
  }
}

// Grants that deny a listing of some part of a bucket, found from the prefix that a listing shows:
// what is denied must not show in the listing of something around it. Invariant: the denials of one
// bucket and subject are in the order of their prefixes, so those that begin with a listing's
// prefix are one run.

/** Does the grant deny listing of a part of a bucket? */
function isDenialBelow({ effect, actions, resource }: Rule): boolean {
  if (effect !== 'deny' || !('prefix' in resource)) return false;
  return resource.bucket !== null && resource.prefix !== '' && actions.hasListing();
}

function deniesPart({ effect, actions, resource }: Rule): boolean {
  if (effect !== 'deny' || !('prefix' in resource)) return false;
  return resource.bucket !== null && resource.prefix !== '' && actions.hasReading();
}

class DenialsBelow {
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
