// HTML forms as browsers send them, with a policy that is signed as AWS documents it, by no code of
// Bursar's own.
import { createHmac } from 'node:crypto';
import { GetObjectCommand, ListObjectsV2Command, type S3Client } from '@aws-sdk/client-s3';
import { expect } from 'vitest';
import {
  type Answer,
  clientOf,
  exchange,
  type Keys,
  newBucket,
  region,
  type Target,
} from './target.ts';

export type Fields = readonly (readonly [string, string])[];
export type Condition = Record<string, unknown> | readonly unknown[];

export interface FormFile {
  content: Buffer | string;
  filename?: string;
  contentType?: string;
}

/** In any field: the file's name. */
export const filenameVariable = ['$', '{filename}'].join('');

const boundary = '----BoundaryOfATest7MA4YWxk';

/** The body of a form; the file comes last, unless there is none. */
export function formBody(fields: Fields, file: FormFile | null, end = '--\r\n'): Buffer {
  const pieces = fields.map(
    ([name, value]) =>
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  if (!file) return Buffer.from(`${pieces.join('')}--${boundary}${end}`);
  const { content, filename = 'file.bin', contentType = 'application/octet-stream' } = file;
  const head =
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${filename}"\r\n` +
    `Content-Type: ${contentType}\r\n\r\n`;
  return Buffer.concat([
    Buffer.from(pieces.join('') + head),
    Buffer.from(content),
    Buffer.from(`\r\n--${boundary}${end}`),
  ]);
}

export const formHeaders = { 'content-type': `multipart/form-data; boundary=${boundary}` };

/** Posts a form to a bucket. */
export function postForm(
  target: Target,
  bucket: string,
  body: Buffer,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const given = { ...formHeaders, 'content-length': String(body.length), ...headers };
  return exchange(target, 'POST', `/${bucket}`, given, body);
}

export interface PolicyOptions {
  expiresInMs?: number;
  /** Instead of the whole document. */
  document?: unknown;
  /** Of temporary keys. */
  sessionToken?: string;
  /** Instead of now. */
  signedAtMs?: number;
}

/** Credentials, policy and signature, as fields; the policy covers the credentials by itself. */
export function signPolicy(
  { accessKeyId, secretAccessKey }: Keys,
  conditions: readonly Condition[],
  options: PolicyOptions = {},
): [string, string][] {
  const { expiresInMs = 60_000, sessionToken, signedAtMs = Date.now() } = options;
  const time = new Date(signedAtMs).toISOString();
  const amzDate = `${time.slice(0, 19).replace(/[-:]/g, '')}Z`;
  const scope = [amzDate.slice(0, 8), region, 's3', 'aws4_request'];
  const credentials: [string, string][] = [
    ['x-amz-algorithm', 'AWS4-HMAC-SHA256'],
    ['x-amz-credential', [accessKeyId, ...scope].join('/')],
    ['x-amz-date', amzDate],
  ];
  if (sessionToken !== undefined) credentials.push(['x-amz-security-token', sessionToken]);
  const document = options.document ?? {
    expiration: new Date(Date.now() + expiresInMs).toISOString(),
    conditions: [...conditions, ...credentials.map(([name, value]) => ({ [name]: value }))],
  };
  const text = typeof document === 'string' ? document : JSON.stringify(document);
  const policy = Buffer.from(text).toString('base64');
  let key: Buffer | string = `AWS4${secretAccessKey}`;
  for (const part of scope) key = createHmac('sha256', key).update(part).digest();
  const signature = createHmac('sha256', key).update(policy).digest('hex');
  return [...credentials, ['policy', policy], ['x-amz-signature', signature]];
}

export interface Upload {
  fields: Fields;
  conditions: readonly Condition[];
  content?: Buffer | string;
  filename?: string;
}

/** A bucket of its own for forms, and what their tests ask of it. */
export class FormBucket {
  readonly target: Target;
  readonly client: S3Client;
  readonly name: string;

  private constructor(target: Target, client: S3Client, name: string) {
    this.target = target;
    this.client = client;
    this.name = name;
  }

  static async make(target: Target): Promise<FormBucket> {
    const client = clientOf(target);
    return new FormBucket(target, client, await newBucket(client));
  }

  async keys(): Promise<(string | undefined)[]> {
    const asked = new ListObjectsV2Command({ Bucket: this.name });
    const { Contents = [] } = await this.client.send(asked);
    return Contents.map(({ Key }) => Key);
  }

  async read(Key: string): Promise<Buffer> {
    const { Body } = await this.client.send(new GetObjectCommand({ Bucket: this.name, Key }));
    return Buffer.from((await Body?.transformToByteArray()) ?? []);
  }

  /** A form to the bucket whose policy allows keys in `forms/`, and more. */
  upload({ fields, conditions, content = 'content', filename = 'a.txt' }: Upload): Promise<Answer> {
    const allowed = [{ bucket: this.name }, ['starts-with', '$key', 'forms/'], ...conditions];
    const signed = signPolicy(this.target.keys, allowed);
    const body = formBody([...fields, ...signed], { content, filename });
    return postForm(this.target, this.name, body);
  }

  /** Refused, and nothing is there under `forms/refused`. */
  async expectNothing(answer: Answer, status: number, code: string): Promise<void> {
    expect([answer.status, answer.code]).toEqual([status, code]);
    expect(await this.keys()).not.toContain('forms/refused');
  }
}
