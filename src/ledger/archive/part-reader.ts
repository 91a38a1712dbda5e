// Reads parts of packs as objects are read: no byte that was not verified.
import type { ReadPart } from '../../audit/record-store.ts';
import { readManifest } from '../../core/manifest.ts';
import type { ObjectReader } from '../../tiering/object-reader.ts';
import { archiveTenant } from './pack-entry.ts';

export function partReader(reader: Pick<ObjectReader, 'read'>): ReadPart {
  return async ({ manifest, begin, end }) => {
    const chunks: Buffer[] = [];
    const runs = readManifest(manifest, begin, end).runs;
    for await (const chunk of reader.read({
      tenant: archiveTenant,
      runs,
      inlineBody: neverInline,
    })) {
      // A chunk's memory is lent until the next one is asked for.
      chunks.push(Buffer.from(chunk));
    }
    return Buffer.concat(chunks);
  };
}

async function neverInline(): Promise<never> {
  throw new Error('a pack of records is never in the database');
}
