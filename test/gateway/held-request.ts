// Requests whose last byte is held back until a test says so.
import { request } from 'node:http';
import { type Answer, type Message, signMessage, type Target } from '../protocol/target.ts';

export interface HeldRequest {
  /** Sends what was held back; gives the answer. */
  finish(): Promise<Answer>;
  /** Sends one byte of it. */
  trickle(): void;
  /** Settles with the answer, also where that comes before the end. */
  answer: Promise<Answer>;
}

interface HeldOptions {
  /** What is held back, bytes. */
  heldBytes?: number;
}

/**
 * Sends a signed message but for its last bytes. Resolves when the gateway lets the client send,
 * which is when it has decided.
 */
export function hold(
  target: Target,
  message: Message,
  options?: HeldOptions,
): Promise<HeldRequest> {
  const { path, headers } = signMessage(target, message);
  return holdRaw(target, { ...message, path, headers }, options);
}

/** The same of what is sent as it is. */
export function holdRaw(
  target: Target,
  { method, path, headers, body = '' }: Message,
  { heldBytes = 1 }: HeldOptions = {},
): Promise<HeldRequest> {
  const { hostname, port } = new URL(target.endpoint);
  const bytes = Buffer.from(body as string, 'latin1');
  const length = { 'content-length': String(bytes.length) };
  return new Promise((resolve, reject) => {
    const all = { ...length, ...headers, expect: '100-continue' };
    const asked = request({ hostname, port, method, path, headers: all, agent: false });
    const answer = new Promise<Answer>((answered, failed) => {
      asked.on('error', failed);
      asked.on('response', (response) => {
        const pieces: Buffer[] = [];
        response.on('data', (piece: Buffer) => pieces.push(piece));
        response.on('error', failed);
        response.on('end', () => {
          const whole = Buffer.concat(pieces);
          const text = whole.toString();
          const [, code] = /<Code>([^<]*)</.exec(text) ?? [];
          const told = response.headers as Record<string, string>;
          answered({ status: response.statusCode ?? 0, headers: told, body: whole, text, code });
        });
      });
    });
    answer.catch(() => undefined);
    let sent = bytes.length - heldBytes;
    asked.on('continue', () => {
      asked.write(bytes.subarray(0, sent));
      resolve({
        answer,
        trickle: () => void asked.write(bytes.subarray(sent, ++sent)),
        finish: () => {
          asked.end(bytes.subarray(sent));
          return answer;
        },
      });
    });
    void answer.then(
      ({ status, text }) => reject(new Error(`not held: ${status} ${text}`)),
      reject,
    );
    asked.flushHeaders();
  });
}
