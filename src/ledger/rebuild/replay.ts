// Reads a store's journal back (docs/formats/journal.md). Objects may come in any order, since the
// newest of what is said of a key wins. Invariant: nothing is taken from an object that is not
// authentic, or not what its name says; each such one is reported.
import { isoTime } from '../../core/clock.ts';
import { inParallel } from '../../core/in-parallel.ts';
import type { Keyring } from '../../core/keyring.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import {
  beginName,
  completeName,
  firstSeqOf,
  type Head,
  lastSeqOf,
  objectName,
  pageName,
  snapshotOf,
} from '../journal/format.ts';
import {
  findNewestGeneration,
  isTooLong,
  listGeneration,
  listGenerations,
  noteForeign,
  type Opened,
  readObject as readJournalObject,
  type SnapshotFiles,
} from '../journal/generation.ts';
import type { IdentityEntry, StrangeEntry } from '../journal/identity-format.ts';
import type { KeptEntry } from '../journal/kept-format.ts';
import { type JournalReport, newJournalReport } from './report.ts';
import type { Hole, ToldIdentities } from './staged-identities.ts';
import type { Staging } from './staging.ts';

/** Objects of a generation that are tried before it is taken for made up. */
const witnessesMax = 100;
const readsAtOnce = 8;

type HeadOf<K extends Head['kind']> = Extract<Head, { kind: K }>;

/** A generation of a store that counts. */
export interface FoundJournal {
  store: RemoteStore;
  begin: HeadOf<'begin'>;
  report: JournalReport;
  /** The newest in the store that counts. */
  newestGeneration: string;
}

/**
 * The generation `wanted`, if the store has it, else the newest; undefined when there is none.
 * `number`: as the mark of its owner says; null: it has none.
 */
export async function findJournal(
  { store, keyring, number }: { store: RemoteStore; keyring: Keyring; number: number | null },
  wanted: string | undefined,
): Promise<FoundJournal | undefined> {
  const { generations, foreign } = await listGenerations(store);
  const falseBegins: string[] = [];
  const newest = await findNewestGeneration(store, keyring, generations, number, (one, why) => {
    if (why === 'damaged') noteForeign(falseBegins, one);
    else noteForeign(foreign, objectName({ generation: one, name: beginName }));
  });
  const isThere = wanted !== undefined && generations.includes(wanted);
  const found = isThere ? await findNewestGeneration(store, keyring, [wanted], number) : newest;
  if (!found) return undefined;
  const { generation, begin } = found;
  const report: JournalReport = {
    ...newJournalReport(store.name, generation),
    earlierLosses: begin.head.losses,
    foreign,
  };
  for (const one of falseBegins) {
    const isOurs = await isWritten(store, keyring, one);
    noteForeign(
      isOurs ? report.damaged : foreign,
      objectName({ generation: one, name: beginName }),
    );
  }
  const newestGeneration = newest?.generation ?? generation;
  return { store, begin: begin.head, report, newestGeneration };
}

/**
 * Whether anything in a generation was written by a gateway with these keys: then its marker was,
 * too, and is damaged. Where nothing was, somebody has made the name up.
 */
async function isWritten(
  store: RemoteStore,
  keyring: Keyring,
  generation: string,
): Promise<boolean> {
  const { segments, snapshots } = await listGeneration(store, generation);
  const names = [
    ...segments.map(({ name }) => [name, 'segment'] as const),
    ...snapshots.flatMap((one) => one.names.map((name) => [name, kindOf(name)] as const)),
  ];
  for (const [name, kind] of names.slice(0, witnessesMax)) {
    const object = await readJournalObject(store, keyring, { generation, name }, kind);
    if (object && object !== 'false') return true;
  }
  return false;
}

function kindOf(name: string): 'page' | 'complete' {
  return snapshotOf(name)?.isComplete ? 'complete' : 'page';
}

interface Reading {
  store: RemoteStore;
  keyring: Keyring;
  report: JournalReport;
}

/** What is known of a journal that was read. */
interface Replayed {
  /**
   * When the snapshot was begun that it starts from, milliseconds; null: there is none, it starts
   * with the first change.
   */
  snapshotMs: number | null;
  /**
   * Its BEGIN; 0: there is none. What was there then and is not told since is not there any more.
   */
  snapshotSeq: number;
  identities: ToldIdentities;
}

/**
 * Takes all that the journal says into `staging`. `revocationsAlone`: it is of another database
 * than the one by whose journals identities are restored.
 */
export async function replayJournal(
  reading: Reading & {
    begin: HeadOf<'begin'>;
    revocationsAlone: boolean;
    /** What the database has written of it that replays it; none: another one wrote it. */
    written?: readonly WrittenObject[] | undefined;
  },
  staging: Staging,
): Promise<Replayed> {
  const { store, report, begin, revocationsAlone, written = [] } = reading;
  // An earlier journal than the newest.
  const isOutdated = report.damaged.length > 0;
  let strange = 0;
  const takeHead = async ({
    identities = [],
    kept = [],
  }: {
    identities?: Told[];
    kept?: KeptEntry[];
  }): Promise<void> => {
    await staging.kept.take(kept);
    strange += await staging.identities.take(identities, { revocationsAlone });
  };
  const files = await listGeneration(store, report.generation);
  for (const name of files.foreign) noteForeign(report.foreign, name);
  const known = written.map(({ name }) => snapshotOf(name)?.beginSeq ?? -1);
  const snapshotSeq = Math.max(begin.snapshot ?? -1, ...known);
  const { snapshot, passedOver } = await openSnapshot(reading, snapshotSeq, files.snapshots);
  const beginSeq = snapshot?.beginSeq ?? 0;
  const chain = new Chain(beginSeq);
  chain.expect(snapshotSeq);
  for (const { name, lastSeq } of written) if (lastSeq !== null) chain.wrote(name, lastSeq);
  let lastTimeMs = snapshot?.timeMs ?? 0;
  let isSnapshotWhole = true;
  if (snapshot) {
    report.lastSeq = snapshot.beginSeq - 1;
    report.snapshotPages = snapshot.pages;
    const pages = Array.from({ length: snapshot.pages }, (_, page) => page);
    await inParallel(pages, readsAtOnce, async (page) => {
      const name = pageName(snapshot.beginSeq, page);
      const object = await readNeeded(reading, name, 'page');
      if (!object) isSnapshotWhole = false;
      if (object) await takeHead(object.head);
      if (object) await staging.takeEntries(store.number, object.entries);
    });
  }
  const segments = files.segments.filter(({ lastSeq }) => lastSeq >= beginSeq);
  const take = async (name: string): Promise<boolean> => {
    const object = await read(reading, name, 'segment');
    if (object === 'false') chain.passOver(name);
    if (!object || object === 'false') return false;
    await takeHead(object.head);
    await staging.takeEntries(store.number, object.entries);
    report.segments++;
    report.lastSeq = Math.max(report.lastSeq, object.head.lastSeq);
    lastTimeMs = Math.max(lastTimeMs, object.head.timeMs);
    chain.add(name, object.head);
    return true;
  };
  await inParallel(segments, readsAtOnce, async ({ name, sizeBytes }) => {
    if (isTooLong(sizeBytes)) chain.passOver(name);
    else await take(name);
  });
  // What is not listed may be there all the same, and name another one.
  const asked = new Set(segments.map(({ name }) => name));
  for (let name = nextOf(chain, asked); name; name = nextOf(chain, asked)) {
    asked.add(name);
    if (await take(name)) noteForeign(report.unlisted, nameIn(reading, name));
  }
  for (const name of passedOver) chain.passOver(name);
  const { missing, damaged, foreign } = chain.judge();
  const tell = (list: string[], names: string[]): void => {
    for (const name of names) noteForeign(list, nameIn(reading, name));
  };
  tell(report.missing, missing);
  tell(report.damaged, damaged);
  tell(report.foreign, foreign);
  report.lastTime = isoTime(lastTimeMs);
  const tells = snapshot?.tells ?? null;
  const isTold = tells !== null && isSnapshotWhole;
  const holes = [...missing, ...damaged].map(holeOf);
  if (!isTold) holes.push({ firstSeq: 0, lastSeq: snapshot ? beginSeq - 1 : report.lastSeq });
  if (isOutdated) holes.push({ firstSeq: 0, lastSeq: Number.MAX_SAFE_INTEGER });
  const { lastSeq } = report;
  const floorSeq = isTold ? beginSeq : 0;
  return {
    snapshotMs: snapshot?.timeMs ?? null,
    snapshotSeq: isSnapshotWhole ? beginSeq : 0,
    identities: { lastSeq, holes, floorSeq, tells, strange },
  };
}

type Told = IdentityEntry | StrangeEntry;

/** An object of a journal; `lastSeq` null: it is no segment. */
export interface WrittenObject {
  name: string;
  lastSeq: number | null;
}

/** What a segment, or what completes a snapshot, tells of. */
function holeOf(name: string): Hole {
  const lastSeq = lastSeqOf(name) ?? (snapshotOf(name)?.beginSeq ?? Number.MAX_SAFE_INTEGER) - 1;
  return { firstSeq: firstSeqOf(name) ?? 0, lastSeq };
}

/** A segment that another one names and that was not asked for yet. */
function nextOf(chain: Chain, asked: ReadonlySet<string>): string | undefined {
  return chain.judge().missing.find((name) => lastSeqOf(name) !== null && !asked.has(name));
}

/**
 * The newest snapshot that is complete, listed or known otherwise (`knownSeq`, -1: none is), and
 * the names of newer ones that say so and do not open.
 */
async function openSnapshot(
  reading: Reading,
  knownSeq: number,
  snapshots: readonly SnapshotFiles[],
): Promise<{ snapshot?: HeadOf<'complete'>; passedOver: string[] }> {
  const passedOver: string[] = [];
  const listed = snapshots.filter((one) => one.isComplete).map(({ beginSeq }) => beginSeq);
  const beginSeqs = new Set(listed);
  if (knownSeq >= 0) beginSeqs.add(knownSeq);
  for (const beginSeq of [...beginSeqs].sort((a, b) => b - a)) {
    const name = completeName(beginSeq);
    const object = await read(reading, name, 'complete');
    const isListed = listed.includes(beginSeq);
    if (object && object !== 'false') {
      if (!isListed) noteForeign(reading.report.unlisted, nameIn(reading, name));
      return { snapshot: object.head, passedOver };
    }
    if (isListed || object) noteForeign(passedOver, name);
  }
  return { passedOver };
}

function read<K extends Head['kind']>({ store, keyring, report }: Reading, name: string, kind: K) {
  return readJournalObject(store, keyring, { generation: report.generation, name }, kind);
}

/**
 * What another object names; undefined, and reported, when it is not there or not what it should
 * be.
 */
async function readNeeded<K extends Head['kind']>(
  reading: Reading,
  name: string,
  kind: K,
): Promise<Opened<K> | undefined> {
  const object = await read(reading, name, kind);
  if (object && object !== 'false') return object;
  const { damaged, missing } = reading.report;
  noteForeign(object === 'false' ? damaged : missing, nameIn(reading, name));
  return undefined;
}

function nameIn({ report }: Reading, name: string): string {
  return objectName({ generation: report.generation, name });
}

// How the segments of a journal hang together: each names the one before it, and the newest
// snapshot that was complete when it was written. So what is not there is known by what is, but for
// the end; and that by a database which lists what it wrote, up to then. Invariants: nothing that
// an authentic object names can be gone unnoticed; and what does not open counts as damaged only
// where it can be one of ours: a name alone is anybody's.

type SegmentHead = Extract<Head, { kind: 'segment' }>;

class Chain {
  /** Of the snapshot that the journal starts from; 0: there is none. */
  readonly #beginSeq: number;
  readonly #segments = new Set<string>();
  /** Segments that others name, not told by the snapshot. */
  readonly #named = new Set<string>();
  readonly #passedOver: string[] = [];
  #lastSeq: number;
  #snapshot = -1;

  constructor(beginSeq: number) {
    this.#beginSeq = beginSeq;
    this.#lastSeq = beginSeq - 1;
  }

  /** There was a complete snapshot of this BEGIN; what 0.1.0 wrote does not say so. */
  expect(snapshot: number | null | undefined): void {
    this.#snapshot = Math.max(this.#snapshot, snapshot ?? -1);
  }

  /** A segment that was written, as a database says that wrote it. */
  wrote(name: string, lastSeq: number): void {
    // What the snapshot tells as well may have been removed.
    if (lastSeq >= this.#beginSeq) this.#named.add(name);
  }

  /** A segment that opens. */
  add(name: string, { previous, lastSeq, snapshot }: SegmentHead): void {
    this.#segments.add(name);
    this.#lastSeq = Math.max(this.#lastSeq, lastSeq);
    this.expect(snapshot);
    if (previous !== null) this.wrote(previous, lastSeqOf(previous) ?? Infinity);
  }

  /** A segment, or what completes a snapshot, that is there and does not open. */
  passOver(name: string): void {
    this.#passedOver.push(name);
  }

  /** Once all was added. */
  judge(): { missing: string[]; damaged: string[]; foreign: string[] } {
    const wanted = new Set([...this.#named].filter((name) => !this.#segments.has(name)));
    if (this.#snapshot > this.#beginSeq) wanted.add(completeName(this.#snapshot));
    const damaged = new Set<string>();
    const foreign: string[] = [];
    for (const name of this.#passedOver) {
      if (wanted.has(name) || this.#isBehind(name)) damaged.add(name);
      else foreign.push(name);
    }
    const missing = [...wanted].filter((name) => !damaged.has(name));
    return { missing, damaged: [...damaged], foreign };
  }

  /** What would tell of changes that no other object tells: it may be the end of the journal. */
  #isBehind(name: string): boolean {
    const toldSeq = lastSeqOf(name) ?? (snapshotOf(name)?.beginSeq ?? 0) - 1;
    return toldSeq > this.#lastSeq;
  }
}
