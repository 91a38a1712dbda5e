// Mixed load that keeps a model of what it was told. Each worker owns the names it writes and does
// one thing after the other, so what a name holds is known at each moment. Any answer but the right
// one, while the gateway is not being killed, is a finding.
import { createHash } from 'node:crypto';
import { randomBelow, randomOf } from '../fuzz/seeded-random.ts';
import { type Content, KiB, MiB, makeContent } from './content.ts';
import { type Model, sameValue, type Value } from './model.ts';
import type { Answer, S3Client, Sending } from './s3-client.ts';

export interface WorkerOptions {
  client: S3Client;
  model: Model;
  random: () => number;
  bucket: string;
  /** Begins the worker's keys. */
  prefix: string;
  isStopped: () => boolean;
}

type Action = (worker: LoadWorker) => Promise<void>;

export class LoadWorker {
  readonly #options: WorkerOptions;

  constructor(options: WorkerOptions) {
    this.#options = options;
  }

  /** Works until it is stopped; throws what went wrong. */
  async run(): Promise<void> {
    const { random, isStopped } = this.#options;
    while (!isStopped()) await randomOf(random, deck)(this);
  }

  pick(kind: string, count: number): string {
    const { random, bucket, prefix } = this.#options;
    return `${bucket}/${prefix}/${kind}${randomBelow(random, count)}`;
  }

  makeContent(sizeBytes: number): Content {
    return makeContent(randomBelow(this.#options.random, 2 ** 31), sizeBytes);
  }

  async put(name: string, sizeBytes: number): Promise<void> {
    const content = this.makeContent(sizeBytes);
    await this.#change([[name, toValue(content)]], 'PUT', `/${name}`, { body: content.bytes });
  }

  async delete(name: string): Promise<void> {
    await this.#change([[name, null]], 'DELETE', `/${name}`);
  }

  async deleteMany(names: string[]): Promise<void> {
    const [bucket] = splitName(names[0] as string);
    const objects = names.map((name) => `<Object><Key>${splitName(name)[1]}</Key></Object>`);
    const body = Buffer.from(`<Delete>${objects.join('')}</Delete>`);
    const values = names.map((name): [string, Value] => [name, null]);
    const sending = { query: pairs({ delete: '' }), body, headers: md5Header(body) };
    await this.#change(values, 'POST', `/${bucket}`, sending);
  }

  async copy(): Promise<void> {
    const { model } = this.#options;
    const source = this.#pickExisting();
    const target = this.pick('copy', 6);
    if (source === undefined || source === target) return;
    const headers = { 'x-amz-copy-source': `/${source}` };
    await this.#change([[target, model.valueOf(source)]], 'PUT', `/${target}`, { headers });
  }

  async read(): Promise<void> {
    const { client, model } = this.#options;
    const name = this.#pickExisting();
    if (name === undefined) return;
    const found = await client.digest(`/${name}`);
    if (found.status !== 200 || !sameValue(found, model.valueOf(name))) {
      throw new Finding(`GET ${name} gave ${found.status} with ${found.sizeBytes} other bytes`);
    }
  }

  /** Two parts, then completed, aborted, or left as it is. */
  async multipart(end: 'complete' | 'abort' | 'leave'): Promise<void> {
    const { model } = this.#options;
    const name = this.pick('multipart', 2);
    const [bucket, key] = splitName(name);
    const begun = await this.#send('POST', `/${name}`, { query: pairs({ uploads: '' }) });
    const uploadId = element(begun.body, 'UploadId');
    const parts = new Map<number, number>();
    model.uploads.set(uploadId, { bucket, key, parts });
    const whole = this.makeContent(5 * MiB + 100 * KiB);
    const pieces = [whole.bytes.subarray(0, 5 * MiB), whole.bytes.subarray(5 * MiB)];
    let list = '';
    for (const [i, body] of pieces.entries()) {
      const query = pairs({ partNumber: String(i + 1), uploadId });
      const { headers } = await this.#send('PUT', `/${name}`, { query, body });
      parts.set(i + 1, body.length);
      list += `<Part><PartNumber>${i + 1}</PartNumber><ETag>${headers.etag}</ETag></Part>`;
    }
    if (end === 'leave') return;
    // From here on nobody knows whether the upload is still there until the answer comes.
    model.uploads.delete(uploadId);
    const query = pairs({ uploadId });
    if (end === 'abort') {
      await this.#send('DELETE', `/${name}`, { query });
      return;
    }
    const body = Buffer.from(`<CompleteMultipartUpload>${list}</CompleteMultipartUpload>`);
    await this.#change([[name, toValue(whole)]], 'POST', `/${name}`, { query, body });
  }

  #pickExisting(): string | undefined {
    const { model, random, bucket, prefix } = this.#options;
    const names = [...model.settled]
      .filter(([name, value]) => value && name.startsWith(`${bucket}/${prefix}/`))
      .map(([name]) => name);
    return names.length > 0 ? randomOf(random, names) : undefined;
  }

  async #change(
    values: [string, Value][],
    method: string,
    path: string,
    sending?: Sending,
  ): Promise<void> {
    await this.#options.model.change(values, async () => {
      await this.#send(method, path, sending);
    });
  }

  async #send(method: string, path: string, sending?: Sending): Promise<Answer> {
    const answer = await this.#options.client.send(method, path, sending);
    const text = answer.status === 204 ? '' : answer.body.toString();
    if (answer.status >= 300 || /<Error>/.test(text)) {
      throw new Finding(`${method} ${path} was answered ${answer.status}: ${text}`);
    }
    return answer;
  }
}

/** The gateway answered, and wrongly: no kill explains that. */
export class Finding extends Error {
  override readonly name = 'Finding';
}

/** Each action as often as its weight. */
const deck: Action[] = (
  [
    [24, (w) => w.put(w.pick('small', 10), 4 * KiB)],
    [10, (w) => w.put(w.pick('medium', 4), 300 * KiB)],
    [3, (w) => w.put(w.pick('large', 1), 20 * MiB)],
    [2, (w) => w.put(w.pick('empty', 2), 0)],
    [10, (w) => w.copy()],
    [4, (w) => w.delete(w.pick('small', 10))],
    [4, (w) => w.delete(w.pick('medium', 4))],
    [1, (w) => w.delete(w.pick('large', 1))],
    [3, (w) => w.delete(w.pick('copy', 6))],
    [2, (w) => w.deleteMany([w.pick('small', 4), w.pick('medium', 4), w.pick('copy', 6)])],
    [10, (w) => w.read()],
    [3, (w) => w.multipart('complete')],
    [1, (w) => w.multipart('abort')],
    [1, (w) => w.multipart('leave')],
  ] as [number, Action][]
).flatMap(([weight, action]) => new Array<Action>(weight).fill(action));

export function splitName(name: string): [bucket: string, key: string] {
  const slash = name.indexOf('/');
  return [name.slice(0, slash), name.slice(slash + 1)];
}

export function element(body: Buffer, name: string): string {
  return new RegExp(`<${name}>([^<]*)</${name}>`).exec(body.toString())?.[1] ?? '';
}

export function pairs(query: Record<string, string>): [string, string][] {
  return Object.entries(query);
}

function toValue({ sizeBytes, sha256 }: Content): Value {
  return { sizeBytes, sha256 };
}

export function md5Header(body: Buffer): Record<string, string> {
  return { 'content-md5': createHash('md5').update(body).digest('base64') };
}
