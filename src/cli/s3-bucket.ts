// What commands ask of one bucket by S3: listings, and requests that are asked again where the
// gateway is busy or could not be reached.
import { hash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { percentEncode } from '../core/canonical-request.ts';
import { emptySha256, signRequest } from '../core/sigv4.ts';
import { childOf, parseXml, textOf } from '../gateway/http/xml.ts';
import {
  begin,
  type Connection,
  type Exchanged,
  exchange,
  reach,
  S3Refusal,
} from './api-client.ts';

export type S3Connection = Connection & { s3Endpoint: string };

export interface ListedObject {
  key: string;
  sizeBytes: number;
  etag: string;
  class: string;
}

/** Or a delete marker. */
interface ListedVersion {
  key: string;
  versionId: string;
}

interface Asked {
  query?: [string, string][];
  headers?: Record<string, string>;
  body?: string | undefined;
  /** Of a body that is sent otherwise, hex. */
  sha256?: string;
}

const triesMax = 6;
/** What the gateway does with an upload before it answers may take as long as the upload. */
const uploadSilenceMsMax = 60 * 60_000;

export class S3Bucket {
  readonly #connection: S3Connection;
  readonly name: string;

  /** `name`: as S3 clients write it, `raw` or `cms:raw`. */
  constructor(connection: S3Connection, name: string) {
    this.#connection = connection;
    this.name = name;
  }

  /** In the order of the keys' UTF-8 bytes. Rejects with `CommandFailure`. */
  async *list(prefix: string): AsyncGenerator<ListedObject> {
    let token: string | undefined;
    do {
      const query: [string, string][] = [
        ['encoding-type', 'url'],
        ['list-type', '2'],
        ['prefix', prefix],
        ...(token === undefined ? [] : [['continuation-token', token] as [string, string]]),
      ];
      const { status, text } = await this.ask('GET', '', { query });
      if (status !== 200) throw refusedBy(text, status);
      const page = parseXml(Buffer.from(text), 'ListBucketResult');
      for (const entry of page.children.filter(({ name }) => name === 'Contents')) {
        yield {
          key: decoded(textOf(entry, 'Key')),
          sizeBytes: Number(textOf(entry, 'Size')),
          etag: textOf(entry, 'ETag') ?? '',
          class: textOf(entry, 'StorageClass') ?? '',
        };
      }
      token = childOf(page, 'NextContinuationToken') && textOf(page, 'NextContinuationToken');
    } while (token !== undefined);
  }

  /** Every version and delete marker, by key. Rejects with `CommandFailure`. */
  async *listVersions(): AsyncGenerator<ListedVersion> {
    let behind: [string, string][] | null = [];
    while (behind !== null) {
      const query: [string, string][] = [['encoding-type', 'url'], ['versions', ''], ...behind];
      const { status, text } = await this.ask('GET', '', { query });
      if (status !== 200) throw refusedBy(text, status);
      const page = parseXml(Buffer.from(text), 'ListVersionsResult');
      for (const entry of page.children) {
        if (entry.name !== 'Version' && entry.name !== 'DeleteMarker') continue;
        const versionId = textOf(entry, 'VersionId') ?? 'null';
        yield { key: decoded(textOf(entry, 'Key')), versionId };
      }
      const isMore = textOf(page, 'IsTruncated') === 'true';
      const id = isMore ? textOf(page, 'NextVersionIdMarker') : undefined;
      const key = decoded(isMore ? textOf(page, 'NextKeyMarker') : undefined);
      const ofKey: [string, string][] = id ? [['version-id-marker', id]] : [];
      behind = isMore ? [['key-marker', key], ...ofKey] : null;
    }
  }

  /** The value of a header that names an object of the bucket as a source. */
  sourceOf(key: string): string {
    return percentEncode(`/${this.name}/${key}`, true);
  }

  async ask(
    method: string,
    key: string,
    { query = [], headers: given = {}, body }: Asked = {},
  ): Promise<Exchanged> {
    const { s3Endpoint } = this.#connection;
    for (let tries = 1; ; tries++) {
      const { url, headers } = this.#sign(method, key, { query, headers: given, body });
      const asking = reach(s3Endpoint, () => exchange(url, method, headers, body));
      const answer = await asking.catch((error: unknown) => {
        if (tries === triesMax) throw error;
        return null;
      });
      if (answer && (answer.status < 500 || tries === triesMax)) return answer;
      await sleep(100 * 2 ** tries);
    }
  }

  /** What a key holds, if its entity tag is still this one. Rejects with `CommandFailure`. */
  async *read(key: string, etag: string): AsyncGenerator<Buffer> {
    const { s3Endpoint } = this.#connection;
    for (let tries = 1; ; tries++) {
      const { url, headers } = this.#sign('GET', key, { headers: { 'if-match': `"${etag}"` } });
      const answer = await reach(s3Endpoint, () => begin(url, 'GET', headers, undefined));
      const { statusCode: status = 0 } = answer;
      if (status === 200) {
        for await (const piece of answer) yield piece as Buffer;
        return;
      }
      const text = Buffer.concat(await answer.toArray()).toString('utf8');
      if (status < 500 || tries === triesMax) throw refusedBy(text, status);
      await sleep(100 * 2 ** tries);
    }
  }

  /** What a key, or a version of it, holds. Rejects with `CommandFailure`. */
  async *download(key: string, versionId: string | undefined): AsyncGenerator<Buffer> {
    const query: [string, string][] = versionId === undefined ? [] : [['versionId', versionId]];
    const { url, headers } = this.#sign('GET', key, { query });
    const answer = await reach(this.#connection.s3Endpoint, () =>
      begin(url, 'GET', headers, undefined),
    );
    if (answer.statusCode !== 200) {
      const text = Buffer.concat(await answer.toArray()).toString('utf8');
      throw refusedBy(text, answer.statusCode ?? 0);
    }
    // Whatever an answer breaks off with has to do with the way.
    const pieces = answer[Symbol.asyncIterator]();
    const next = () => reach(this.#connection.s3Endpoint, () => pieces.next());
    try {
      for (let one = await next(); !one.done; one = await next()) yield one.value as Buffer;
    } finally {
      answer.destroy();
    }
  }

  /** Makes bytes the object of a key. `sha256`: of them, hex. */
  async upload(
    key: string,
    { bytes, sizeBytes, sha256 }: { bytes: Readable; sizeBytes: number; sha256: string },
    given: Record<string, string>,
  ): Promise<Exchanged> {
    const { s3Endpoint } = this.#connection;
    const length = { ...given, 'content-length': String(sizeBytes) };
    const { url, headers } = this.#sign('PUT', key, { headers: length, sha256 });
    return reach(s3Endpoint, () => exchange(url, 'PUT', headers, bytes, uploadSilenceMsMax));
  }

  #sign(
    method: string,
    key: string,
    { query = [], headers: given = {}, body, sha256 }: Asked,
  ): { url: string; headers: Record<string, string> } {
    const { s3Endpoint, accessKeyId, secretAccessKey: secret, region } = this.#connection;
    const path = `/${this.name}${key && `/${key}`}`;
    const headers: Record<string, string> = { host: new URL(s3Endpoint).host, ...given };
    const { sessionToken } = this.#connection;
    if (sessionToken) headers['x-amz-security-token'] = sessionToken;
    if (sha256 === undefined && (method === 'PUT' || method === 'POST')) {
      headers['content-length'] = String(Buffer.byteLength(body ?? ''));
    }
    const payloadHash = sha256 ?? (body === undefined ? emptySha256 : hash('sha256', body));
    const signed = signRequest({
      ...{ method, path, query, headers, accessKeyId, secret, region },
      ...{ service: 's3', payloadHash, timeMs: Date.now() },
    });
    const search = query.map((pair) => pair.map((one) => percentEncode(one, false)).join('='));
    const asked = search.length ? `?${search.join('&')}` : '';
    const url = `${s3Endpoint}${percentEncode(path, true)}${asked}`;
    return { url, headers: { ...headers, ...signed } };
  }
}

/** A key of a listing in URL encoding. */
function decoded(key: string | undefined): string {
  return decodeURIComponent((key ?? '').replaceAll('+', ' '));
}

/** Throws `CommandFailure` unless it is done: a copy may end in an error behind its status. */
export function checkDone({ status, text }: Exchanged): void {
  if (status >= 300 || /<Error>.*?<Code>/s.test(text)) throw refusedBy(text, status);
}

/** What the gateway has said of a request that it refused. */
export function refusedBy(text: string, status: number): S3Refusal {
  const [code = '', message = ''] = ['Code', 'Message'].map(
    (name) => new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1] ?? '',
  );
  return new S3Refusal({ code, reason: message || `the gateway answered ${status}` }, status);
}
