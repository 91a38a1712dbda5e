// What is told to a target of a page of changes, as messages in S3's form, in the order of the log.
// Pure, but for what it asks of rights. Specification: "Event message structure" of the Amazon S3
// user guide, and the message of s3:TestEvent.
import type { ChangePage } from '../../audit/changes/change-log.ts';
import type { ObjectChange } from '../../audit/changes/object-change.ts';
import { ruleFits } from '../../catalog/notifications.ts';
import { isoTime } from '../../core/clock.ts';
import { Pace } from '../../core/pace.ts';
import { eventNameOf, renderEvent } from '../changes/s3-event.ts';
import type { BucketRules } from './bucket-rules.ts';

/** What one message tells. */
export interface Telling {
  /** Log indices of the changes in it; of a test the index of the change of configuration. */
  indices: readonly number[];
  body: string;
}

export interface TellingTerms {
  region: string;
  /** undefined: it is not told; else whether it says who made the change. */
  judge(bucket: BucketRules, change: ObjectChange): Promise<{ tellsWho: boolean } | undefined>;
  /** At most so many changes in one message. */
  recordsMax: number;
}

/** A queue takes 256 KiB. */
const bodyBytesMax = 200 * 1024;

/** What is told of the changes behind `after`, up to where the page goes. */
export async function tellingsOf(
  page: Pick<ChangePage, 'changes' | 'through'>,
  after: number,
  all: readonly BucketRules[],
  terms: TellingTerms,
): Promise<Telling[]> {
  const byBucket = new Map(all.map((one) => [one.bucket, one]));
  const tests = all
    .filter(({ since }) => since > after && since <= page.through)
    .sort((one, other) => one.since - other.since);
  const tellings: Telling[] = [];
  const batch = new Batch(terms.recordsMax, tellings);
  const pace = new Pace();
  for (const change of page.changes) {
    while (tests[0] && tests[0].since < change.index) batch.addTest(tests.shift() as BucketRules);
    const of = byBucket.get(change.bucket);
    const record = of && (await recordOf(change, of, terms));
    if (record) batch.add(change.index, record);
    await pace.rest();
  }
  for (const test of tests) batch.addTest(test);
  batch.end();
  return tellings;
}

async function recordOf(
  change: ObjectChange,
  of: BucketRules,
  { region, judge }: TellingTerms,
): Promise<string | undefined> {
  const eventName = eventNameOf(change);
  const rule = of.rules.find(
    (one) => one.since < change.index && ruleFits(one, eventName, change.key),
  );
  const judged = rule && (await judge(of, change));
  if (!judged) return undefined;
  const { bucket } = of;
  const terms = { region, bucket, configurationId: rule.id, ...judged };
  return JSON.stringify(renderEvent(change, terms));
}

class Batch {
  readonly #recordsMax: number;
  readonly #tellings: Telling[];
  #indices: number[] = [];
  #records: string[] = [];
  #bytes = 0;

  constructor(recordsMax: number, tellings: Telling[]) {
    this.#recordsMax = recordsMax;
    this.#tellings = tellings;
  }

  add(index: number, record: string): void {
    const bytes = Buffer.byteLength(record) + 1;
    const isFull = this.#records.length === this.#recordsMax || this.#bytes + bytes > bodyBytesMax;
    if (isFull) this.end();
    this.#indices.push(index);
    this.#records.push(record);
    this.#bytes += bytes;
  }

  /** Tests are messages of their own, in S3's form. */
  addTest({ bucket, since }: BucketRules): void {
    this.end();
    this.#tellings.push({ indices: [since], body: testBody(bucket, String(since)) });
  }

  end(): void {
    if (this.#records.length === 0) return;
    const body = `{"Records":[${this.#records.join(',')}]}`;
    this.#tellings.push({ indices: this.#indices, body });
    [this.#indices, this.#records, this.#bytes] = [[], [], 0];
  }
}

/** The message with which S3 tries whether a target is there. */
export function testBody(bucket: string, requestId: string): string {
  return JSON.stringify({
    ...{ Service: 'Amazon S3', Event: 's3:TestEvent', Time: isoTime(Date.now()) },
    ...{ Bucket: bucket, RequestId: requestId, HostId: 'bursar' },
  });
}
