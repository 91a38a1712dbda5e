// Holds a gateway's counters to its records and its listings: what the records add up to, account
// by account (src/quota/charge.ts says who is charged), and what listing every bucket adds up to.
import { parseUsd } from '#bursar/core/money.js';
import type { S3Client } from './s3-client.ts';

interface Counters {
  requests: number;
  /** Picodollars, which stay below 2^53 in a test. */
  spend: number;
  ingressBytes: number;
  egressBytes: number;
  storedBytes: number;
  storedObjects: number;
}

interface AccountCounters extends Omit<Counters, 'spend'> {
  account: string;
  /** USD, in decimal. */
  spend: string;
}

interface LogRecord extends Record<string, unknown> {
  index: number;
  requestId: string;
  action: string;
  tenant: string;
  principal: string;
  bucket?: string;
  bucketOwner?: string;
  /** Decimal USD; absent: nobody was charged. */
  cost?: string;
  /** Of the bucket, its owner and the owner's tenant only. */
  storageCost?: string;
  /** Absent: it was not charged as a request. */
  price?: string;
  bytesIn: number;
  bytesOut: number;
  storedBytes: number;
  storedObjects: number;
}

/** Adds up records as they come; the log only ever grows, so each is read once. */
export class RecordSum {
  readonly #accounts = new Map<string, Counters>();
  #lastIndex = -1;
  readonly gaps: string[] = [];

  get count(): number {
    return this.#lastIndex + 1;
  }

  /** Reads on to the record before `endIndex`. */
  async readTo(client: S3Client, endIndex: number): Promise<void> {
    while (this.#lastIndex < endIndex - 1) {
      const query: [string, string][] = [['limit', '1000']];
      if (this.#lastIndex >= 0) query.push(['cursor', String(this.#lastIndex)]);
      const answer = await client.send('GET', '/_/v1/records', { query });
      const { records } = JSON.parse(answer.body.toString()) as { records: LogRecord[] };
      if (records.length === 0) throw new Error(`no records after ${this.#lastIndex}`);
      for (const record of records) if (record.index < endIndex) this.#add(record);
    }
  }

  /** Accounts whose counters are not the sum of their records. */
  compare(usage: AccountCounters[]): string[] {
    const differing: string[] = [];
    const seen = new Set<string>();
    for (const { account, ...row } of usage) {
      const counted = { ...row, spend: Number(parseUsd(row.spend)) };
      seen.add(account);
      const summed = this.#accounts.get(account) ?? nothing();
      const names = Object.keys(summed) as (keyof Counters)[];
      for (const name of names) {
        if (counted[name] === summed[name]) continue;
        differing.push(`${account} ${name}: counted ${counted[name]}, records ${summed[name]}`);
      }
    }
    for (const account of this.#accounts.keys()) {
      if (!seen.has(account)) differing.push(`${account} has records and no counters`);
    }
    return differing;
  }

  #add(record: LogRecord): void {
    if (record.index !== this.#lastIndex + 1) {
      this.gaps.push(`record ${record.index} follows ${this.#lastIndex}`);
    }
    this.#lastIndex = record.index;
    const { tenant, principal, bucket, bucketOwner, cost, storedBytes, storedObjects } = record;
    if (cost === undefined) return;
    const moved = {
      ...nothing(),
      requests: record.price === undefined ? 0 : 1,
      spend: Number(parseUsd(cost)),
      ingressBytes: record.bytesIn,
      egressBytes: record.bytesOut,
    };
    const requester = `principal:${tenant}/${principal}`;
    // A bucket is charged from its creation on, which itself is charged to its maker alone.
    if (bucket === undefined || bucketOwner === undefined) {
      this.#post(requester, moved);
      this.#post(`tenant:${tenant}`, moved);
      return;
    }
    const owner = `principal:${tenant}/${bucketOwner}`;
    for (const account of [`bucket:${tenant}/${bucket}`, owner, `tenant:${tenant}`]) {
      const spend = moved.spend + Number(parseUsd(record.storageCost ?? '0'));
      this.#post(account, { ...moved, spend, storedBytes, storedObjects });
    }
    if (requester !== owner) this.#post(requester, moved);
  }

  #post(account: string, amounts: Counters): void {
    const sum = this.#accounts.get(account) ?? nothing();
    for (const name of Object.keys(sum) as (keyof Counters)[]) sum[name] += amounts[name];
    this.#accounts.set(account, sum);
  }
}

function nothing(): Counters {
  return {
    ...{ requests: 0, ingressBytes: 0, egressBytes: 0 },
    ...{ storedBytes: 0, storedObjects: 0, spend: 0 },
  };
}

/** Differences between counters and records of a gateway that nobody else is using. */
export async function compareCounters(client: S3Client, sum: RecordSum): Promise<string[]> {
  let differing: string[] = [];
  // Reads are recorded within 100 ms, so a record may fall between the two looks: then look again.
  for (let tries = 0; tries < 5; tries++) {
    const answer = await client.send('GET', '/_/v1/usage');
    const { usage } = JSON.parse(answer.body.toString());
    // The answer's own record is charged after the counters were read.
    await sum.readTo(client, Number(answer.headers['x-bursar-receipt']));
    differing = sum.compare(usage);
    if (differing.length === 0) break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return [...differing, ...sum.gaps];
}

export interface ListedUpload {
  key: string;
  id: string;
  /** Sizes of the parts, bytes, by number. */
  parts: Map<number, number>;
}

export interface ListedBucket {
  /** Sizes of the objects, bytes, by key. */
  objects: Map<string, number>;
  uploads: ListedUpload[];
}

/** Everything that listing shows of a bucket. */
export async function listBucket(client: S3Client, bucket: string): Promise<ListedBucket> {
  const objects = new Map<string, number>();
  for (let token = ''; ; ) {
    const query: [string, string][] = [['list-type', '2']];
    if (token) query.push(['continuation-token', token]);
    const page = (await client.send('GET', `/${bucket}`, { query })).body.toString();
    for (const [, entry] of page.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
      objects.set(textOf(entry, 'Key'), Number(textOf(entry, 'Size')));
    }
    token = textOf(page, 'NextContinuationToken');
    if (!token) break;
  }
  const query: [string, string][] = [['uploads', '']];
  const page = (await client.send('GET', `/${bucket}`, { query })).body.toString();
  const uploads = [];
  for (const [, entry] of page.matchAll(/<Upload>(.*?)<\/Upload>/gs)) {
    const [key, id] = [textOf(entry, 'Key'), textOf(entry, 'UploadId')];
    uploads.push({ key, id, parts: await listParts(client, `/${bucket}/${key}`, id) });
  }
  return { objects, uploads };
}

async function listParts(
  client: S3Client,
  path: string,
  uploadId: string,
): Promise<Map<number, number>> {
  const { body } = await client.send('GET', path, { query: [['uploadId', uploadId]] });
  const parts = body.toString().matchAll(/<Part>(.*?)<\/Part>/gs);
  return new Map(
    [...parts].map(([, part]) => [
      Number(textOf(part, 'PartNumber')),
      Number(textOf(part, 'Size')),
    ]),
  );
}

/** Listed bytes and objects against the bucket's counters. */
export async function compareListing(
  client: S3Client,
  bucket: string,
  listed: ListedBucket,
): Promise<string[]> {
  const answer = await client.send('GET', '/_/v1/usage');
  const { usage } = JSON.parse(answer.body.toString()) as { usage: AccountCounters[] };
  const counted = usage.find(({ account }) => account === `bucket:default/${bucket}`);
  if (!counted) return [`${bucket} has no counters`];
  const partBytes = listed.uploads.flatMap((upload) => [...upload.parts.values()]);
  const storedBytes = [...listed.objects.values(), ...partBytes].reduce((a, b) => a + b, 0);
  const differing = [];
  if (counted.storedBytes !== storedBytes) {
    differing.push(`${bucket} stores ${storedBytes} bytes, counted ${counted.storedBytes}`);
  }
  if (counted.storedObjects !== listed.objects.size) {
    differing.push(
      `${bucket} has ${listed.objects.size} objects, counted ${counted.storedObjects}`,
    );
  }
  return differing;
}

function textOf(xml: string | undefined, name: string): string {
  return new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml ?? '')?.[1] ?? '';
}
