// One connection of a store, against servers that say what a test wants, byte for byte.
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { AttemptFailure } from '#bursar/tiering/stores/s3/failure.js';
import { type Exchange, HttpClient, HttpOrigin } from '#bursar/tiering/stores/s3/http-client.js';
import { cert, key } from './tls-identity.ts';

const closers: (() => void)[] = [];

afterEach(() => {
  for (const close of closers.splice(0).reverse()) close();
});

/** Keeps what it is told, and the body. */
class Ear implements Exchange {
  status = 0;
  body = Buffer.alloc(0);
  sent: boolean[] = [];
  /** Where the body is read to. */
  readonly rooms: Buffer[] = [];
  readonly ended: Promise<unknown>;
  readonly #roomBytes: number;
  #end: (error: unknown) => void = () => {};

  constructor(roomBytes = 1000) {
    this.#roomBytes = roomBytes;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  onSending(): void {}
  onSent(isAll: boolean): void {
    this.sent.push(isAll);
  }
  onHead(status: number): void {
    this.status = status;
  }
  room(): Buffer {
    const room = Buffer.from(new SharedArrayBuffer(this.#roomBytes));
    this.rooms.push(room);
    return room;
  }
  took(bytes: number): void {
    this.body = Buffer.concat([this.body, (this.rooms.at(-1) as Buffer).subarray(0, bytes)]);
  }
  onEnd(): void {
    this.#end('answered');
  }
  onError(error: unknown): void {
    this.#end(error);
  }
}

interface Place {
  client: HttpClient;
  /** Connections that were made. */
  sockets: Socket[];
}

async function listen(server: Server, scheme: string, sockets: Socket[]): Promise<Place> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const client = new HttpClient(new HttpOrigin(`${scheme}://127.0.0.1:${port}`));
  closers.push(() => {
    client.drop();
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { client, sockets };
}

/** A server that answers each head it gets; with `undefined`: by nothing. */
async function serve(answer: (socket: Socket, head: string) => string | undefined): Promise<Place> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      const reply = answer(socket, bytes.toString('latin1'));
      if (reply !== undefined) socket.write(reply, 'latin1');
    });
  });
  return listen(server, 'http', sockets);
}

function get(client: HttpClient, ear = new Ear(), method = 'GET'): Ear {
  client.send({ method, head: `${method} / HTTP/1.1\r\nhost: x\r\n\r\n`, pieces: [] }, ear);
  return ear;
}

/** The server has seen that the client has left. */
async function closed(socket: Socket | undefined): Promise<void> {
  if (!socket?.destroyed) await new Promise((resolve) => socket?.once('close', resolve));
}

const ok = (body: string, headers = ''): string =>
  `HTTP/1.1 200 OK\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`;

describe("a store's connection", () => {
  it('is used for the next request, and made again when the server has ended it', async () => {
    const { client, sockets } = await serve(() => ok('abc'));
    for (let i = 0; i < 3; i++) {
      const ear = get(client);
      expect(await ear.ended).toBe('answered');
      expect(ear.body.toString()).toBe('abc');
    }
    expect(sockets).toHaveLength(1);
    sockets[0]?.end();
    await closed(sockets[0]);
    expect(await get(client).ended).toBe('answered');
    expect(sockets).toHaveLength(2);
  });

  it.each([
    ['says that it closes', ok('abc', 'connection: close\r\n')],
    ['says more than was asked for', `${ok('abc')}HTTP/1.1 200 OK\r\n`],
    ['speaks HTTP/1.0', ok('abc').replace('1.1', '1.0')],
  ])('is not used again when the server %s', async (_, answer) => {
    const { client, sockets } = await serve(() => answer);
    for (let i = 1; i <= 2; i++) {
      const ear = get(client);
      expect(await ear.ended).toBe('answered');
      expect(ear.body.toString()).toBe('abc');
      expect(sockets).toHaveLength(i);
    }
  });

  it('believes no answer that came before its request', async () => {
    const { client, sockets } = await serve(() => ok('first'));
    await get(client).ended;
    sockets[0]?.write(ok('forged'));
    await closed(sockets[0]);
    const ear = get(client);
    await ear.ended;
    expect(ear.body.toString()).toBe('first');
    expect(sockets).toHaveLength(2);
  });

  it('hands a body over as it comes, without a byte beside its room', async () => {
    const bytes = Buffer.alloc(300_000, 'The quick brown fox. ').toString('latin1');
    const { client } = await serve(() => ok(bytes));
    for (const roomBytes of [7000, 65_536, 300_000, 1_000_000]) {
      const ear = get(client, new Ear(roomBytes));
      expect(await ear.ended).toBe('answered');
      expect(ear.body.equals(Buffer.from(bytes))).toBe(true);
      const rest = (ear.rooms.at(-1) as Buffer).subarray(bytes.length);
      expect(rest.equals(Buffer.alloc(rest.length))).toBe(true);
    }
  });

  it('waits for no body where there is none', async () => {
    const head = 'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n';
    const empty = 'HTTP/1.1 204 No Content\r\n\r\n';
    const { client, sockets } = await serve((_, text) => (text[0] === 'H' ? head : empty));
    for (const method of ['HEAD', 'DELETE', 'HEAD']) {
      expect(await get(client, new Ear(), method).ended).toBe('answered');
    }
    expect(sockets).toHaveLength(1);
  });

  it('takes a body up to the end of the connection, where that is how it ends', async () => {
    const { client } = await serve((socket) => {
      socket.end('HTTP/1.1 500 Oh\r\n\r\n<Error/>');
      return undefined;
    });
    const ear = get(client);
    expect(await ear.ended).toBe('answered');
    expect(ear.body.toString()).toBe('<Error/>');
  });

  it.each([
    ['no HTTP', 'this is not HTTP\r\n\r\n', 'wrong-body'],
    ['a head that does not end', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(70_000)}`, 'wrong-body'],
    ['half a body', 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf', 'reset'],
    ['half a head', 'HTTP/1.1 200 OK\r\ncontent-le', 'reset'],
    ['nothing', '', 'reset'],
  ])('fails a request to which the server says %s', async (_, answer, reason) => {
    const { client } = await serve((socket) => {
      socket.end(answer);
      return undefined;
    });
    const error = await get(client).ended;
    expect(error).toBeInstanceOf(AttemptFailure);
    expect(error).toMatchObject({ reason });
  });

  it('sends a body whole and unmixed, and tells how it goes on', async () => {
    const pieces = [1, 300_000, 0, 262_176, 262_176, 5].map((bytes, i) => Buffer.alloc(bytes, i));
    const whole = Buffer.concat(pieces);
    let got = '';
    const { client } = await serve((_, text) => {
      got += text;
      const body = got.slice(got.indexOf('\r\n\r\n') + 4);
      return body.length === whole.length ? ok('') : undefined;
    });
    const ear = new Ear();
    client.send({ method: 'PUT', head: 'PUT / HTTP/1.1\r\n\r\n', pieces }, ear);
    expect(await ear.ended).toBe('answered');
    expect(got).toBe(`PUT / HTTP/1.1\r\n\r\n${whole.toString('latin1')}`);
    expect(ear.sent.length).toBeGreaterThan(2);
    expect(ear.sent.indexOf(true)).toBe(ear.sent.length - 1);
  });

  it('hears a server that refuses a body before it has it, and sends no more of it', async () => {
    let got = 0;
    const { client, sockets } = await serve((socket, text) => {
      if (got > 0) return undefined;
      got += text.length;
      socket.pause();
      return 'HTTP/1.1 403 No\r\ncontent-length: 2\r\n\r\nno';
    });
    const pieces = Array.from({ length: 64 }, () => Buffer.alloc(262_176));
    const ear = new Ear();
    client.send({ method: 'PUT', head: 'PUT / HTTP/1.1\r\n\r\n', pieces }, ear);
    expect(await ear.ended).toBe('answered');
    expect([ear.status, ear.body.toString()]).toEqual([403, 'no']);
    expect(ear.sent).not.toContain(true);
    sockets[0]?.resume();
    await closed(sockets[0]);
  });

  it('that is dropped writes to no room any more, and can be used again', async () => {
    let isWhole = false;
    const { client, sockets } = await serve(() =>
      isWhole ? ok('whole') : 'HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\nhalf',
    );
    const ear = get(client);
    await expect.poll(() => ear.body.toString()).toBe('half');
    client.drop();
    const rooms = Buffer.concat(ear.rooms);
    sockets[0]?.write('x'.repeat(50_000));
    await closed(sockets[0]);
    expect(Buffer.concat(ear.rooms).equals(rooms)).toBe(true);
    isWhole = true;
    const next = get(client);
    expect(await next.ended).toBe('answered');
    expect(next.body.toString()).toBe('whole');
  });
});

describe("a store's connection over TLS", () => {
  async function serveTls(body: string): Promise<Place> {
    const sockets: Socket[] = [];
    const server = createTlsServer({ key, cert }, (socket) => {
      sockets.push(socket);
      socket.on('error', () => {});
      socket.on('data', () => socket.write(ok(body)));
    });
    return listen(server, 'https', sockets);
  }

  it('trusts no server that it does not know', async () => {
    const { client } = await serveTls('abc');
    expect(await get(client).ended).toMatchObject({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
  });

  it('reads bodies to where they belong, and resumes its session', async () => {
    // The only way to a self-signed server; the test above is the one that needs none.
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    try {
      const body = 'The quick brown fox. '.repeat(20_000);
      const { client, sockets } = await serveTls(body);
      for (let i = 0; i < 2; i++) {
        const ear = get(client, new Ear(100_000));
        expect(await ear.ended).toBe('answered');
        expect(ear.body.equals(Buffer.from(body))).toBe(true);
        client.drop();
      }
      const resumed = sockets.map((socket) => (socket as TLSSocket).isSessionReused() ?? false);
      expect(resumed).toEqual([false, true]);
    } finally {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    }
  });
});
