// A small server of the test's own that speaks just enough S3, and breaks one promise when told to:
// real servers that do are known, but not at hand. Believes every signature.
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { crc32c } from '@node-rs/crc32';

export type Oddity =
  /** Takes If-None-Match and does as if it were not there. */
  | 'ignores conditions'
  /** Honours it, but looks and writes in two steps. */
  | 'loses races'
  /** Tells the losers of a race to try again. */
  | 'has conflicts'
  /** Says that it cannot do that. */
  | 'refuses conditions'
  /** Refuses, and writes all the same. */
  | 'overwrites'
  /** Answers with the whole object. */
  | 'ignores ranges'
  /** Ends a range one byte early, and says it did not. */
  | 'cuts ranges'
  | 'shifts ranges'
  | 'forgets bytes'
  | 'lists nothing'
  | 'keeps what is deleted'
  | 'denies writes'
  | 'denies deletes'
  | 'has no bucket'
  | 'is no S3 server'
  /** Gives extents a byte at a time. */
  | 'dribbles'
  /** Answers for extents with a 500 whose document goes on and on. */
  | 'complains without end'
  /** Refuses to give extents, as what somebody moved to an archive class, and serves all else. */
  | 'archives extents'
  /** Gives nothing any more, and says that it may not. */
  | 'denies reads'
  /** A page of its lists may be empty and not the last. */
  | 'has empty pages'
  /** Answers PUTs with an ETag that is no MD5, and without a checksum. */
  | 'proves nothing'
  /** Answers PUTs with an MD5, and knows no checksums. */
  | 'knows MD5s only'
  /** Sends checksums back as they came. */
  | 'echoes checksums'
  /** Says 200 to a DELETE, and keeps extents. */
  | 'deletes by word only'
  /** Its lists are of another prefix. */
  | 'lists elsewhere'
  /** Its lists have a name of another prefix. */
  | 'lists strangers'
  /** Its lists announce more names than they have. */
  | 'lists in part'
  /** Its lists have each name twice. */
  | 'lists twice'
  /** Each of its pages is followed by the same one. */
  | 'lists without end'
  /** Says that there is more, and not how to ask for it. */
  | 'breaks lists off';

export interface OddServer {
  endpoint: string;
  objects: Map<string, Buffer>;
  /** All If-None-Match headers that came. */
  conditions: number;
  /** GETs that came. */
  gets: number;
  /** The session token of the last request. */
  token: string | undefined;
  /** What the next GETs of extents are refused with. */
  refusals: string[];
  /** Session tokens that have ended. */
  ended: Set<string>;
  stop(): Promise<void>;
}

export async function startOddServer(oddity?: Oddity): Promise<OddServer> {
  const objects = new Map<string, Buffer>();
  const served: OddServer = {
    endpoint: '',
    objects,
    conditions: 0,
    gets: 0,
    token: undefined,
    ended: new Set(),
    refusals: [],
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  const server = createServer(async (request, response) => {
    const body: Buffer[] = [];
    for await (const chunk of request) body.push(chunk as Buffer);
    if (request.method === 'GET') served.gets++;
    if (request.headers['if-none-match'] !== undefined) served.conditions++;
    served.token = request.headers['x-amz-security-token']?.toString();
    if (served.token !== undefined && served.ended.has(served.token)) {
      refuse(response, 400, 'ExpiredToken');
      return;
    }
    const isExtent = request.method === 'GET' && request.url?.includes('/extents/');
    const refusal = isExtent ? served.refusals.shift() : undefined;
    if (refusal !== undefined) {
      refuse(response, 403, refusal);
      return;
    }
    await answer({ request, response, objects, oddity, body: Buffer.concat(body) });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  served.endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return served;
}

interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  objects: Map<string, Buffer>;
  oddity: Oddity | undefined;
  body: Buffer;
}

async function answer(exchange: Exchange): Promise<void> {
  const { request, response, objects, oddity } = exchange;
  const url = new URL(request.url ?? '', 'http://server');
  const name = decodeURIComponent(url.pathname);
  if (oddity === 'is no S3 server') return send(response, 404, '<html>Not Found</html>');
  if (oddity === 'has no bucket') return refuse(response, 404, 'NoSuchBucket');
  switch (request.method) {
    case 'PUT':
      return put(exchange, name);
    case 'DELETE':
      if (oddity === 'denies deletes') return refuse(response, 403, 'AccessDenied');
      if (oddity === 'deletes by word only') {
        if (!name.includes('/extents/')) objects.delete(name);
        return send(response, 200);
      }
      if (oddity !== 'keeps what is deleted') objects.delete(name);
      return send(response, 204);
    case 'GET':
      if (url.searchParams.has('list-type')) return list(exchange, url.searchParams);
      if (oddity === 'archives extents' && name.includes('/extents/')) {
        return refuse(response, 403, 'InvalidObjectState');
      }
      if (oddity === 'denies reads' && !name.includes('/probe/')) {
        return refuse(response, 403, 'AccessDenied');
      }
      return get(exchange, name);
    default:
      if (oddity === 'denies reads') return send(response, 403);
      return send(response, objects.has(name) ? 200 : 404);
  }
}

async function put({ request, response, objects, oddity, body }: Exchange, name: string) {
  if (oddity === 'denies writes') return refuse(response, 403, 'AccessDenied');
  const isConditional = request.headers['if-none-match'] === '*';
  if (isConditional && oddity === 'refuses conditions')
    return refuse(response, 501, 'NotImplemented');
  const proof = proofOf(body, oddity);
  const sent = request.headers['x-amz-checksum-crc32c'];
  if (oddity === 'echoes checksums' && sent !== undefined) {
    proof['x-amz-checksum-crc32c'] = String(sent);
  } else if (sent !== undefined && sent !== (proof['x-amz-checksum-crc32c'] ?? sent)) {
    return refuse(response, 400, 'BadDigest');
  }
  const exists = objects.has(name);
  if (isConditional && oddity === 'loses races') await new Promise((r) => setTimeout(r, 30));
  if (isConditional && oddity !== 'ignores conditions' && exists) {
    if (oddity === 'overwrites') objects.set(name, body);
    if (oddity === 'has conflicts' && name.includes('race')) {
      return refuse(response, 409, 'ConditionalRequestConflict');
    }
    return refuse(response, 412, 'PreconditionFailed');
  }
  objects.set(name, oddity === 'forgets bytes' ? Buffer.alloc(body.length) : body);
  send(response, 200, undefined, proof);
}

function proofOf(body: Buffer, oddity: Oddity | undefined): Record<string, string> {
  if (oddity === 'proves nothing' || oddity === 'echoes checksums') return { etag: '"etag"' };
  const proof: Record<string, string> = {
    etag: `"${createHash('md5').update(body).digest('hex')}"`,
  };
  if (oddity === 'knows MD5s only') return proof;
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32c(body));
  proof['x-amz-checksum-crc32c'] = checksum.toString('base64');
  return proof;
}

function get({ request, response, objects, oddity }: Exchange, name: string): void {
  const bytes = objects.get(name);
  if (oddity === 'complains without end' && name.includes('/extents/')) {
    response.writeHead(500, { 'content-type': 'application/xml' });
    drip(response, 'a'.repeat(16 * 1024));
    return;
  }
  const match = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
  if (!bytes) {
    refuse(response, 404, 'NoSuchKey');
  } else if (!match || oddity === 'ignores ranges') {
    send(response, 200, bytes, { etag: '"etag"' });
  } else {
    const [first, last] = [Number(match[1]), Number(match[2])];
    const shift = oddity === 'shifts ranges' ? 1 : 0;
    const end = last + 1 + shift - (oddity === 'cuts ranges' ? 1 : 0);
    const range = `bytes ${first}-${last}/${bytes.length}`;
    const headers = { etag: '"etag"', 'content-range': range };
    if (oddity === 'dribbles' && name.includes('/extents/')) {
      response.writeHead(206, { ...headers, 'content-length': last + 1 - first });
      drip(response, 'a');
      return;
    }
    send(response, 206, bytes.subarray(first + shift, end), headers);
  }
}

function drip(response: ServerResponse, text: string): void {
  const timer = setInterval(() => response.write(text), 10);
  response.once('close', () => clearInterval(timer));
}

function list({ response, objects, oddity }: Exchange, query: URLSearchParams): void {
  const prefix = query.get('prefix') ?? '';
  const isEncoded = query.get('encoding-type') === 'url';
  const contents = [...objects]
    .map(([name, bytes]) => ({ key: name.replace(/^\/bucket\//, ''), size: bytes.length }))
    .filter(({ key }) => key.startsWith(prefix) && oddity !== 'lists nothing')
    .map(({ key, size }) => {
      const shown = isEncoded ? encodeURIComponent(key).replaceAll('%20', '+') : key;
      return `<Contents><Key>${shown}</Key><Size>${size}</Size></Contents>`;
    });
  const isOfProbe = prefix.includes('/probe/');
  const does = (one: Oddity): boolean => oddity === one && !isOfProbe;
  const isEmptyPage = does('has empty pages') && !query.has('continuation-token');
  const isTruncated = isEmptyPage || does('breaks lists off') || does('lists without end');
  const hasToken = isEmptyPage || does('lists without end');
  const token = hasToken ? '<NextContinuationToken>on</NextContinuationToken>' : '';
  const shown = isEmptyPage || does('lists without end') ? [] : contents;
  if (does('lists twice')) shown.push(...contents);
  if (does('lists strangers')) {
    shown.push('<Contents><Key>zzz/stranger</Key><Size>1</Size></Contents>');
  }
  const head =
    `<Name>bucket</Name><Prefix>${does('lists elsewhere') ? 'elsewhere/' : prefix}</Prefix>` +
    `${isEncoded ? '<EncodingType>url</EncodingType>' : ''}` +
    `<KeyCount>${shown.length + (does('lists in part') ? 1 : 0)}</KeyCount>` +
    `<IsTruncated>${isTruncated}</IsTruncated>${token}`;
  const text = `<ListBucketResult>${head}${shown.join('')}</ListBucketResult>`;
  send(response, 200, text, { 'content-type': 'application/xml' });
}

function refuse(response: ServerResponse, status: number, code: string): void {
  const text = `<Error><Code>${code}</Code><Message>${code}</Message></Error>`;
  send(response, status, text, { 'content-type': 'application/xml' });
}

function send(
  response: ServerResponse,
  status: number,
  body: Buffer | string = '',
  headers: Record<string, string> = {},
): void {
  if (status === 204) response.writeHead(status, headers).end();
  else response.writeHead(status, { ...headers, 'content-length': body.length }).end(body);
}
