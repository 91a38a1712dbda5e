// HTML forms that upload a file: another way in for a PutObject. What a PUT says in headers, a form
// says in fields before its file; who signed its policy is who asks.
// Invariants: of the request's own headers none has a meaning for the object, because no policy
// covers them; and the file is neither shorter nor longer than the policy lets it be.
// Specification: "POST Object" and "Browser-Based Uploads Using POST" of the Amazon S3 API
// reference.
import { Buffer } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Authenticator } from '../../authz/authenticate.ts';
import { anonymousIn, type Identity } from '../../authz/identity.ts';
import { checkPostPolicy, type FormFields, parsePostPolicy } from '../../authz/post-policy.ts';
import { RefusedUse } from '../../authz/refused-use.ts';
import type { Headers } from '../../core/canonical-request.ts';
import { invalidArgument, Refusal } from '../../core/errors.ts';
import { formBytesMax } from '../../core/limits.ts';
import { defaultTenant } from '../../core/principal.ts';
import type { Exchange } from '../http/exchange.ts';
import { boundaryOf, FormFileDecoder, FormReader, formEndBytes } from '../http/multipart-form.ts';
import { type BodyDecoder, ClientGone } from './body.ts';
import { sendableText } from './objects/encoded-words.ts';
import { parseTagging } from './objects/object-attributes.ts';
import { checkKeyLength, type S3Request } from './request.ts';

/** Is it a form that is sent to a bucket? In another encoding than a file needs it is none. */
export function isPostForm({ raw, method, bucketName, key, query }: S3Request): boolean {
  if (method !== 'POST' || bucketName === null || key !== null || query.length > 0) return false;
  return /^multipart\/form-data\s*(;|$)/i.test(raw.headers['content-type']?.trimStart() ?? '');
}

export interface EnteredForm {
  /** As if its fields were headers. */
  request: S3Request;
  who: Identity;
  refused: Refusal | null;
  /** Of the body, what was read. */
  receivedBytes: number;
  /** As `Entered` has it. */
  renew(atMs: number): Promise<Identity>;
}

/**
 * Reads a form up to its file, and judges it by its policy. Throws `Refusal` where nobody is known
 * who could be refused.
 */
export async function enterForm(
  authenticator: Authenticator,
  request: S3Request,
  { response, clock }: Exchange,
): Promise<EnteredForm> {
  const boundary = boundaryOf(request.headers['content-type']) ?? '';
  if (request.headers.authorization !== undefined) {
    const message = 'A form carries its credentials in its fields.';
    throw invalidArgument('Authorization', '', message);
  }
  const bodyBytes = Number(request.headers['content-length'] ?? Number.NaN);
  if (Number.isNaN(bodyBytes)) throw new Refusal('MissingContentLength');
  // What decides is in the body.
  if (request.expectsContinue) response.writeContinue();
  const reading = readFields(request.raw, new FormReader(boundary));
  const { filename, formBytes, ...form } = await clock.during('stream', reading);
  const fields = fillIn(form.fields, filename);
  const fileBytesMax = Math.max(0, bodyBytes - formBytes - formEndBytes(boundary));
  const { who, refused } = await identify(authenticator, request, fields);
  const { key, fault } = readKey(fields.get('key') ?? '');
  const headers = keptHeaders(request.headers);
  const sent = { ...request, key, headers, rawHeaders: [], expectsContinue: false };
  const renew = (atMs: number) => authenticator.renewForm(request, who, { fields, atMs });
  const entered = {
    request: sent,
    who,
    refused: refused ?? fault,
    receivedBytes: formBytes,
    renew,
  };
  if (entered.refused) return entered;
  try {
    const allowed = judge(fields, request.bucketName ?? '');
    const upload = new PostForm(boundary, fields, { ...allowed, fileBytesMax });
    Object.assign(headers, headersOf(fields));
    headers['content-length'] = String(Math.min(fileBytesMax, allowed.bytesMax));
    return { ...entered, request: { ...sent, form: upload } };
  } catch (error) {
    if (error instanceof Refusal) return { ...entered, refused: error };
    throw error;
  }
}

type FileSize = Pick<ReturnType<typeof parsePostPolicy>, 'bytesMin' | 'bytesMax'>;

/** What a form says besides its object's headers, and its file as it comes. */
export class PostForm implements BodyDecoder {
  readonly trailers: ReadonlyMap<string, string> = new Map();
  /** Any other that it asks for is 204. */
  readonly successStatus: 200 | 201 | 204;
  /** Where the browser shall go then; null: nowhere. */
  readonly successUrl: URL | null;
  readonly #size: FileSize & { fileBytesMax: number };
  readonly #file: FormFileDecoder;
  #sizeBytes = 0;

  /** `fileBytesMax`: what of the body can be the file's. */
  constructor(boundary: string, fields: FormFields, size: FileSize & { fileBytesMax: number }) {
    const status = fields.get('success_action_status');
    this.successStatus = status === '200' ? 200 : status === '201' ? 201 : 204;
    this.successUrl = urlOf(fields.get('success_action_redirect') ?? fields.get('redirect') ?? '');
    this.#size = size;
    this.#file = new FormFileDecoder(boundary);
  }

  /** Of the file, what has come. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  push(bytes: Buffer, emit: (data: Buffer) => void): void {
    this.#file.push(bytes, (data) => {
      this.#sizeBytes += data.length;
      const { bytesMax, fileBytesMax } = this.#size;
      if (this.#sizeBytes > bytesMax) {
        throw this.#refuseSize('EntityTooLarge', { MaxSizeAllowed: String(bytesMax) });
      }
      // There is no room for the form's end any more.
      if (this.#sizeBytes > fileBytesMax) throw new Refusal('MalformedPOSTRequest');
      emit(data);
    });
  }

  finish(): void {
    this.#file.finish();
    const { bytesMin } = this.#size;
    if (this.#sizeBytes >= bytesMin) return;
    throw this.#refuseSize('EntityTooSmall', { MinSizeAllowed: String(bytesMin) });
  }

  #refuseSize(code: 'EntityTooLarge' | 'EntityTooSmall', allowed: Record<string, string>): Refusal {
    return new Refusal(code, { fields: { ProposedSize: String(this.#sizeBytes), ...allowed } });
  }
}

/** One that is none is as good as not there, as on S3. */
function urlOf(text: string): URL | null {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  return url.protocol === 'http:' || url.protocol === 'https:' ? url : null;
}

/** Leaves the message with what comes from the file's first byte on. */
function readFields(
  raw: IncomingMessage,
  reader: FormReader,
): Promise<NonNullable<ReturnType<FormReader['push']>>> {
  return new Promise((resolve, reject) => {
    const settle = (settled: () => void): void => {
      raw.off('data', onData);
      raw.off('end', onEnd);
      raw.off('close', onClose);
      raw.off('error', onClose);
      raw.pause();
      settled();
    };
    const onData = (chunk: Buffer): void => {
      try {
        const form = reader.push(chunk);
        if (!form) return;
        settle(() => resolve(form));
        if (form.rest.length > 0) raw.unshift(form.rest);
      } catch (error) {
        settle(() => reject(error));
      }
    };
    const onEnd = (): void => settle(() => reject(new Refusal('MalformedPOSTRequest')));
    const onClose = (): void =>
      settle(() => reject(new ClientGone('the client closed the connection')));
    raw.on('data', onData);
    raw.on('end', onEnd);
    raw.on('close', onClose);
    raw.on('error', onClose);
    if (raw.destroyed) onClose();
  });
}

const variable = /\$\{filename\}/g;

/**
 * `${filename}` stands for the file's name in any field. Throws `Refusal`
 * MaxPostPreDataLengthExceededError where that makes far more of the fields than was sent.
 */
function fillIn(fields: FormFields, filename: string): FormFields {
  const filled = new Map<string, string>();
  let length = 0;
  for (const [name, value] of fields) {
    // As on S3, it stays where the file has no name.
    const count = filename && value.includes('${') ? (value.match(variable)?.length ?? 0) : 0;
    length += value.length + count * filename.length;
    if (length > 2 * formBytesMax) throw new Refusal('MaxPostPreDataLengthExceededError');
    filled.set(name, count > 0 ? value.replace(variable, () => filename) : value);
  }
  return filled;
}

async function identify(
  authenticator: Authenticator,
  request: S3Request,
  fields: FormFields,
): Promise<{ who: Identity; refused: Refusal | null }> {
  try {
    const who = await authenticator.authenticateForm(request, fields);
    return { who: who ?? anonymousIn(defaultTenant), refused: null };
  } catch (error) {
    if (error instanceof RefusedUse) return { who: error.who, refused: error };
    throw error;
  }
}

/** What the policy leaves of the file's size. Throws `Refusal` where it does not allow the form. */
function judge(fields: FormFields, bucket: string): FileSize {
  const text = fields.get('policy');
  if (text === undefined) return { bytesMin: 0, bytesMax: Infinity };
  const policy = parsePostPolicy(text);
  checkPostPolicy(policy, new Map([...fields, ['bucket', bucket]]), Date.now());
  return policy;
}

/** The key, or why it can be none. */
function readKey(key: string): { key: string | null; fault: Refusal | null } {
  try {
    if (key === '') throw missingKey();
    checkKeyLength(key);
    return { key, fault: null };
  } catch (error) {
    if (error instanceof Refusal) return { key: null, fault: error };
    throw error;
  }
}

function missingKey(): Refusal {
  const message =
    "Bucket POST must contain a field named 'key'.  " +
    'If it is specified, please check the order of the fields.';
  return invalidArgument('key', '', message);
}

/** What says who sent it and from where, which rules may ask for. */
const ownHeaders = ['host', 'user-agent', 'referer'] as const;

function keptHeaders(headers: Headers): Record<string, string | undefined> {
  return Object.fromEntries(ownHeaders.map((name) => [name, headers[name]]));
}

const headerFields: ReadonlySet<string> = new Set([
  ...['cache-control', 'content-disposition', 'content-encoding', 'content-language'],
  ...['content-md5', 'content-type', 'expires'],
]);
const credentialFields: ReadonlySet<string> = new Set([
  ...['x-amz-algorithm', 'x-amz-credential', 'x-amz-date', 'x-amz-security-token'],
  'x-amz-signature',
]);
/** They say how a body comes, or that it comes from elsewhere, which a form cannot. */
const impossibleFields: ReadonlySet<string> = new Set([
  ...['x-amz-content-sha256', 'x-amz-copy-source', 'x-amz-decoded-content-length'],
  'x-amz-trailer',
]);

/** The headers of a PUT that says the same. Throws `Refusal` InvalidArgument. */
function headersOf(fields: FormFields): Headers {
  const headers: Record<string, string> = {};
  for (const [field, value] of fields) {
    const named = headerNameOf(field);
    if (named === null) continue;
    if (impossibleFields.has(named) || headers[named] !== undefined) {
      throw invalidArgument(field, value, 'A form cannot have this field.');
    }
    headers[named] = headerValueOf(field, field === 'tagging' ? tagQuery(value) : value);
  }
  return headers;
}

/** null: the field says nothing of the object. */
function headerNameOf(field: string): string | null {
  if (field === 'acl') return 'x-amz-acl';
  if (field === 'tagging') return 'x-amz-tagging';
  if (headerFields.has(field)) return field;
  return field.startsWith('x-amz-') && !credentialFields.has(field) ? field : null;
}

const headerNameForm = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what no header can have
const unsendable = /[\u0000-\u0008\u000a-\u001f\u007f]/;

/** Headers are Latin-1 that stands for bytes; those of a form are UTF-8. */
function headerValueOf(field: string, value: string): string {
  if (headerNameForm.test(field) && field.startsWith('x-amz-meta-')) {
    return sendableText(value.trim());
  }
  if (!headerNameForm.test(field) || unsendable.test(value)) {
    throw invalidArgument(field, value, 'The field can be no header of an object.');
  }
  return Buffer.from(value.trim(), 'utf8').toString('latin1');
}

const emptyElement = /^<(\w+)(?:\/>|><\/\1>)$/;

/** A form has its tags in XML. As on S3, an element of any name without content is no tags. */
function tagQuery(xml: string): string {
  if (xml === '' || emptyElement.test(xml)) return '';
  const tags = new URLSearchParams();
  for (const [name, value] of parseTagging(Buffer.from(xml))) tags.append(name, value);
  return tags.toString();
}
