// Scopes: what a token lets its holder do, and where. Invariant: a path is decoded once, strictly,
// and from then on compared byte for byte with bucket and key; nothing is normalised, so two texts
// that look alike never mean the same.
// Specification: WLCG Common JWT Profile 1.x, section "Capability-based Authorization: scope".
import { scopeEntriesMax, scopePathBytesMax } from './bounds.ts';

/** The rights to what is stored. */
export const rights = ['read', 'create', 'modify', 'stage'] as const;
/** `admin` is the native API, and nothing that is stored. */
export type Right = (typeof rights)[number] | 'admin';

/**
 * What a request wants: a right, `list` with the listing's prefix as its key, or `stat`, an
 * object's metadata, which comes with every right (a writer may look whether its upload arrived).
 */
export type Wanted = Right | 'list' | 'stat';

export interface ScopeEntry {
  right: Right;
  /** null: `/`, every bucket of the tenant. Else the bucket's name, maybe `tenant:bucket`. */
  bucket: string | null;
  /**
   * '' is the whole bucket. `a/b` is the object of this key and all below `a/b/`; `a/b/` only the
   * latter.
   */
  prefix: string;
}

export type Scope = readonly ScopeEntry[];

const included: Record<Right, readonly Wanted[]> = {
  read: ['read', 'list', 'stat'],
  create: ['create', 'stat'],
  modify: ['modify', 'create', 'stat'],
  // To stage is to read what must be fetched first.
  stage: ['stage', 'read', 'list', 'stat'],
  admin: ['admin'],
};

const adminText = 'bursar.admin:/';

/** Whether the scope allows `wanted` of this bucket and key, both as they will be used. */
export function covers(scope: Scope, wanted: Wanted, bucket: string, key: string): boolean {
  for (const entry of scope) {
    if (!included[entry.right].includes(wanted)) continue;
    if (entry.bucket === null) return true;
    if (entry.bucket !== bucket) continue;
    // A listing shows what begins with its prefix: `a` would show `ab`, so only `a/` lies in `a`.
    if (wanted === 'list' ? liesBelow(key, entry.prefix) : liesIn(key, entry.prefix)) return true;
  }
  return false;
}

/** Whether the scope lets its bearer use the native API, as far as the principal may. */
export function coversAdministration(scope: Scope): boolean {
  return scope.some(({ right }) => right === 'admin');
}

/**
 * What the scope allows a write of this key to do: `modify` may overwrite; `create` must be refused
 * where something is already (the write is conditional on `If-None-Match: *`).
 */
export function writeRight(
  scope: Scope,
  bucket: string,
  key: string,
): 'modify' | 'create' | undefined {
  if (covers(scope, 'modify', bucket, key)) return 'modify';
  return covers(scope, 'create', bucket, key) ? 'create' : undefined;
}

/** Whether each entry of `child` lies in one of `parent`. */
export function isSubset(child: Scope, parent: Scope): boolean {
  return child.every((one) => parent.some((other) => isWithin(one, other)));
}

function isWithin(child: ScopeEntry, parent: ScopeEntry): boolean {
  if (!included[parent.right].includes(child.right)) return false;
  if (parent.bucket === null) return true;
  return parent.bucket === child.bucket && liesIn(child.prefix, parent.prefix);
}

// Where a key lies to a prefix that means a place, as scopes and grants have it: boundaries are at
// slashes. `raw/2026` is the object of this key and all below `raw/2026/`; `raw/2026/` only what
// begins so; '' is everything. Invariant: `raw/2026` never has anything to do with `raw/20260`.

const slash = 47;

export function liesIn(key: string, prefix: string): boolean {
  return key === prefix || liesBelow(key, prefix);
}

/** As `liesIn`, without the object whose key is the prefix itself where that has no slash. */
export function liesBelow(key: string, prefix: string): boolean {
  if (prefix === '') return true;
  if (!key.startsWith(prefix)) return false;
  const last = prefix.length - 1;
  return prefix.charCodeAt(last) === slash || key.charCodeAt(last + 1) === slash;
}

/** Thrown by `parseScope`; the message continues "the scope entry … ". */
export class ScopeError extends Error {
  override readonly name = 'ScopeError';
}

/** The entries of a `scope` claim. Throws ScopeError, which says what is wrong with which. */
export function parseScope(text: string): Scope {
  const entries = text.split(' ', scopeEntriesMax + 1);
  if (entries.length > scopeEntriesMax) {
    throw new ScopeError(`has more than ${scopeEntriesMax} entries`);
  }
  return entries.map(parseEntry);
}

/**
 * The scope of an outside issuer's token, below the path that its tenant gave to the issuer
 * (`/bucket/prefix`, percent-encoded). Entries of other kinds give nothing here and are passed
 * over; undefined if none is about storage, so that the issuer's groups decide. Throws ScopeError,
 * also where only rights are named that are not known: they stand for less than all.
 */
export function mountScope(text: string, mount: string): Scope | undefined {
  const entries = text.split(' ').filter((entry) => ownEntry.test(entry));
  if (entries.length === 0) {
    if (!aboutStorage.test(text)) return undefined;
    throw new ScopeError('names no right to storage that is known here');
  }
  const base = mount.replace(/\/$/, '');
  return parseScope(entries.map((entry) => entry.replace(':/', () => `:${base}/`)).join(' '));
}

const ownEntry = new RegExp(`^storage\\.(?:${rights.join('|')})(?::|$)`);
const aboutStorage = /(?:^|\s)storage\./i;
const entryForm = /^storage\.([a-z]+):(\/.*)$/;

function parseEntry(text: string): ScopeEntry {
  if (text === adminText) return { right: 'admin', bucket: null, prefix: '' };
  const [, name, path = ''] = entryForm.exec(text) ?? [];
  const right = rights.find((one) => one === name);
  if (right === undefined) {
    const wanted = `storage.${rights.join('|')}:/bucket/prefix or ${adminText}`;
    throw new ScopeError(`has "${text.slice(0, 80)}", which is not of the form ${wanted}`);
  }
  return { right, ...parsePath(path) };
}

// RFC 3986 section 3.3, without what a scope cannot hold. An encoded slash is one more way to write
// a boundary, which some readers see and others do not.
const pathForm = /^(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%(?!2[fF])[0-9A-Fa-f]{2})+$/;
// What a terminal or a log would act on, NUL among them.
const forbidden = /\p{Cc}/u;

/** Bucket and prefix of an absolute, percent-encoded path. Throws ScopeError. */
export function parsePath(text: string): { bucket: string | null; prefix: string } {
  const shown = `"${text.slice(0, 80)}"`;
  if (!pathForm.test(text) || !text.startsWith('/')) {
    throw new ScopeError(`has the path ${shown}, which is not an absolute path of RFC 3986`);
  }
  const path = decode(text);
  if (path === undefined) throw new ScopeError(`has the path ${shown}, which is not UTF-8`);
  if (path.includes('%')) {
    throw new ScopeError(`has the path ${shown}, in which a % is left after decoding`);
  }
  if (forbidden.test(path)) throw new ScopeError(`has a control character in the path ${shown}`);
  if (Buffer.byteLength(path) > scopePathBytesMax) {
    throw new ScopeError(`has a path of more than ${scopePathBytesMax} bytes`);
  }
  if (path === '/') return { bucket: null, prefix: '' };
  const segments = path.slice(1).split('/');
  // Only the last may be empty: a slash at the end.
  if (segments.some((one, i) => isDots(one) || (one === '' && i < segments.length - 1))) {
    throw new ScopeError(`has the path ${shown}, with a segment that is empty, "." or ".."`);
  }
  const [bucket = '', ...rest] = segments;
  return { bucket, prefix: rest.join('/') };
}

function isDots(segment: string): boolean {
  return segment === '.' || segment === '..';
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** The `scope` claim of these entries. */
export function renderScope(scope: Scope): string {
  return scope.map(renderEntry).join(' ');
}

function renderEntry(entry: ScopeEntry): string {
  return entry.right === 'admin' ? adminText : `storage.${entry.right}:${renderPath(entry)}`;
}

/** The path of an entry as its claim has it, percent-encoded. */
export function renderPath({ bucket, prefix }: Pick<ScopeEntry, 'bucket' | 'prefix'>): string {
  if (bucket === null) return '/';
  const path = prefix === '' ? bucket : `${bucket}/${prefix}`;
  return `/${path.split('/').map(encodeURIComponent).join('/').replaceAll('%3A', ':')}`;
}
