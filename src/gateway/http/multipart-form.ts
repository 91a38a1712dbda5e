// A form with a file, as browsers send it: first the fields before the file, which are held, within
// limits; then the file's bytes, of which none is held or copied without need.
// Invariants: any split of the body into pushes gives the same fields, the same bytes and the same
// refusal; a field that is given twice has no reading at all; what follows the file is not read.
// Specification: RFC 7578, RFC 2046 section 5.1; "POST Object" of the Amazon S3 API reference.
import { Buffer } from 'node:buffer';
import { invalidArgument, Refusal } from '../../core/errors.ts';
import { formBytesMax } from '../../core/limits.ts';

export interface FormFields {
  /** By lower-case names, the file's not among them. */
  fields: ReadonlyMap<string, string>;
  /** As the client has it, without folders; empty: it has none. */
  filename: string;
}

const boundaryForm = /^[\x20-\x7e]{0,69}[\x21-\x7e]$/;

/** The boundary that a Content-Type names; null: it is not that of a form with files. */
export function boundaryOf(contentType: string | undefined): string | null {
  const [mediaType = '', ...parameters] = (contentType ?? '').split(';');
  if (mediaType.trim().toLowerCase() !== 'multipart/form-data') return null;
  for (const parameter of parameters) {
    const [, boundary] =
      /^\s*boundary=(?:"([^"]*)"|([^\s"]*))\s*$/i.exec(parameter)?.filter(isText) ?? [];
    if (boundary !== undefined && boundaryForm.test(boundary)) return boundary;
  }
  throw malformed();
}

function isText(part: string | undefined): part is string {
  return part !== undefined;
}

const lineEnd = '\r\n';
const headersEnd = '\r\n\r\n';
const dash = 0x2d;
const carriageReturn = 0x0d;

/** Reads all that comes before the file's own bytes. */
export class FormReader {
  readonly #delimiter: Buffer;
  readonly #fields = new Map<string, string>();
  /** What is not read yet. The first delimiter need not begin a line of its own. */
  #held = Buffer.from(lineEnd);
  /** Of the body, what was read. */
  #readBytes = -lineEnd.length;
  /** The name of the field whose value comes next; null: a delimiter does. */
  #name: string | null = null;

  constructor(boundary: string) {
    this.#delimiter = delimiterOf(boundary);
  }

  /**
   * Feeds bytes of the body. Gives the form, and what came of the file already, once that begins;
   * until then null. Throws `Refusal` MaxPostPreDataLengthExceeded, MalformedPOSTRequest, or
   * InvalidArgument where there is no file.
   */
  push(bytes: Buffer): (FormFields & { rest: Buffer; formBytes: number }) | null {
    this.#held = Buffer.concat([this.#held, bytes]);
    for (let part = this.#nextPart(); part !== null; part = this.#nextPart()) {
      const { name, filename } = readDisposition(part);
      if (name === 'file') {
        const formBytes = this.#readBytes;
        return { fields: this.#fields, filename: baseName(filename), rest: this.#held, formBytes };
      }
      if (this.#fields.has(name)) {
        throw invalidArgument(name.slice(0, 80), '', 'The form has this field twice.');
      }
      this.#name = name;
    }
    this.#checkLength(this.#held.length);
    return null;
  }

  /** The headers of the next part, once they are whole: then the value before it is, too. */
  #nextPart(): string | null {
    const delimiter = this.#held.indexOf(this.#delimiter);
    if (delimiter < 0) return null;
    const at = delimiter + this.#delimiter.length;
    this.#checkLength(at + 2);
    if (this.#held[at] === dash && this.#held[at + 1] === dash) throw noFile();
    const end = this.#held.indexOf(headersEnd, at);
    if (end < 0) return null;
    this.#checkLength(end + headersEnd.length);
    this.#endValue(this.#held.subarray(0, delimiter));
    const headers = this.#held.toString('latin1', at, end);
    this.#held = this.#held.subarray(end + headersEnd.length);
    this.#readBytes += end + headersEnd.length;
    return headers;
  }

  #endValue(value: Buffer): void {
    if (this.#name !== null) this.#fields.set(this.#name, decodeUtf8(value));
  }

  #checkLength(bytes: number): void {
    if (this.#readBytes + bytes <= formBytesMax) return;
    throw new Refusal('MaxPostPreDataLengthExceededError');
  }
}

/** Takes the file's bytes out of what follows its headers. */
export class FormFileDecoder {
  readonly trailers: ReadonlyMap<string, string> = new Map();
  readonly #delimiter: Buffer;
  /** What came and may be the beginning of the delimiter. */
  #held: Buffer = Buffer.alloc(0);
  #hasEnded = false;

  constructor(boundary: string) {
    this.#delimiter = delimiterOf(boundary);
  }

  /** Feeds bytes of the body; calls `emit` with bytes of the file. */
  push(bytes: Buffer, emit: (data: Buffer) => void): void {
    if (this.#hasEnded) return;
    const data = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes]);
    const delimiter = data.indexOf(this.#delimiter);
    this.#hasEnded = delimiter >= 0;
    const end = this.#hasEnded ? delimiter : this.#beginningOfDelimiter(data);
    // Copied, because the caller may use its buffer again.
    this.#held = this.#hasEnded ? data.subarray(0, 0) : Buffer.from(data.subarray(end));
    if (end > 0) emit(data.subarray(0, end));
  }

  /** At the end of the body. Throws `Refusal` MalformedPOSTRequest where the file has no end. */
  finish(): void {
    if (!this.#hasEnded) throw malformed();
  }

  /** Where in `data` begins what more bytes may make a delimiter; its end where nothing does. */
  #beginningOfDelimiter(data: Buffer): number {
    let at = Math.max(0, data.length - this.#delimiter.length + 1);
    for (; at < data.length; at++) {
      if (data[at] !== carriageReturn) continue;
      if (data.compare(this.#delimiter, 0, data.length - at, at) === 0) return at;
    }
    return data.length;
  }
}

/** Of the body's bytes behind the file's first, the fewest that are not the file's. */
export function formEndBytes(boundary: string): number {
  return delimiterOf(boundary).length + 2;
}

function delimiterOf(boundary: string): Buffer {
  return Buffer.from(`${lineEnd}--${boundary}`, 'latin1');
}

const dispositionForm = /^content-disposition:[ \t]*form-data[ \t]*(;.*)$/i;
// A quoted value ends at the first quote that is not escaped; some clients write paths with single
// backslashes, so that nothing else is unescaped.
const parameterForm = /;[ \t]*([\w*]+)=(?:"((?:\\"|[^"])*)"|([^;\s]*))/g;

/** `headers`: what follows the delimiter of a part, as Latin-1. */
function readDisposition(headers: string): { name: string; filename: string } {
  const [padding = '', ...lines] = headers.split(lineEnd);
  if (padding.trim() !== '') throw malformed();
  for (const line of lines) {
    const [, text] = dispositionForm.exec(line) ?? [];
    if (text === undefined) continue;
    const parameters = new Map<string, string>();
    for (const [, name = '', quoted, plain = ''] of text.matchAll(parameterForm)) {
      parameters.set(name.toLowerCase(), decodeName(quoted?.replaceAll('\\"', '"') ?? plain));
    }
    const name = parameters.get('name');
    if (name !== undefined && name !== '') {
      return { name: name.toLowerCase(), filename: parameters.get('filename') ?? '' };
    }
  }
  throw malformed();
}

function decodeName(latin1: string): string {
  return decodeUtf8(Buffer.from(latin1, 'latin1'));
}

/** Some browsers send the path of the client's file, with either slash. */
function baseName(path: string): string {
  return path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1);
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decodeUtf8(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw malformed(cause);
  }
}

function malformed(cause?: unknown): Refusal {
  return new Refusal('MalformedPOSTRequest', { cause });
}

function noFile(): Refusal {
  return invalidArgument('file', '0', 'POST requires exactly one file upload per request.');
}
