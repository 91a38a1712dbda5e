// What one thread passes on to another, where the client leaves before that.
import { mkdtempSync, rmSync } from 'node:fs';
import {
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Exchange } from '#bursar/gateway/http/exchange.js';
import { MainThread } from '#bursar/gateway/http/pass-on.js';

let folder: string;
let main: Server;
let other: Server;
let mainThread: MainThread;
/** What the main thread was asked. */
let asked: string[];
let begun: (raw: IncomingMessage, exchange: Exchange) => void;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-pass-on-'));
  asked = [];
  main = createServer((raw, response) => {
    asked.push(raw.url ?? '');
    raw.resume().once('end', () => response.end('from main'));
  });
  const socketPath = join(folder, 's');
  await new Promise<void>((resolve) => main.listen(socketPath, resolve));
  mainThread = new MainThread(socketPath);
  other = createServer((raw: IncomingMessage, response: ServerResponse) => {
    const exchange = { raw, response, leave: vi.fn(), end: vi.fn() };
    begun(raw, exchange as unknown as Exchange);
  });
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
});

afterEach(async () => {
  mainThread.close();
  for (const server of [other, main]) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  rmSync(folder, { recursive: true });
});

const send = (path: string) => {
  const { port } = other.address() as AddressInfo;
  const sent = request({ port, method: 'PUT', path, headers: { 'content-length': '10' } });
  sent.on('error', () => {});
  return sent;
};

it('is answered, body and all', async () => {
  begun = (_raw, exchange) => mainThread.answer(exchange);
  const sent = send('/whole');
  const answered = new Promise<IncomingMessage>((resolve) => sent.once('response', resolve));
  sent.end('0123456789');
  const texts: string[] = [];
  for await (const piece of (await answered).setEncoding('utf8')) texts.push(piece as string);
  expect([asked, texts.join('')]).toEqual([['/whole'], 'from main']);
});

it('is not asked for a client that has left in the midst of its body', async () => {
  const left = new Promise<Exchange>((resolve) => {
    begun = (_raw, exchange) => exchange.response.once('close', () => resolve(exchange));
  });
  const sent = send('/left');
  sent.write('01234', () => sent.destroy());
  const exchange = await left;
  mainThread.answer(exchange);
  expect(exchange.end).toHaveBeenCalledOnce();
  expect(exchange.leave).not.toHaveBeenCalled();
  begun = (_raw, next) => mainThread.answer(next);
  const next = send('/next');
  const answered = new Promise((resolve) => next.once('response', resolve));
  next.end('0123456789');
  await answered;
  expect(asked).toEqual(['/next']);
});

it('has a connection of its own, which nobody can be about to close', async () => {
  begun = (_raw, exchange) => mainThread.answer(exchange);
  let connections = 0;
  main.on('connection', () => {
    connections += 1;
  });
  for (const path of ['/first', '/second', '/third']) {
    const sent = send(path);
    const answered = new Promise<IncomingMessage>((resolve) => sent.once('response', resolve));
    sent.end('0123456789');
    await (await answered).resume().toArray();
  }
  expect([asked, connections]).toEqual([['/first', '/second', '/third'], 3]);
});
