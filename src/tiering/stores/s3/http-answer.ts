// One answer of HTTP/1.1, read as its bytes come. Invariant: where an answer ends is never a matter
// of opinion: one that leaves a doubt (a length beside chunks, two lengths, folded or odd lines)
// fails. A body of known length is read straight to where it belongs, without a copy.
// Specification: RFC 9112, sections 2 to 7 and 9.3.
import { copyIntoShared } from '../../shared-memory.ts';
import { AttemptFailure } from './failure.ts';

/** By lower-case name; what comes several times is joined by commas. */
export type AnswerHeaders = Readonly<Record<string, string | undefined>>;

export interface AnswerSink {
  onHead(status: number, headers: AnswerHeaders): void;
  /** Where the next bytes of the body go; not empty. */
  room(): Buffer;
  /** So many bytes were put there. */
  took(bytes: number): void;
}

/** Of the head and of all that frames the body. */
const textBytesMax = 64 * 1024;
const statusPattern = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: |$)/;
const namePattern = /^[\w!#$%&'*+.^`|~-]+$/;
const closePattern = /(^|,)[ \t]*close[ \t]*(,|$)/i;
const sizePattern = /^([\da-f]{1,8})(?:;[\w!#$%&'*+.^`|~-]+(?:=[\w!#$%&'*+.^`|~-]+)?)*$/i;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const controlPattern = /[\0-\x08\x0a-\x1f\x7f]/;
const lineFeed = 0x0a;

/** What comes next. The body's bytes come as `fixed`, as `chunk`s, or until the `close`. */
type State =
  | 'status'
  | 'header'
  | 'fixed'
  | 'close'
  | 'chunkSize'
  | 'chunk'
  | 'chunkEnd'
  | 'trailer'
  | 'done';

export class AnswerParser {
  readonly #sink: AnswerSink;
  readonly #method: string;
  #state: State = 'status';
  /** Of a line that is not whole yet. */
  #text = '';
  #textBytes = 0;
  #status = 0;
  #isPersistent = false;
  #headers: Record<string, string | undefined> = {};
  /** Of the body, or of the chunk. */
  #left = 0;

  /** `method` is that of the request. */
  constructor(method: string, sink: AnswerSink) {
    this.#method = method;
    this.#sink = sink;
  }

  get isDone(): boolean {
    return this.#state === 'done';
  }

  /** Whether another request may follow on the connection, once it is done. */
  get isPersistent(): boolean {
    return this.#isPersistent;
  }

  /** Where the next bytes belong and nothing else, to be `took`; null: they are to be pushed. */
  room(): Buffer | null {
    if (this.#state !== 'fixed') return null;
    const room = this.#sink.room();
    return room.length > this.#left ? room.subarray(0, this.#left) : room;
  }

  /** So many bytes of the body are where they belong. */
  took(bytes: number): void {
    if (this.#state !== 'close') {
      this.#left -= bytes;
      if (this.#left === 0) this.#state = this.#state === 'chunk' ? 'chunkEnd' : 'done';
    }
    this.#sink.took(bytes);
  }

  /** The next bytes, which are copied. Throws AttemptFailure when they are no answer. */
  push(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#state === 'done') {
        // Nobody asked for more: what else comes on the connection is not believed.
        this.#isPersistent = false;
        return;
      }
      if (this.#state === 'fixed' || this.#state === 'chunk' || this.#state === 'close') {
        at += this.#takeData(bytes, at);
      } else {
        at = this.#takeText(bytes, at);
      }
    }
  }

  /** The connection has ended. Says whether the answer is whole. */
  end(): boolean {
    if (this.#state === 'close') this.#state = 'done';
    return this.#state === 'done';
  }

  #takeData(bytes: Buffer, at: number): number {
    const room = this.#sink.room();
    const left = this.#state === 'close' ? bytes.length : this.#left;
    const count = Math.min(bytes.length - at, room.length, left);
    copyIntoShared(room, 0, bytes.subarray(at, at + count));
    this.took(count);
    return count;
  }

  #takeText(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(lineFeed, at);
    const next = end < 0 ? bytes.length : end + 1;
    this.#textBytes += next - at;
    if (this.#textBytes > textBytesMax) throw oddAnswer('a head without end');
    this.#text += bytes.toString('latin1', at, next);
    if (end < 0) return next;
    const line = this.#text;
    this.#text = '';
    const isLine = line.endsWith('\r\n') && !controlPattern.test(line.slice(0, -2));
    if (!isLine) throw oddAnswer('an odd line');
    this.#takeLine(line.slice(0, -2));
    return next;
  }

  #takeLine(line: string): void {
    switch (this.#state) {
      case 'status':
        this.#takeStatus(line);
        return;
      case 'header':
        if (line === '') this.#endHead();
        else this.#takeHeader(line);
        return;
      case 'chunkSize': {
        const size = sizePattern.exec(line)?.[1];
        if (size === undefined) throw oddAnswer('a chunk without a size');
        this.#left = Number.parseInt(size, 16);
        this.#state = this.#left === 0 ? 'trailer' : 'chunk';
        return;
      }
      case 'chunkEnd':
        if (line !== '') throw oddAnswer('a chunk longer than its size');
        this.#state = 'chunkSize';
        return;
      case 'trailer':
        if (line === '') this.#state = 'done';
        else nameOf(line);
    }
  }

  #takeStatus(line: string): void {
    const match = statusPattern.exec(line);
    if (!match) throw oddAnswer('no status line');
    this.#isPersistent = match[1] === '1';
    this.#status = Number(match[2]);
    this.#headers = {};
    this.#state = 'header';
  }

  #takeHeader(line: string): void {
    const name = nameOf(line);
    const value = line.slice(name.length + 1).trim();
    const before = Object.hasOwn(this.#headers, name) ? this.#headers[name] : undefined;
    this.#headers[name] = before === undefined ? value : `${before}, ${value}`;
  }

  #endHead(): void {
    const status = this.#status;
    const { connection } = this.#headers;
    const framing = this.#frameBody();
    if (status < 200) {
      // Another head follows: this one has no body, and no other protocol was asked for.
      const isPlain = framing === 'close' && connection === undefined && this.#isPersistent;
      if (status === 101 || !isPlain) throw oddAnswer(`HTTP ${status} that is more than interim`);
      this.#state = 'status';
      return;
    }
    const isBare = this.#method === 'HEAD' || status === 204 || status === 304;
    this.#state = isBare ? 'done' : framing;
    const isClosing = connection !== undefined && closePattern.test(connection);
    if (isClosing || this.#state === 'close') this.#isPersistent = false;
    this.#sink.onHead(status, this.#headers);
  }

  /** How a body is framed, RFC 9112 section 6.3. */
  #frameBody(): State {
    const { 'content-length': length, 'transfer-encoding': coding } = this.#headers;
    if (coding !== undefined) {
      const isPlain = coding.toLowerCase() === 'chunked' && length === undefined;
      // HTTP/1.0 has no codings.
      if (!isPlain || !this.#isPersistent) throw oddAnswer(`the transfer coding ${coding}`);
      return 'chunkSize';
    }
    if (length === undefined) return 'close';
    if (!/^\d{1,15}$/.test(length)) throw oddAnswer(`a length of ${length}`);
    this.#left = Number(length);
    return this.#left === 0 ? 'done' : 'fixed';
  }
}

/** The name before a line's colon, in lower case. */
function nameOf(line: string): string {
  const name = line.slice(0, Math.max(line.indexOf(':'), 0)).toLowerCase();
  if (!namePattern.test(name)) throw oddAnswer('an odd header');
  return name;
}

function oddAnswer(what: string): AttemptFailure {
  return new AttemptFailure('wrong-body', `the answer is not proper HTTP: ${what}`);
}
