// The main thread's end of the thread that makes packs. Invariant: one job at a time; the thread is
// there only while there is something to pack.
import { Worker } from 'node:worker_threads';
import type { MadePack, PackAnswer, PackJob, PackWorkerOptions } from './pack-worker.ts';

export class Packer {
  readonly #worker: Worker;
  readonly #exited: Promise<unknown>;
  #waiting: { resolve(answer: PackAnswer): void; reject(cause: unknown): void } | null = null;

  /** `path`: the database file. */
  constructor(path: string) {
    const workerData: PackWorkerOptions = { path };
    this.#worker = new Worker(new URL('./pack-worker.js', import.meta.url), { workerData });
    this.#worker.unref();
    this.#exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#worker.on('message', (answer: PackAnswer) => this.#take()?.resolve(answer));
    this.#worker.on('error', (cause) => this.#take()?.reject(cause));
    this.#worker.on('exit', () => this.#take()?.reject(new Error('the packing thread ended')));
  }

  /** Packs the records of so many tiles, all of which are in the database. */
  async make(first: number, tiles: number): Promise<MadePack> {
    const answer = await this.#ask({ kind: 'make', first, tiles });
    if ('bytes' in answer) return answer;
    throw new Error('the packing thread answered something else');
  }

  /** Whether a tile's part, as it was read back, has all that the database has of the tile. */
  async check(tile: number, nonce: Uint8Array, part: Uint8Array): Promise<boolean> {
    const answer = await this.#ask({ kind: 'check', tile, nonce, part });
    return 'sound' in answer && answer.sound;
  }

  async close(): Promise<void> {
    this.#worker.postMessage(null);
    await this.#exited;
  }

  async #ask(job: PackJob): Promise<PackAnswer> {
    const answer = await new Promise<PackAnswer>((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#worker.postMessage(job);
    });
    if ('failed' in answer) throw new Error(answer.failed);
    return answer;
  }

  #take() {
    const waiting = this.#waiting;
    this.#waiting = null;
    return waiting;
  }
}
