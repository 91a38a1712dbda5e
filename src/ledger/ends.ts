// The ends of the ledger's thread: a port for each thread that serves requests. What comes by
// several of them at once shares one transaction. Invariant: whoever is answered for a change can
// ask any thread and finds it, since the events of a change are in the queue of every port, and the
// word that counts these messages is raised, before the first of its batch is answered. A port that
// is added later is told first from where on it counts.
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { CommitResult, LedgerAnswer, LedgerRequest } from './commit.ts';
import type { FeedEntry } from './feed.ts';

/** What a thread needs in order to use the ledger; to be sent with `port` transferred. */
export interface LedgerEnd {
  port: MessagePort;
  /** How many `ToldBatch` messages were sent to each port: an Int32Array of one word. */
  told: SharedArrayBuffer;
  /** Which current versions may have changed (catalog/version-marks.ts). */
  marks: SharedArrayBuffer;
}

/** The next one is sent when the one before it is answered. */
export interface RequestBatch {
  requests: LedgerRequest[];
}

export type FromEnd =
  | BegunEnd
  /** `appliedMs`: what the batch took, of that `committedMs` to become durable. */
  | { answers: LedgerAnswer[]; appliedMs: number; committedMs: number }
  | ToldBatch;

/** How many batches others were told before, and the epoch of rights that those have reached. */
export interface BegunEnd {
  begun: { told: number; epoch: number };
}

/** What the changes of a batch are to be followed with, whoever asked for them. */
export interface ToldBatch {
  entries: FeedEntry[];
}

interface Due extends RequestBatch {
  port: MessagePort;
}

type Apply = (
  requests: LedgerRequest[],
) => Promise<{ answers: LedgerAnswer[]; appliedMs: number; committedMs: number }>;

export class LedgerEnds {
  readonly #ports: MessagePort[] = [];
  readonly #told: Int32Array;
  readonly #apply: Apply;
  readonly #onAnswered: () => void;
  #due: Due[] = [];
  #isApplying = false;
  /** Of rights: the newest that was told. */
  #epoch = 0;

  /**
   * `apply` makes the requests durable together; it is called again only when it has ended.
   * `onAnswered` is called when all of them are answered.
   */
  constructor(told: SharedArrayBuffer, apply: Apply, onAnswered: () => void) {
    this.#told = new Int32Array(told);
    this.#apply = apply;
    this.#onAnswered = onAnswered;
  }

  add(port: MessagePort): void {
    this.#ports.push(port);
    const begun = { told: Atomics.load(this.#told, 0), epoch: this.#epoch };
    port.postMessage({ begun } satisfies FromEnd);
    port.on('message', ({ requests }: RequestBatch) => {
      this.#due.push({ port, requests });
      if (!this.#isApplying) void this.#applyAll();
    });
    port.once('close', () => this.#ports.splice(this.#ports.indexOf(port), 1));
  }

  close(): void {
    for (const port of [...this.#ports]) port.close();
  }

  /** Applies a batch without requests, unless one is being applied, and what has come meanwhile. */
  async applyNothing(): Promise<void> {
    if (this.#isApplying) return;
    this.#isApplying = true;
    await this.#apply([]);
    await this.#applyAll();
  }

  async #applyAll(): Promise<void> {
    this.#isApplying = true;
    while (this.#due.length > 0) {
      if (this.#ports.length > 1) this.#takeWaiting();
      await this.#applyDue(this.#due.splice(0));
    }
    this.#isApplying = false;
  }

  /** What has come by the other ports meanwhile is in the same transaction. */
  #takeWaiting(): void {
    for (const port of this.#ports) {
      const received = receiveMessageOnPort(port) as { message: RequestBatch } | undefined;
      if (received) this.#due.push({ port, requests: received.message.requests });
    }
  }

  async #applyDue(due: readonly Due[]): Promise<void> {
    const [first] = due as [Due];
    const requests = due.length === 1 ? first.requests : due.flatMap((one) => one.requests);
    const { answers, ...times } = await this.#apply(requests);
    this.#tell(answers);
    let from = 0;
    for (const { port, requests: own } of due) {
      const message = { answers: answers.slice(from, from + own.length), ...times };
      port.postMessage(message satisfies FromEnd);
      from += own.length;
    }
    this.#onAnswered();
  }

  #tell(answers: LedgerAnswer[]): void {
    const entries: FeedEntry[] = [];
    for (const [i, answer] of answers.entries()) {
      if (!changesMemory(answer)) continue;
      const { events = [], ...rest } = answer;
      const { index, epoch, taken } = rest;
      this.#epoch = Math.max(this.#epoch, epoch ?? 0);
      const rights = epoch === undefined ? {} : { epoch, taken };
      entries.push({ index: index as number, events, ...rights });
      answers[i] = { ...rest, isTold: true };
    }
    if (entries.length === 0) return;
    for (const port of this.#ports) port.postMessage({ entries } satisfies FromEnd);
    Atomics.add(this.#told, 0, 1);
  }
}

/** Is there something to be applied or reached before it may be answered? */
function changesMemory(answer: LedgerAnswer): answer is Extract<CommitResult, { ok: true }> {
  return answer.ok && ('events' in answer || 'epoch' in answer);
}
