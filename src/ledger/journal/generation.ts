// The journals in one store. A generation is all that one database has told its store; its name
// begins with the time, so that the newest sorts last. Invariants: a generation counts once its
// begin marker is there, which is written only when what belongs to it can be replayed; and only if
// the marker opens: names prove nothing, since whoever writes to the store's bucket can give any.
import { hash, randomBytes } from 'node:crypto';
import { IntegrityError } from '../../core/errors.ts';
import { inParallel } from '../../core/in-parallel.ts';
import type { Keyring } from '../../core/keyring.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import { askAgain } from '../../tiering/stores/store-meter.ts';
import {
  beginName,
  checkpointName,
  type Head,
  type JournalObject,
  journalFolder,
  lastSeqOf,
  objectBytesMax,
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

export type Opened<K extends Head['kind']> = JournalObject & { head: Extract<Head, { kind: K }> };

export const removalsAtOnce = 8;
/** Foreign names that are remembered: of more than that nobody reads the rest. */
export const foreignMax = 1000;
const readsAtOnce = 16;
/** Names of one generation after which its rest is passed over. */
const namesPassed = 1000;

/** A new generation's name; it sorts after those of earlier times. */
export function newGeneration(timeMs: number): string {
  return `${String(timeMs).padStart(15, '0')}-${randomBytes(4).toString('hex')}`;
}

/**
 * The time in a generation's name; null when it is no such name. It has 16 digits where 0.1.0 named
 * a journal after one of the last time that 15 digits have, which somebody had planted.
 */
export function generationTime(generation: string): number | null {
  const found = /^(\d{15}|[1-8]\d{15})-[0-9a-f]{8}$/.exec(generation);
  return found ? Number(found[1]) : null;
}

/** By time, then by name. */
export function compareGenerations(a: string, b: string): number {
  const byTime = (generationTime(a) ?? 0) - (generationTime(b) ?? 0);
  return byTime || (a < b ? -1 : Number(a > b));
}

interface Begin {
  generation: string;
  losses: number;
  /** BEGIN of the newest complete snapshot. */
  snapshot: number | null;
  /** Of the database that writes it. */
  instance: string;
}

/** What makes the generation count, sealed. */
export function sealBegin(store: RemoteStore, keyring: Keyring, begin: Begin): Buffer {
  const { generation, losses, snapshot, instance } = begin;
  const { number, name } = store;
  const head: Head = {
    kind: 'begin',
    store: number,
    name,
    losses,
    timeMs: Date.now(),
    snapshot,
    instance,
  };
  return sealObject(keyring, { generation, name: beginName }, [JSON.stringify(head)]);
}

/** Makes the generation count, as `sealed` says it. */
export async function markBegin(
  store: RemoteStore,
  generation: string,
  sealed: Buffer,
): Promise<void> {
  await store.putObject(objectName({ generation, name: beginName }), sealed);
}

/**
 * An object of the journal; undefined: it is not there. `'false'`: nobody with these keys has
 * written it there; or it is larger than any of ours, or the store refuses it and no other. Asked
 * for twice before that is said.
 */
export async function readObject<K extends Head['kind']>(
  store: RemoteStore,
  keyring: Keyring,
  place: Place,
  kind: K,
): Promise<Opened<K> | 'false' | undefined> {
  try {
    const object = await askAgain(store.meter, async () => {
      const bytes = await store.getObject(objectName(place));
      return bytes && openObject(keyring, place, bytes);
    });
    if (object && object.head.kind !== kind) return 'false';
    return object as Opened<K> | undefined;
  } catch (error) {
    if (error instanceof IntegrityError) return 'false';
    throw error;
  }
}

/**
 * Whether the store has an object of the journal as it was written. Asked twice before it has not.
 */
export async function isThere(
  store: RemoteStore,
  place: Place,
  digest: Uint8Array,
): Promise<boolean> {
  try {
    await askAgain(store.meter, async () => {
      const bytes = await store.getObject(objectName(place));
      if (bytes && hash('sha256', bytes, 'buffer').equals(digest)) return;
      throw new IntegrityError(`${objectName(place)} is not what was written`);
    });
    return true;
  } catch (error) {
    if (error instanceof IntegrityError) return false;
    throw error;
  }
}

export interface BegunGeneration {
  generation: string;
  begin: Opened<'begin'>;
}

/**
 * Generations whose marker does not open, or is of another store of the gateway, from which
 * somebody has copied it; the newest first, as `findNewestGeneration` meets them.
 */
export type OnFalseBegin = (generation: string, why: 'damaged' | 'otherStore') => void;

/**
 * The newest of these generations that counts; undefined: none does. `number`: the store's, for
 * which it was begun; null: any.
 */
export async function findNewestGeneration(
  store: RemoteStore,
  keyring: Keyring,
  generations: readonly string[],
  number: number | null,
  onFalseBegin: OnFalseBegin = () => {},
): Promise<BegunGeneration | undefined> {
  const newestFirst = [...generations].sort(compareGenerations).reverse();
  for (let at = 0; at < newestFirst.length; at += readsAtOnce) {
    const some = newestFirst.slice(at, at + readsAtOnce);
    const begins = await Promise.all(
      some.map((generation) => {
        const place = { generation, name: beginName };
        return readObject(store, keyring, place, 'begin');
      }),
    );
    for (const [index, begin] of begins.entries()) {
      const generation = some[index] as string;
      if (begin === 'false') onFalseBegin(generation, 'damaged');
      else if (begin && number !== null && begin.head.store !== number) {
        onFalseBegin(generation, 'otherStore');
      } else if (begin) return { generation, begin };
    }
  }
  return undefined;
}

/** What is there of a generation; segments and snapshots each in order. */
export interface GenerationFiles {
  segments: SegmentFile[];
  snapshots: SnapshotFiles[];
  /** Null: the list has no checkpoint of the log. */
  checkpointBytes: number | null;
  /**
   * Names that no gateway gives, the first of them; and what is too long to be one of its objects.
   */
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
  let checkpointBytes: number | null = null;
  for await (const { name: fullName, sizeBytes } of store.listObjects(folder)) {
    const name = fullName.slice(folder.length);
    const lastSeq = lastSeqOf(name);
    const part = snapshotOf(name);
    if (lastSeq !== null) segments.push({ name, lastSeq, sizeBytes });
    else if (name === checkpointName) checkpointBytes = sizeBytes;
    else if (!part && name !== beginName) noteForeign(foreign, fullName);
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
  return { segments, snapshots: [...snapshots.values()], checkpointBytes, foreign };
}

export function isTooLong(sizeBytes: number): boolean {
  return sizeBytes > objectBytesMax;
}

/** Adds a name, as long as there are few. */
export function noteForeign(foreign: string[], name: string): void {
  if (foreign.length < foreignMax) foreign.push(name);
}

/**
 * The generations in a store by name, whether they count or not; and the first foreign names. Those
 * `after` a generation alone, where one is given.
 */
export async function listGenerations(
  store: RemoteStore,
  after?: string,
): Promise<{ generations: string[]; foreign: string[] }> {
  const found = { generations: [] as string[], foreign: [] as string[] };
  let from: string | undefined = after && endOf(after);
  do from = await listSome(store, from, found);
  while (from !== undefined);
  return found;
}

/** Goes on behind a name; gives where to go on again, undefined at the end. */
async function listSome(
  store: RemoteStore,
  after: string | undefined,
  { generations, foreign }: { generations: string[]; foreign: string[] },
): Promise<string | undefined> {
  let passed = 0;
  for await (const { name } of store.listObjects(journalFolder, after)) {
    const [generation = ''] = name.slice(journalFolder.length).split('/');
    if (!name.startsWith(`${journalFolder}${generation}/`) || generationTime(generation) === null) {
      noteForeign(foreign, name);
    } else if (generation !== generations.at(-1)) {
      generations.push(generation);
      passed = 0;
    } else if (++passed === namesPassed) return endOf(generation);
  }
  return undefined;
}

/** What follows the slash sorts behind everything in the folder. */
function endOf(generation: string): string {
  return `${journalFolder}${generation}0`;
}

/**
 * Removes all generations before this one: what they tell is told by it. What cannot be removed
 * stays, and `onError` is told.
 */
export async function removeEarlierGenerations(
  store: RemoteStore,
  generation: string,
  onError: (error: unknown) => void,
): Promise<void> {
  const { generations } = await listGenerations(store);
  const remove = (name: string): Promise<void> => store.removeObject(name).catch(onError);
  for (const earlier of generations.filter((one) => compareGenerations(one, generation) < 0)) {
    // The marker goes first: what is left after a crash does not count.
    await remove(objectName({ generation: earlier, name: beginName }));
    const rest = store.listObjects(`${journalFolder}${earlier}/`);
    await inParallel(rest, removalsAtOnce, ({ name }) => remove(name));
  }
}
