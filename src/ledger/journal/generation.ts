// The journals in one store. A generation is all that one database has told its store; its name
// begins with the time, so that the newest sorts last. Invariant: a generation counts once its
// begin marker is there, which is written only when what belongs to it can be replayed.
import { randomBytes } from 'node:crypto';
import { IntegrityError } from '../../core/errors.ts';
import { inParallel } from '../../core/in-parallel.ts';
import type { Keyring } from '../../core/keyring.ts';
import { askAgain } from '../../tiering/stores/asked-again.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import {
  beginName,
  type Head,
  type JournalObject,
  journalFolder,
  lastSeqOf,
  objectName,
  openObject,
  type Place,
  sealObject,
  snapshotOf,
} from './format.ts';

export interface SegmentFile {
  name: string;
  lastSeq: number;
  sizeBytes: number;
}

export interface SnapshotFiles {
  beginSeq: number;
  isComplete: boolean;
  sizeBytes: number;
  names: string[];
}

export const removalsAtOnce = 8;

/** A new generation's name; it sorts after those of earlier times. */
export function newGeneration(timeMs: number): string {
  return `${String(timeMs).padStart(15, '0')}-${randomBytes(4).toString('hex')}`;
}

/** The time in a generation's name; null when it is no such name. */
export function generationTime(generation: string): number | null {
  const found = /^(\d{15})-[0-9a-f]{8}$/.exec(generation);
  return found ? Number(found[1]) : null;
}

/** Makes the generation count. */
export async function markBegin(options: {
  store: RemoteStore;
  keyring: Keyring;
  generation: string;
  losses: number;
}): Promise<void> {
  const { store, keyring, generation, losses } = options;
  const { number, name } = store;
  const head: Head = { kind: 'begin', store: number, name, losses, timeMs: Date.now() };
  const place = { generation, name: beginName };
  const sealed = sealObject(keyring, place, [JSON.stringify(head)]);
  if ((await store.putObject(objectName(place), sealed, { ifAbsent: true })) === 'stored') return;
  // What somebody without the keys has put under this generation's name says nothing.
  if (!(await isBegun(store, keyring, generation))) {
    await store.putObject(objectName(place), sealed);
  }
}

/**
 * The newest generation that counts; undefined: there is none. What somebody without the keys has
 * put there does not count.
 */
export async function findNewestGeneration(
  store: RemoteStore,
  keyring: Keyring,
): Promise<string | undefined> {
  const { generations } = await listGenerations(store);
  for (const generation of generations.reverse()) {
    if (await isBegun(store, keyring, generation)) return generation;
  }
  return undefined;
}

async function isBegun(store: RemoteStore, keyring: Keyring, generation: string): Promise<boolean> {
  try {
    const begin = await readObject(store, keyring, { generation, name: beginName });
    return begin?.head.kind === 'begin';
  } catch (error) {
    if (error instanceof IntegrityError) return false;
    throw error;
  }
}

/**
 * An object of a journal, asked for twice where it is not what a gateway with these keys put there:
 * then IntegrityError. undefined: there is none.
 */
export function readObject(
  store: RemoteStore,
  keyring: Keyring,
  place: Place,
): Promise<JournalObject | undefined> {
  return askAgain(store.meter, async () => {
    const bytes = await store.getObject(objectName(place));
    return bytes && openObject(keyring, place, bytes);
  });
}

/** What is there of a generation; segments and snapshots each in order. */
export interface GenerationFiles {
  segments: SegmentFile[];
  snapshots: SnapshotFiles[];
  /** Names that no gateway gives. */
  foreign: string[];
}

export async function listGeneration(
  store: RemoteStore,
  generation: string,
): Promise<GenerationFiles> {
  const folder = `${journalFolder}${generation}/`;
  const segments: SegmentFile[] = [];
  const foreign: string[] = [];
  const snapshots = new Map<number, SnapshotFiles>();
  for await (const { name: fullName, sizeBytes } of store.listObjects(folder)) {
    const name = fullName.slice(folder.length);
    const lastSeq = lastSeqOf(name);
    const part = snapshotOf(name);
    if (lastSeq !== null) segments.push({ name, lastSeq, sizeBytes });
    else if (!part && name !== beginName) foreign.push(fullName);
    if (!part) continue;
    const { beginSeq, isComplete } = part;
    const snapshot = snapshots.get(beginSeq) ?? {
      beginSeq,
      isComplete: false,
      sizeBytes: 0,
      names: [],
    };
    snapshot.isComplete ||= isComplete;
    snapshot.sizeBytes += sizeBytes;
    snapshot.names.push(name);
    snapshots.set(beginSeq, snapshot);
  }
  return { segments, snapshots: [...snapshots.values()], foreign };
}

/** The generations in a store, in order of time, whether they count or not; and foreign names. */
export async function listGenerations(
  store: RemoteStore,
): Promise<{ generations: string[]; foreign: string[] }> {
  const generations: string[] = [];
  const foreign: string[] = [];
  for (let after: string | undefined; ; ) {
    const name = await firstName(store, after);
    if (name === undefined) return { generations, foreign };
    const [generation = ''] = name.slice(journalFolder.length).split('/');
    if (!name.startsWith(`${journalFolder}${generation}/`) || !generationTime(generation)) {
      foreign.push(name);
      after = name;
      continue;
    }
    generations.push(generation);
    // What follows the slash sorts behind everything in the folder.
    after = `${journalFolder}${generation}0`;
  }
}

async function firstName(store: RemoteStore, after?: string): Promise<string | undefined> {
  for await (const { name } of store.listObjects(journalFolder, after)) return name;
  return undefined;
}

/** Removes all generations before this one: what they tell is told by it. */
export async function removeEarlierGenerations(
  store: RemoteStore,
  generation: string,
): Promise<void> {
  const { generations } = await listGenerations(store);
  for (const earlier of generations.filter((one) => one < generation)) {
    // The marker goes first: what is left after a crash does not count.
    await store.removeObject(objectName({ generation: earlier, name: beginName }));
    const rest = store.listObjects(`${journalFolder}${earlier}/`);
    await inParallel(rest, removalsAtOnce, ({ name }) => store.removeObject(name));
  }
}
