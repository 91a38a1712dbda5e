// What tests of damaged data ask a gateway: the bytes that a client really gets, the record of its
// request, the counters, and what the verification finds.
import type { IncomingHttpHeaders } from 'node:http';
import { sleep } from './plain-start.ts';
import { S3Client, type Sending, type Target } from './s3-client.ts';

export interface Received {
  status: number;
  headers: IncomingHttpHeaders;
  bytes: Buffer;
  /** The connection ended before its Content-Length. */
  isCut: boolean;
}

/** All bytes that come, also when the connection breaks. */
export async function receive(
  client: S3Client,
  path: string,
  headers: Record<string, string> = {},
  method = 'GET',
): Promise<Received> {
  const response = await client.open(method, path, { headers });
  const pieces: Buffer[] = [];
  response.on('data', (piece: Buffer) => pieces.push(piece));
  const isCut = await new Promise<boolean>((resolve) => {
    response.once('end', () => resolve(false));
    response.once('error', () => resolve(true));
    response.once('close', () => resolve(!response.complete));
  });
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    bytes: Buffer.concat(pieces),
    isCut,
  };
}

export type LogRecord = Record<string, unknown>;

/** The records of one request, once there are any. */
export async function readRecords(client: S3Client, requestId: string): Promise<LogRecord[]> {
  for (let tries = 0; tries < 100; tries++) {
    const found = (await searchRecords(client)).filter((one) => one.requestId === requestId);
    if (found.length > 0) return found;
    await sleep(20);
  }
  throw new Error(`request ${requestId} has no record`);
}

/** All records of a gateway that has few. */
async function searchRecords(client: S3Client): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query: [string, string][] = [['limit', '1000']];
    if (cursor) query.push(['cursor', cursor]);
    const { body } = await client.send('GET', '/_/v1/records', { query });
    const page = JSON.parse(body.toString()) as { records: LogRecord[]; next: string | null };
    records.push(...page.records);
    cursor = page.next;
  }
  return records;
}

export type Failures = Record<string, Record<string, number>>;

/** The counters of `/_/v1/health`, by store and kind. */
export async function readFailures(client: S3Client): Promise<Failures> {
  const { body } = await client.send('GET', '/_/v1/health');
  return (JSON.parse(body.toString()) as { integrityFailures: Failures }).integrityFailures;
}

export interface Finding {
  tenant: string;
  bucket: string;
  key: string;
  seq: number | null;
  uploadId: string | null;
  partNumber: number | null;
  kind: string;
  message: string;
}

export interface Slice {
  cursor: string | null;
  versions: number;
  bytes: number;
  findings: Finding[];
  estimate: { versions: number; bytes: number } | null;
}

export interface Verification {
  slices: number;
  versions: number;
  bytes: number;
  findings: Finding[];
  requestIds: string[];
}

export async function postSlice(client: S3Client, body: object) {
  const sending: Sending = {
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify(body)),
  };
  return client.send('POST', '/_/v1/verifications', sending);
}

/** Verifies slice by slice to the end. */
export async function verifyAll(client: S3Client, scope: object = {}): Promise<Verification> {
  const all: Verification = { slices: 0, versions: 0, bytes: 0, findings: [], requestIds: [] };
  let cursor: string | undefined;
  do {
    const answer = await postSlice(client, { ...scope, cursor });
    if (answer.status !== 200)
      throw new Error(`a slice was answered ${answer.status}: ${answer.body}`);
    const slice = JSON.parse(answer.body.toString()) as Slice;
    all.slices++;
    all.versions += slice.versions;
    all.bytes += slice.bytes;
    all.findings.push(...slice.findings);
    all.requestIds.push(String(answer.headers['x-request-id'] ?? ''));
    cursor = slice.cursor ?? undefined;
  } while (cursor !== undefined);
  return all;
}

/** A client of a new tenant's admin. */
export async function makeTenant(operator: S3Client, target: Target, tenant: string) {
  const headers = { 'content-type': 'application/json' };
  const post = async (path: string, body: object): Promise<Buffer> => {
    const sending = { headers, body: Buffer.from(JSON.stringify(body)) };
    const answer = await operator.send('POST', `/_/v1/tenants${path}`, sending);
    if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${answer.body}`);
    return answer.body;
  };
  await post('', { name: tenant });
  await post(`/${tenant}/principals`, { name: 'boss', kind: 'person', role: 'admin' });
  const key = await post(`/${tenant}/principals/boss/access-keys`, {});
  return new S3Client({ endpoint: target.endpoint, ...JSON.parse(key.toString()) });
}
