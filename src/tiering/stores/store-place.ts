// Where a store is, by its URL: `s3://BUCKET/PREFIX` or `file:///FOLDER`.
import { fileURLToPath } from 'node:url';

export type StoreKind = 's3' | 'folder';

export function kindOf(url: string): StoreKind {
  return url.startsWith('file:') ? 'folder' : 's3';
}

/** The folder that a URL `file:///…` names, without a slash at its end. */
export function folderOf(url: string): string {
  return fileURLToPath(url).replace(/(?<=.)\/+$/, '');
}

/** How many calls are under way at once where nothing is said. */
export function defaultConnectionsMax(url: string): number {
  // Each call to a folder keeps a thread; each request to a server keeps a connection.
  return kindOf(url) === 'folder' ? 8 : 64;
}
