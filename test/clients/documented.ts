// The lines of configuration that docs/clients.md gives a client, so that what is run is what is
// documented.
import { blocksOf, readPage, sectionOf } from '../docs/markdown.ts';
import type { ClientTarget } from './stores.ts';

/** The client's first block of lines, with the gateway's address and keys for the page's. */
export function documentedLines(client: string, { endpoint, keys }: ClientTarget): string {
  const [block] = blocksOf(sectionOf(readPage('docs/clients.md').text, client));
  if (block === undefined) throw new Error(`docs/clients.md has no lines for ${client}`);
  return block.code
    .replaceAll('127.0.0.1:9000', new URL(endpoint).host)
    .replaceAll('BURXXXXXXXXXXXXXXXXX', keys.accessKeyId)
    .replaceAll('the-secret', keys.secretAccessKey);
}
