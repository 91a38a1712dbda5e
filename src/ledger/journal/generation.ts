// The journals in one store. A generation is all that one database has told its store; its name
// begins with the time, so that the newest sorts last. Invariant: a generation counts once its begin
// marker is there, which is written only when what belongs to it can be replayed.
import { randomBytes } from 'node:crypto';
import type { Keyring } from '../../core/keyring.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import {
  beginName,
  type Head,
  journalFolder,
  lastSeqOf,
  objectName,
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
export async function beginGeneration(options: {
  store: RemoteStore;
  keyring: Keyring;
  generation: string;
  /** Of the data folder. */
  instance: string;
}): Promise<void> {
  const { store, keyring, generation, instance } = options;
  const { number, name } = store;
  const head: Head = { kind: 'begin', store: number, name, instance, timeMs: Date.now() };
  const place = { generation, name: beginName };
  const sealed = sealObject(keyring, place, [JSON.stringify(head)]);
  await store.putObject(objectName(place), sealed, { ifAbsent: true });
}

/** What is there of a generation: segments and snapshots, each in order; foreign names left out. */
export async function listGeneration(
  store: RemoteStore,
  generation: string,
): Promise<{ segments: SegmentFile[]; snapshots: SnapshotFiles[] }> {
  const folder = `${journalFolder}${generation}/`;
  const segments: SegmentFile[] = [];
  const snapshots = new Map<number, SnapshotFiles>();
  for await (const { name: fullName, sizeBytes } of store.listObjects(folder)) {
    const name = fullName.slice(folder.length);
    const lastSeq = lastSeqOf(name);
    if (lastSeq !== null) segments.push({ name, lastSeq, sizeBytes });
    const part = snapshotOf(name);
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
  return { segments, snapshots: [...snapshots.values()] };
}
