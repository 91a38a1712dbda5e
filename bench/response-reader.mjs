// Reads HTTP/1.1 responses off one connection and counts their bodies without copying them
// (RFC 9112 sections 4 to 7; no interim responses, no bodies that end with the connection).

const headEnd = Buffer.from('\r\n\r\n');
const lineEnd = Buffer.from('\r\n');

/** What comes next on the connection. */
const head = 0;
const body = 1;
const chunkSize = 2;
const chunkData = 3;
const trailer = 4;

export class ResponseReader {
  #onResponse;
  #next = head;
  #carried = '';
  #status = 0;
  #left = 0;
  #bodyBytes = 0;

  /** @param {(status: number, bodyBytes: number) => void} onResponse called once per response */
  constructor(onResponse) {
    this.#onResponse = onResponse;
  }

  /**
   * Takes the bytes `[0, end)` of `buffer`, which may be reused afterwards.
   * Throws on what is not HTTP.
   * @param {Buffer} buffer
   * @param {number} end
   */
  push(buffer, end) {
    let at = 0;
    while (at < end) {
      if (this.#next === body || this.#next === chunkData) at = this.#skip(at, end);
      else at = this.#text(buffer, at, end);
    }
  }

  /** Counts bytes of a body, or of a chunk and its line end. */
  #skip(at, end) {
    const taken = Math.min(this.#left, end - at);
    this.#left -= taken;
    if (this.#next === body) this.#bodyBytes += taken;
    if (this.#left === 0) {
      if (this.#next === body) this.#finish();
      else this.#next = chunkSize;
    }
    return at + taken;
  }

  /** Takes a head, a chunk's size line or a trailer line; carries what is incomplete. */
  #text(buffer, at, end) {
    const needle = this.#next === head ? headEnd : lineEnd;
    if (this.#carried !== '') return this.#joined(buffer, at, end, needle);
    const found = buffer.indexOf(needle, at);
    if (found === -1 || found + needle.length > end) {
      this.#carried = buffer.latin1Slice(at, end);
      return end;
    }
    this.#take(buffer.latin1Slice(at, found));
    return found + needle.length;
  }

  /** The rare way: a head or line that came in pieces. */
  #joined(buffer, at, end, needle) {
    const before = this.#carried.length;
    const text = this.#carried + buffer.latin1Slice(at, end);
    const found = text.indexOf(needle.latin1Slice());
    if (found === -1) {
      this.#carried = text;
      return end;
    }
    this.#carried = '';
    this.#take(text.slice(0, found));
    return at + found + needle.length - before;
  }

  #take(text) {
    if (this.#next === head) return this.#takeHead(text);
    if (this.#next === chunkSize) {
      const sizeBytes = Number.parseInt(text, 16);
      if (!(sizeBytes >= 0)) throw new Error(`not a chunk's size: ${text}`);
      this.#bodyBytes += sizeBytes;
      this.#left = sizeBytes + 2;
      this.#next = sizeBytes === 0 ? trailer : chunkData;
    } else if (text === '') this.#finish();
  }

  #takeHead(text) {
    if (!text.startsWith('HTTP/1.1 ')) throw new Error(`not a response: ${text.slice(0, 100)}`);
    this.#status = Number(text.slice(9, 12));
    this.#bodyBytes = 0;
    const length = /\r\ncontent-length: *(\d+)/i.exec(text);
    if (length) {
      this.#left = Number(length[1]);
      this.#next = body;
      if (this.#left === 0) this.#finish();
    } else if (/\r\ntransfer-encoding: *chunked/i.test(text)) this.#next = chunkSize;
    else this.#finish();
  }

  #finish() {
    this.#next = head;
    this.#onResponse(this.#status, this.#bodyBytes);
  }
}
