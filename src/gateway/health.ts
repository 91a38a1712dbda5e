// Whether the gateway can do what it is for: facts about its parts, made into what load balancers
// and people are told. Invariants: reads and writes are called possible only where they were seen
// to be, or were tried; what is wrong is said in words that tell strangers no number, place or
// tenant; and a store that is away concerns its own buckets, so it counts against the whole only
// when no other has any. docs/decisions/0069-health.md.

/** A store that buckets are in, or that new ones go to. */
export interface StoreFacts {
  name: string;
  canRead: boolean;
  canWrite: boolean;
  /** Its disk has less room left than is to be kept free. */
  isNearlyFull: boolean;
}

export interface HealthFacts {
  /** A signal has asked it to stop. */
  isStopping: boolean;
  /** The ledger has answered what it was given, or has not had it for long. */
  isLedgerAlive: boolean;
  /** So many reads wait to be recorded that each further one waits for that too. */
  areReadsHeld: boolean;
  database: { canRead: boolean; canWrite: boolean; isNearlyFull: boolean };
  isLogSigned: boolean;
  isClockFollowed: boolean;
  /** Those that are to be made by themselves; true also where none are. */
  areBackupsMade: boolean;
  /** What was committed gets to the place of backups soon; true also where it is not to. */
  areChangesShipped: boolean;
  stores: readonly StoreFacts[];
  /** The last verification of who may what has come to its end. */
  areRightsVerified: boolean;
  /** Nothing that was read since the start was found damaged. */
  isUndamaged: boolean;
}

/** What is told to everybody. */
export interface Health {
  reads: boolean;
  writes: boolean;
  /** What is wrong, in words; also what stops nothing. */
  problems: string[];
}

/** What a problem stops. */
type Stops = 'all' | 'writes' | 'nothing';

export function judge(facts: HealthFacts): Health {
  const found = [...problemsOf(facts)];
  const stops = new Set(found.map(([what]) => what));
  return {
    reads: !stops.has('all'),
    writes: !stops.has('all') && !stops.has('writes'),
    problems: found.map(([, words]) => words),
  };
}

function* problemsOf(facts: HealthFacts): Generator<readonly [Stops, string]> {
  const { database, stores } = facts;
  if (facts.isStopping) yield ['all', 'The gateway is stopping.'];
  if (!facts.isLedgerAlive) yield ['writes', 'The ledger does not answer.'];
  if (facts.areReadsHeld) yield ['all', 'Reads wait to be recorded.'];
  if (!database.canRead) yield ['all', 'The database cannot be read.'];
  if (!database.canWrite) yield ['writes', 'The database cannot be written.'];
  if (database.isNearlyFull) yield ['writes', 'The disk of the database is nearly full.'];
  if (!facts.isLogSigned) yield ['writes', 'The log is not signed.'];
  for (const store of stores) {
    if (!store.canRead) yield ['nothing', `The store ${store.name} is not available.`];
    else if (store.isNearlyFull)
      yield ['nothing', `The disk of the store ${store.name} is nearly full.`];
    else if (!store.canWrite) yield ['nothing', `The store ${store.name} cannot be written.`];
  }
  if (!stores.some((one) => one.canRead)) yield ['all', 'No store is available.'];
  else if (!stores.some((one) => one.canWrite && !one.isNearlyFull)) {
    yield ['writes', 'No store can be written.'];
  }
  if (!facts.isClockFollowed) yield ['nothing', 'The clock has stepped, and is not followed.'];
  if (!facts.areBackupsMade) yield ['nothing', 'No backup was made in time.'];
  if (!facts.areChangesShipped) yield ['nothing', 'Changes are not shipped in time.'];
  if (!facts.areRightsVerified) yield ['nothing', 'Rights could not be verified.'];
  if (!facts.isUndamaged) yield ['nothing', 'Stored data was found damaged.'];
}
