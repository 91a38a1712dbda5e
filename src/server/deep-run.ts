// Comparisons of the folder that this gateway serves (`verify deep`), each in a thread that reads
// the database by connections of its own, so that no request waits for it. Invariants: one at a
// time; and what was interrupted by a stop of the gateway goes on with the next one.
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Difference } from '../audit/verify/record-fields.ts';
import { messageOfFailure } from '../core/command-failure.ts';
import type { DeepRunState, DeepRuns } from '../gateway/native/verify-routes.ts';
import type { DeepThreadMessage, DeepThreadOptions } from './deep-thread.ts';

export class FolderDeepRuns implements DeepRuns {
  readonly #options: DeepThreadOptions;
  #worker: Worker | null = null;
  #state: DeepRunState = emptyState(false);
  #isClosed = false;

  /** `config` is that of the gateway. */
  constructor(config: DeepThreadOptions['config']) {
    this.#options = { config, stateFile: join(config.data, 'verify-deep.db') };
  }

  begin(): void {
    if (this.#worker || this.#isClosed) return;
    this.#state = emptyState(true);
    const workerData = this.#options;
    const worker = new Worker(new URL('./deep-thread.js', import.meta.url), { workerData });
    this.#worker = worker;
    worker.unref();
    worker.on('message', (message: DeepThreadMessage) => this.#take(message));
    worker.once('error', (error) => {
      this.#state.failure = messageOfFailure(error);
    });
    worker.once('exit', () => {
      this.#worker = null;
      this.#state.isRunning = false;
    });
  }

  read(): DeepRunState {
    return this.#state;
  }

  async stop(): Promise<void> {
    if (!this.#worker) return;
    const state = this.#state;
    await this.#worker.terminate();
    // It may have come to its end meanwhile.
    if (!state.summary) state.failure ??= 'it was stopped; the next run goes on where it was';
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#worker?.terminate();
  }

  #take(message: DeepThreadMessage): void {
    const state = this.#state;
    switch (message.kind) {
      case 'progress':
        state.records = message.records;
        return;
      case 'difference':
        state.found++;
        state.differences.push(message.difference satisfies Difference);
        return;
      case 'done':
        state.summary = message.summary;
        state.found = message.summary.differences;
        return;
      case 'failed':
        state.failure = message.why;
    }
  }
}

function emptyState(isRunning: boolean): DeepRunState {
  return { isRunning, records: 0, found: 0, differences: [], summary: null, failure: null };
}
