// Reads parts of packs as objects are read: no byte that was not verified. Invariant: whatever
// fails says which pack it is and which store has it.
import type { PackedPart } from '../../audit/archive/archived-tiles.ts';
import { PackFailure, PackSkipped, recordsOf } from '../../audit/archive/pack-failure.ts';
import type { ReadPart } from '../../audit/record-store.ts';
import { IntegrityError, Refusal } from '../../core/errors.ts';
import { type ExtentRun, readManifest } from '../../core/manifest.ts';
import type { ObjectReader } from '../../tiering/object-reader.ts';
import { archiveTenant } from './pack-entry.ts';

/** The name of a store, by its number. */
type NameOf = (store: number) => string;

/**
 * Throws `PackFailure` for what its store does not have as it was written, and Refusal
 * ServiceUnavailable or SlowDown where that cannot be read now.
 */
export function partReader(reader: Pick<ObjectReader, 'read'>, nameOf: NameOf): ReadPart {
  return async (part) => {
    const chunks: Buffer[] = [];
    for (const run of runsOf(part)) {
      try {
        const read = { tenant: archiveTenant, runs: [run], inlineBody: neverInline };
        // A chunk's memory is lent until the next one is asked for.
        for await (const chunk of reader.read(read)) chunks.push(Buffer.from(chunk));
      } catch (cause) {
        throw explain(cause, part, { run, nameOf });
      }
    }
    return Buffer.concat(chunks);
  };
}

/**
 * For one who reads everything: of an extent that is missing nothing is asked for again, nor is any
 * part that failed. Throws `PackSkipped` for what is in a store of which `isConfigured` says no.
 */
export function readingOnce(
  readPart: ReadPart,
  isConfigured: (store: number) => boolean,
): ReadPart {
  /** By the id of an extent that is missing, or by the pack and place of a part that failed. */
  const failures = new Map<string, PackFailure>();
  return async (part) => {
    const runs = runsOf(part);
    if (runs.some(({ store }) => !isConfigured(store))) throw new PackSkipped(part);
    const place = `${part.first}/${part.begin}`;
    for (const name of [place, ...runs.map(({ id }) => id.toString('hex'))]) {
      const known = failures.get(name);
      if (known) throw known;
    }
    try {
      return await readPart(part);
    } catch (error) {
      if (!(error instanceof PackFailure)) throw error;
      failures.set(error.kind === 'missing' ? error.extent.id : place, error);
      throw error;
    }
  };
}

function runsOf({ manifest, begin, end }: PackedPart): ExtentRun[] {
  return readManifest(manifest, begin, end).runs;
}

function explain(
  cause: unknown,
  part: PackedPart,
  { run, nameOf }: { run: ExtentRun; nameOf: NameOf },
): unknown {
  const store = { number: run.store, name: nameOf(run.store) };
  if (cause instanceof IntegrityError) {
    return new PackFailure(part, { id: run.id.toString('hex'), store }, cause);
  }
  if (!(cause instanceof Refusal)) return cause;
  const records = recordsOf(part);
  const message = `Store ${store.name}, which has the records ${records}, is not available.`;
  return new Refusal(cause.code, { message, fields: cause.fields, cause });
}

async function neverInline(): Promise<never> {
  throw new Error('a pack of records is never in the database');
}
