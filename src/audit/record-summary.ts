// Records added up for who does not read them one by one: who did what, was charged what, was
// refused what, and what was changed of rights and settings. Pure. Invariant: memory does not grow
// with the records: what is beyond the most of a list is added up in one line of its own.
import type { Picodollars } from '../core/money.ts';
import type { AuditRecord } from './verify/opening.ts';

/** What is told of some records together. */
export interface Told {
  /** Reads that were folded into one record count one by one. */
  operations: number;
  refused: number;
  bytesIn: number;
  bytesOut: number;
  /** Of requests, and of storage by time, what the account of the summary was charged. */
  charged: Picodollars;
  /** Log indexes and times of the first and the last. */
  firstIndex: number;
  lastIndex: number;
  firstTime: string;
  lastTime: string;
}

/** A change that was made, not one that was refused. */
export interface ToldChange {
  index: number;
  time: string;
  who: string;
  action: string;
  about: string;
}

/** What is told of a bucket, for what is about none. */
export const noBucket = '(no bucket)';
/** The most lines of a list. */
const linesMax = 2000;
/** What is beyond them is under this name, which no principal, bucket or action has. */
export const others = '(others)';

export class RecordSummary {
  records = 0;
  readonly whole: Told = nothingTold();
  /** By `tenant/principal`. */
  readonly byPrincipal = new Map<string, Told>();
  /** By principal and action, joined by a line end. */
  readonly byAction = new Map<string, Told>();
  /** Of what was refused, by principal, action and error, joined by line ends. */
  readonly refusals = new Map<string, Told>();
  /** By `tenant:bucket`; charges of what is about none are under `noBucket`. */
  readonly byBucket = new Map<string, Told>();
  /** By day of UTC. */
  readonly byDay = new Map<string, Told>();
  readonly changes: ToldChange[] = [];
  /** How many there are besides. */
  changesLeftOut = 0;
  /** How many records have evidence of each kind. */
  readonly evidence = new Map<string, number>();

  /** `charged`: what the record charged to the account whose charges are told. */
  add(given: AuditRecord, charged: Picodollars): void {
    const { tenant, principal, action, error, bucket, time } = given;
    const record = { ...given, charged };
    this.records += 1;
    this.evidence.set(record.evidence, (this.evidence.get(record.evidence) ?? 0) + 1);
    const who = `${tenant}/${principal}`;
    note(this.whole, record);
    noteIn(this.byPrincipal, [who], record);
    noteIn(this.byAction, [who, action], record);
    if (error !== undefined) noteIn(this.refusals, [who, action, error], record);
    if (bucket !== undefined) noteIn(this.byBucket, [bucketOf(record)], record);
    else if (record.charged !== 0n) noteIn(this.byBucket, [noBucket], record);
    noteIn(this.byDay, [time.slice(0, 10)], record);
    if (isChange(record)) this.#noteChange(record, who);
  }

  #noteChange(record: AuditRecord, who: string): void {
    const { index, time, action, target, bucket } = record;
    const about = target ?? (bucket === undefined ? '' : bucketOf(record));
    if (this.changes.length < linesMax) this.changes.push({ index, time, who, action, about });
    else this.changesLeftOut += 1;
  }
}

function bucketOf({ tenant, bucketTenant = tenant, bucket }: AuditRecord): string {
  return `${bucketTenant}:${bucket}`;
}

/** What was changed is told by members of the record, whatever the action is called. */
function isChange({ error, change, limits, configures }: AuditRecord): boolean {
  if (error !== undefined) return false;
  return hasRights(change) || limits !== undefined || configures !== undefined;
}

/** What a copy was made of is data, no right or setting. */
function hasRights(change: AuditRecord['change']): boolean {
  return change !== undefined && Object.keys(change ?? {}).join() !== 'source';
}

function nothingTold(): Told {
  return {
    ...{ operations: 0, refused: 0, bytesIn: 0, bytesOut: 0, charged: 0n },
    ...{ firstIndex: -1, lastIndex: -1, firstTime: '', lastTime: '' },
  };
}

type Noted = AuditRecord & { charged: Picodollars };

function noteIn(list: Map<string, Told>, names: readonly string[], record: Noted): void {
  const name = names.join('\n');
  let told = list.get(name);
  if (!told) {
    const isFull = list.size >= linesMax;
    const line = isFull ? names.map(() => others).join('\n') : name;
    told = list.get(line) ?? nothingTold();
    list.set(line, told);
  }
  note(told, record);
}

function note(told: Told, record: Noted): void {
  const { index, time, error, bytesIn } = record;
  const operations = countOf(record.reads) ?? 1;
  told.operations += operations;
  if (error !== undefined) told.refused += operations;
  told.bytesIn += bytesIn;
  told.bytesOut += countOf(record.bytesOut) ?? 0;
  told.charged += record.charged;
  if (told.firstIndex < 0) {
    told.firstIndex = index;
    told.firstTime = time;
  }
  told.lastIndex = index;
  told.lastTime = time;
}

function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}
