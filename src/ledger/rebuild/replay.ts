// Reads a store's journal back (docs/formats/journal.md). Objects may come in any order, since the
// newest of what is said of a key wins. Invariant: nothing is taken from an object that is not
// authentic, or not what its name says; each such one is reported.
import { isoTime } from '../../core/clock.ts';
import { IntegrityError } from '../../core/errors.ts';
import { inParallel } from '../../core/in-parallel.ts';
import type { Keyring } from '../../core/keyring.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import {
  beginName,
  completeName,
  type Head,
  type JournalObject,
  lastSeqOf,
  objectBytesMax,
  objectName,
  pageName,
} from '../journal/format.ts';
import {
  listGeneration,
  listGenerations,
  readObject,
  type SnapshotFiles,
} from '../journal/generation.ts';
import type { JournalReport } from './report.ts';
import type { Staging } from './staging.ts';

const readsAtOnce = 8;

type HeadOf<K extends Head['kind']> = Extract<Head, { kind: K }>;

/** A generation of a store that counts. */
export interface FoundJournal {
  store: RemoteStore;
  begin: HeadOf<'begin'>;
  report: JournalReport;
  /** The last of all generations in the store, whether they count or not. */
  lastGeneration: string;
}

/** The generation `wanted`, if the store has it, else the newest; undefined when there is none. */
export async function findJournal(
  store: RemoteStore,
  keyring: Keyring,
  wanted: string | undefined,
): Promise<FoundJournal | undefined> {
  const { generations, foreign } = await listGenerations(store);
  const damaged: string[] = [];
  const isThere = wanted !== undefined && generations.includes(wanted);
  const lastGeneration = generations.at(-1) ?? '';
  for (const generation of isThere ? [wanted] : generations.reverse()) {
    const report: JournalReport = {
      store: store.name,
      generation,
      lastSeq: -1,
      lastTime: '',
      earlierLosses: 0,
      segments: 0,
      snapshotPages: 0,
      damaged,
      missing: [],
      foreign,
    };
    const reading = { store, keyring, report };
    const marker = await readOf(reading, beginName, 'begin');
    if (marker) {
      // Others were without a marker: they were not meant to count yet.
      report.earlierLosses = marker.head.losses;
      return { store, begin: marker.head, report, lastGeneration };
    }
  }
  return undefined;
}

interface Reading {
  store: RemoteStore;
  keyring: Keyring;
  report: JournalReport;
}

/**
 * Takes all that the journal says into `staging`. Gives when the snapshot was begun that it starts
 * from, milliseconds; null: there is none, it starts with the first change.
 */
export async function replayJournal(reading: Reading, staging: Staging): Promise<number | null> {
  const { store, report } = reading;
  const files = await listGeneration(store, report.generation);
  report.foreign.push(...files.foreign);
  const snapshot = await openSnapshot(reading, files.snapshots);
  let lastTimeMs = snapshot?.timeMs ?? 0;
  if (snapshot) {
    report.lastSeq = snapshot.beginSeq - 1;
    report.snapshotPages = snapshot.pages;
    const pages = Array.from({ length: snapshot.pages }, (_, page) => page);
    await inParallel(pages, readsAtOnce, async (page) => {
      const object = await readOf(reading, pageName(snapshot.beginSeq, page), 'page');
      if (object) await staging.takeEntries(store.number, object.entries);
    });
  }
  const beginSeq = snapshot?.beginSeq ?? 0;
  const names = new Set(files.segments.map(({ name }) => name));
  const segments = files.segments.filter(({ lastSeq }) => lastSeq >= beginSeq);
  await inParallel(segments, readsAtOnce, async ({ name, sizeBytes, lastSeq }) => {
    const object = await readOf(reading, name, 'segment', sizeBytes);
    if (!object) return;
    const { previous, timeMs } = object.head;
    await staging.takeEntries(store.number, object.entries);
    report.segments++;
    report.lastSeq = Math.max(report.lastSeq, lastSeq);
    lastTimeMs = Math.max(lastTimeMs, timeMs);
    // What the snapshot tells as well may have been removed.
    const isNeeded = previous !== null && (lastSeqOf(previous) ?? beginSeq) >= beginSeq;
    if (isNeeded && !names.has(previous)) report.missing.push(nameIn(reading, previous));
  });
  report.lastTime = isoTime(lastTimeMs);
  return snapshot?.timeMs ?? null;
}

/** The newest snapshot that is complete; undefined: there is none. */
async function openSnapshot(
  reading: Reading,
  snapshots: readonly SnapshotFiles[],
): Promise<HeadOf<'complete'> | undefined> {
  for (const { beginSeq } of snapshots.filter((one) => one.isComplete).reverse()) {
    const object = await readOf(reading, completeName(beginSeq), 'complete');
    if (object) return object.head;
  }
  return undefined;
}

/** Undefined, and reported, when it is not there or not what it should be. */
async function readOf<K extends Head['kind']>(
  reading: Reading,
  name: string,
  kind: K,
  sizeBytes = 0,
): Promise<(JournalObject & { head: HeadOf<K> }) | undefined> {
  const { store, keyring, report } = reading;
  const shown = nameIn(reading, name);
  if (sizeBytes > objectBytesMax) {
    report.damaged.push(shown);
    return undefined;
  }
  try {
    const place = { generation: report.generation, name };
    const object = await readObject(store, keyring, place);
    if (!object) {
      report.missing.push(shown);
      return undefined;
    }
    if (object.head.kind === kind) return object as JournalObject & { head: HeadOf<K> };
  } catch (error) {
    if (!(error instanceof IntegrityError)) throw error;
  }
  report.damaged.push(shown);
  return undefined;
}

function nameIn({ report }: Reading, name: string): string {
  return objectName({ generation: report.generation, name });
}
