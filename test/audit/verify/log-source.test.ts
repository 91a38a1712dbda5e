// What servers may do to whoever reads a log from them, and what they may not.
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, expect, it } from 'vitest';
import { urlSource } from '#bursar/audit/verify/log-source.js';

const timeout = 60_000;
let server: Server | undefined;

async function serve(answer: RequestListener): Promise<string> {
  server = createServer(answer);
  await new Promise<void>((ready) => server?.listen(0, '127.0.0.1', ready));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/log`;
}

afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

it('a file is read, packed or not, and a missing one is told from all else', async () => {
  const url = await serve((request, response) => {
    if (request.url === '/log/packed') {
      response.setHeader('content-encoding', 'gzip').end(gzipSync('content'));
    } else if (request.url === '/log/plain') response.end('content');
    else if (request.url === '/log/forbidden') response.writeHead(403).end('not for you');
    else if (request.url === '/log/moved') response.writeHead(302, { location: '/' }).end();
    else response.writeHead(request.url === '/log/gone' ? 410 : 404).end();
  });
  for (const address of [url, `${url}/`]) {
    const source = urlSource(address);
    expect((await source.read('packed'))?.toString()).toBe('content');
    expect((await source.read('plain'))?.toString()).toBe('content');
    expect(await source.read('gone')).toBeUndefined();
    expect(await source.read('missing')).toBeUndefined();
    await expect(source.read('forbidden')).rejects.toThrow('answered 403: not for you');
    await expect(source.read('moved')).rejects.toThrow('answered 302');
  }
});

it('what is longer than any file of a log is not held, packed or not', { timeout }, async () => {
  const bomb = gzipSync(Buffer.alloc(17 * 1024 * 1024));
  const url = await serve((request, response) => {
    const piece = Buffer.alloc(1024 * 1024);
    if (request.url === '/log/packed') {
      response.setHeader('content-encoding', 'gzip').end(bomb);
      return;
    }
    const send = (): void => {
      while (!response.destroyed && response.write(piece));
      response.once('drain', send);
    };
    send();
  });
  await expect(urlSource(url).read('endless')).rejects.toThrow('too long');
  await expect(urlSource(url).read('packed')).rejects.toMatchObject({ name: 'SourceFailure' });
});

it('a server that is busy, or breaks off, is asked again', { timeout }, async () => {
  let asked = 0;
  const url = await serve((_, response) => {
    asked += 1;
    if (asked === 1) response.writeHead(503).end('busy');
    else if (asked === 2) response.writeHead(200, { 'content-length': '7' }).write('con');
    else response.end('content');
    if (asked === 2) setImmediate(() => response.destroy());
  });
  expect((await urlSource(url).read('tile/0/000'))?.toString()).toBe('content');
  expect(asked).toBe(3);
});
