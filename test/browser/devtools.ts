// A tab of a headless Chromium, driven by its DevTools protocol over a pipe: how a document looks
// at a width and in a colour scheme, and what it asked for and complained of.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';

// biome-ignore lint/suspicious/noExplicitAny: it is whatever the browser says.
type Told = any;

export interface Look {
  widthPx: number;
  heightPx?: number;
  scheme: 'light' | 'dark';
}

export class Tab {
  readonly #browser: ChildProcess;
  readonly #folder: string;
  readonly #waiting = new Map<
    number,
    { resolve: (told: Told) => void; reject: (e: Error) => void }
  >();
  #session: string | undefined;
  #id = 0;
  #output = '';
  /** Messages of events, in order. */
  readonly events: { method: string; params: Told }[] = [];

  private constructor(chromium: string) {
    this.#folder = mkdtempSync(join(tmpdir(), 'bursar-devtools-'));
    const flags = [
      ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
      ...['--no-first-run', '--disable-background-networking', '--no-proxy-server'],
      ...[`--user-data-dir=${this.#folder}`, '--remote-debugging-pipe'],
    ];
    const stdio = ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'] as const;
    this.#browser = spawn(chromium, flags, { stdio: [...stdio] });
    this.#browser.stderr?.on('data', (text: Buffer) => {
      this.#output += text;
    });
    this.#browser.once('close', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error(this.#output));
    });
    let rest = '';
    (this.#browser.stdio[4] as Readable).setEncoding('utf8').on('data', (text: string) => {
      const messages = (rest + text).split('\0');
      rest = messages.pop() ?? '';
      for (const message of messages) this.#receive(JSON.parse(message));
    });
  }

  static async open(chromium: string): Promise<Tab> {
    const tab = new Tab(chromium);
    const { targetId } = await tab.send('Target.createTarget', { url: 'about:blank' });
    const attached = await tab.send('Target.attachToTarget', { targetId, flatten: true });
    tab.#session = attached.sessionId;
    for (const domain of ['Page', 'Runtime', 'Network', 'Log']) await tab.send(`${domain}.enable`);
    return tab;
  }

  send(method: string, params: object = {}): Promise<Told> {
    const id = ++this.#id;
    const message = { id, method, params, sessionId: this.#session };
    (this.#browser.stdio[3] as Writable).write(`${JSON.stringify(message)}\0`);
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  #receive({ id, method, params, result, error }: Told): void {
    if (id === undefined) {
      this.events.push({ method, params });
      return;
    }
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error) waiting?.reject(new Error(error.message));
    else waiting?.resolve(result);
  }

  async look({ widthPx, heightPx = 900, scheme }: Look): Promise<void> {
    const size = { width: widthPx, height: heightPx, deviceScaleFactor: 1, mobile: false };
    await this.send('Emulation.setDeviceMetricsOverride', size);
    const features = [{ name: 'prefers-color-scheme', value: scheme }];
    await this.send('Emulation.setEmulatedMedia', { features });
  }

  /** Resolves when it has loaded. */
  async visit(url: string): Promise<void> {
    const before = this.events.length;
    await this.send('Page.navigate', { url });
    const isLoaded = () =>
      this.events.slice(before).some(({ method }) => method === 'Page.loadEventFired');
    while (!isLoaded()) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  /** What an expression is there, as JSON has it. */
  async evaluate(expression: string): Promise<Told> {
    const asked = { expression, returnByValue: true, awaitPromise: true };
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', asked);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description);
    return result.value;
  }

  /** PNG of the whole document. */
  async picture(): Promise<Buffer> {
    const shot = await this.send('Page.captureScreenshot', { captureBeyondViewport: true });
    return Buffer.from(shot.data, 'base64');
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#browser.once('close', () => resolve()));
    this.#browser.kill('SIGKILL');
    await closed;
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 10 });
  }
}
