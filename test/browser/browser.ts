// A page in a real browser: a server of its own origin serves it, a headless Chromium visits it,
// and what its script returns is what the test gets.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Page {
  /** `http://127.0.0.1:PORT`, as the browser's Origin header has it. */
  origin: string;
  /** Targets of the requests that the browser made to the page's own server. */
  visited: string[];
  /**
   * Has the browser run `script`, the body of an asynchronous function in which `given` is what the
   * test gave. Resolves with what it returns; throws when the browser ends before.
   */
  // biome-ignore lint/suspicious/noExplicitAny: it is whatever the script says.
  run(script: string, given: object): Promise<any>;
  close(): Promise<void>;
}

/** The page's server, at a port and so at an origin of its own. */
export async function openPage(chromium: string): Promise<Page> {
  const visited: string[] = [];
  let html = '';
  let report: (text: string) => void = () => {};
  const server = createServer((request, response) => {
    void answer(request, response);
  });
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    if (request.url === '/report') report(Buffer.concat(pieces).toString());
    else visited.push(request.url ?? '');
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
    response.end(request.url === '/' ? html : '');
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    origin,
    visited,
    run: async (script, given) => {
      html = renderPage(script, given);
      const reported = new Promise<string>((resolve) => {
        report = resolve;
      });
      return JSON.parse(await visit(chromium, `${origin}/`, reported));
    },
    close: () => closeServer(server),
  };
}

function renderPage(script: string, given: object): string {
  return `<!doctype html><title>page</title><body><script type="module">
    const given = ${JSON.stringify(given).replaceAll('<', '\\u003c')};
    const run = async () => { ${script} };
    const told = await run().catch((error) => ({ failed: String(error) }));
    await fetch('/report', { method: 'POST', body: JSON.stringify(told ?? null) });
  </script>`;
}

async function visit(chromium: string, url: string, reported: Promise<string>): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-browser-'));
  const flags = [
    ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
    ...['--no-first-run', '--disable-background-networking', '--no-proxy-server'],
    ...[`--user-data-dir=${folder}`, '--remote-debugging-port=0'],
  ];
  const browser = spawn(chromium, [...flags, url], { stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  browser.stderr.on('data', (text: Buffer) => {
    output += text;
  });
  const closed = new Promise<void>((resolve) => browser.once('close', () => resolve()));
  try {
    const failed = closed.then(() => {
      throw new Error(`the browser ended before its page was done:\n${output}`);
    });
    return await Promise.race([reported, failed]);
  } finally {
    browser.kill('SIGKILL');
    await closed;
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

async function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
