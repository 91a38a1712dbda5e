// The URLs of share links: `/_/share/TOKEN/PATH`. Whoever has one has what it opens, so answers
// under them tell browsers to keep it from caches, from other sites and from search engines.
import type { Shared } from '../../authz/shares.ts';
import { percentEncode } from '../../core/canonical-request.ts';

const root = '/_/share/';

/** Is this request target a share link's? */
export function isShareTarget(target: string): boolean {
  return target.startsWith(root);
}

/** The token of a share link's decoded path, and what comes behind it. */
export function splitSharePath(path: string): { token: string; rest: string } {
  const slash = path.indexOf('/', root.length);
  const end = slash < 0 ? path.length : slash;
  return { token: path.slice(root.length, end), rest: path.slice(end + 1) };
}

/** The path by which a link leads to `rest`. */
export function sharePath(token: string, rest: string): string {
  return `${root}${token}/${percentEncode(rest, true)}`;
}

/** What to hand out: it ends in the name of an object, so that it is saved under that. */
export function shareUrl(base: string, token: string, { key }: Pick<Shared, 'key'>): string {
  return `${base}${sharePath(token, baseName(key))}`;
}

/** What follows the last slash. */
export function baseName(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}

/** Of every answer under a share link. */
export const secretHeaders: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-robots-tag': 'noindex, nofollow',
};

/** For what is no page of ours: nothing in it is to run as this site. */
export const inertPolicy = "default-src 'none'; sandbox";
