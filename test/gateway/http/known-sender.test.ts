// Who sends a request that is passed on is known to the thread that has their connection while the
// body still comes, and the client is told nothing of that.
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { anonymousName } from '#bursar/authz/identity.js';
import { isKnownSender } from '#bursar/gateway/http/connections.js';
import type { Exchange } from '#bursar/gateway/http/exchange.js';
import { MainThread, takePassedOn, tellKnown } from '#bursar/gateway/http/pass-on.js';
import { listenAt } from '#bursar/gateway/listening.js';

const folder = mkdtempSync(join(tmpdir(), 'bursar-known-'));
const socketPath = join(folder, 'http.sock');
const mainThread = new MainThread(socketPath);
let main: Server;
let front: Server;
let passedOn: Exchange;

beforeAll(async () => {
  // Knows whom the path names, and answers when the body has come.
  main = createServer(async (raw, response) => {
    tellKnown({ principal: raw.url?.slice(1), isOfKnown: false, response } as Exchange);
    response.write('heard: ');
    for await (const piece of raw) response.write(piece);
    response.end();
  });
  takePassedOn(main);
  await listenAt(main, { path: socketPath });
  front = createServer((raw, response) => {
    passedOn = { raw, response, principal: null, isOfKnown: false, leave: () => {} } as Exchange;
    mainThread.answer(passedOn);
  });
  await listenAt(front, { host: '127.0.0.1', port: 0 });
});

afterAll(() => {
  mainThread.close();
  for (const server of [front, main]) server.closeAllConnections();
  for (const server of [front, main]) server.close();
  rmSync(folder, { recursive: true });
});

/** Sends a body, the rest of it when the answer has begun. Gives what came, in order. */
async function send(name: string): Promise<{ wasKnown: boolean; came: (number | string)[] }> {
  const { port } = front.address() as { port: number };
  const came: (number | string)[] = [];
  const asked = request({ port, host: '127.0.0.1', method: 'PUT', path: `/${name}` });
  asked.on('information', ({ statusCode }) => came.push(statusCode));
  const answering = new Promise<IncomingMessage>((resolve) => asked.once('response', resolve));
  asked.write('a');
  const answer = await answering;
  const wasKnown = isKnownSender(passedOn);
  asked.end('b');
  let text = '';
  for await (const piece of answer) text += piece;
  came.push(answer.statusCode ?? 0, text);
  return { wasKnown, came };
}

it('is known while the body comes', async () => {
  vi.setConfig({ testTimeout: 30_000 });
  expect(await send('alice')).toEqual({ wasKnown: true, came: [200, 'heard: ab'] });
});

it('is not known where nobody is', async () => {
  expect(await send(anonymousName)).toEqual({ wasKnown: false, came: [200, 'heard: ab'] });
});
