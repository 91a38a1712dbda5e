// A connection of which each byte is the test's own: for what no well-behaved client sends.
import { connect, type Socket } from 'node:net';
import { type Message, signMessage, type Target } from './target.ts';

const patienceMs = 20_000;

export class Wire {
  readonly #socket: Socket;
  #received = '';
  #ended = false;
  #wake: () => void = () => {};

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => {
      this.#received += text;
      this.#wake();
    });
    const end = (): void => {
      this.#ended = true;
      this.#wake();
    };
    socket.on('close', end);
    socket.on('error', end);
  }

  static async open(target: Target): Promise<Wire> {
    const { hostname, port } = new URL(target.endpoint);
    const socket = connect(Number(port), hostname);
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    return new Wire(socket);
  }

  /** All that has come, as Latin-1. */
  get received(): string {
    return this.#received;
  }

  /** Sends bytes; a text stands for its Latin-1 bytes. A connection that is closed takes none. */
  write(bytes: string | Buffer): void {
    if (this.#socket.writable) this.#socket.write(bytes, 'latin1');
  }

  /** Sends no more, but still reads. */
  end(): void {
    this.#socket.end();
  }

  /** Takes no more of what comes: the other end can send what the sockets hold, and waits. */
  stopReading(): void {
    this.#socket.pause();
  }

  /** Drops the connection at once. */
  destroy(): void {
    this.#socket.destroy();
  }

  /** Resolves with all that has come once `pattern` is in it. Throws when it never is. */
  async until(pattern: RegExp): Promise<string> {
    await this.#wait(() => pattern.test(this.#received) || this.#ended);
    if (!pattern.test(this.#received)) {
      throw new Error(`the connection ended without ${pattern}: ${this.#received}`);
    }
    return this.#received;
  }

  /** Resolves with all that has come when the other end has closed the connection. */
  async closed(): Promise<string> {
    await this.#wait(() => this.#ended);
    return this.#received;
  }

  /** The status and error code of the first whole answer that is not an interim one. */
  async answer(): Promise<{ status: number; code: string | undefined }> {
    const last = (): RegExpExecArray | null =>
      /^HTTP\/1\.1 ([2-5]\d\d)[\s\S]*?\r\n\r\n/m.exec(this.#received);
    const isWhole = (): boolean => {
      const head = last();
      if (!head) return false;
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(head[0])?.[1] ?? 0);
      return this.#received.length >= head.index + head[0].length + length;
    };
    await this.#wait(() => isWhole() || this.#ended);
    const status = Number(last()?.[1] ?? 0);
    return { status, code: /<Code>([^<]*)</.exec(this.#received)?.[1] };
  }

  async #wait(isDone: () => boolean): Promise<void> {
    const timer = setTimeout(() => {
      this.#received += '\n(the test lost patience)';
      this.#socket.destroy();
    }, patienceMs);
    while (!isDone()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    clearTimeout(timer);
  }
}

/** The head of a signed message, ready to be sent; `more` lines are not signed. */
export function signedHead(target: Target, message: Message, more: readonly string[] = []): string {
  const { path, headers } = signMessage(target, message);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return `${message.method} ${path} HTTP/1.1\r\n${[...lines, ...more].join('\r\n')}\r\n\r\n`;
}
