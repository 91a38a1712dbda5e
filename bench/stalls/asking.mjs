// Signed requests of any kind, over connections that are kept.
import { hash } from 'node:crypto';
import { Agent, request } from 'node:http';
import { percentEncode } from '#bursar/core/canonical-request.js';
import { signRequest } from '#bursar/core/sigv4.js';

/**
 * @typedef {object} Message
 * @property {string} method
 * @property {string} path decoded
 * @property {[string, string][]} [query] decoded
 * @property {Record<string, string>} [headers]
 * @property {Buffer | string} [body]
 * @property {boolean} [isUnsigned] is sent as it is
 */

/** Asks one server over at most so many connections. */
export class Asker {
  #agent;
  #target;

  /** @param {import('../signing.mjs').Target} target */
  constructor(target, connections) {
    this.#target = target;
    this.#agent = new Agent({ keepAlive: true, maxSockets: connections });
  }

  /**
   * @param {Message} message @returns {Promise<{status: number, headers: object, text: string}>}
   */
  ask(message) {
    const { host, port } = this.#target;
    const { method, path, query = [], body = '' } = message;
    const pairs = query.map((pair) => pair.map((text) => percentEncode(text, false)).join('='));
    const url = percentEncode(path, true) + (pairs.length > 0 ? `?${pairs.join('&')}` : '');
    const headers = { host: `${host}:${port}`, ...message.headers };
    if (body !== '') headers['content-length'] = String(Buffer.byteLength(body));
    if (!message.isUnsigned)
      Object.assign(headers, this.#sign({ ...message, query, headers, body }));
    return new Promise((resolve, reject) => {
      const options = { agent: this.#agent, host, port, method, path: url, headers };
      const sent = request(options, (answer) => {
        const pieces = [];
        answer.on('data', (piece) => pieces.push(piece));
        answer.on('error', reject);
        answer.on('end', () => {
          const text = Buffer.concat(pieces).toString();
          resolve({ status: answer.statusCode, headers: answer.headers, text });
        });
      });
      sent.on('error', reject);
      sent.end(body);
    });
  }

  /** The text of the answer. Throws unless it is a success. */
  async demand(message) {
    const { status, text } = await this.ask(message);
    if (status < 300) return text;
    const { method, path } = message;
    throw new Error(`${method} ${path.slice(0, 100)}: ${status} ${text.slice(0, 500)}`);
  }

  /** Sends what `messageAt` gives for 0 up to `count`, over all connections. */
  async demandAll(count, messageAt) {
    let next = 0;
    const texts = [];
    const work = async () => {
      while (next < count) {
        const i = next++;
        texts[i] = await this.demand(messageAt(i));
      }
    };
    await Promise.all(Array.from({ length: this.#agent.maxSockets }, work));
    return texts;
  }

  /** Asks the native API, under `/_/v1/`. */
  async demandNative(method, path, value) {
    const text = await this.demand(nativeMessage(method, path, value));
    return text && JSON.parse(text);
  }

  close() {
    this.#agent.destroy();
  }

  #sign({ method, path, query, headers, body }) {
    const { accessKeyId, secretAccessKey: secret } = this.#target;
    const payloadHash = hash('sha256', body, 'hex');
    const region = 'us-east-1';
    const signing = { accessKeyId, secret, region, method, path, query, headers };
    return signRequest({ ...signing, payloadHash, timeMs: Date.now() });
  }
}

/** @returns {Message} of the native API, under `/_/v1/` */
export function nativeMessage(method, path, value) {
  const body = value === undefined ? '' : JSON.stringify(value);
  const headers = body === '' ? {} : { 'content-type': 'application/json' };
  const [plain, search] = path.split('?');
  return { method, path: `/_/v1/${plain}`, query: [...new URLSearchParams(search)], headers, body };
}
