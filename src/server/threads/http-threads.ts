// The HTTP threads besides the main one, from its side: it begins and ends them, tells them what
// does not come by the ledger's feed, and asks them for what is to be known of the gateway as one.
// Invariant: what was told here before an answer is known to each thread before it decides the next
// request, since the word that counts messages is raised when each port has them.
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { IntegrityError } from '../../core/errors.ts';
import type { RootKey } from '../../core/keyring.ts';
import type { Unsealed } from '../../core/seals/row-seal.ts';
import type { Turns } from '../../core/turns.ts';
import type { MeasuredMetric } from '../../instruments/metric-registry.ts';
import type { RequestStory } from '../../instruments/recent-requests.ts';
import type { Sample } from '../../instruments/sample.ts';
import type { RoomDesk } from '../../quota/remote-rooms.ts';
import type { FromHttpThread, HttpThreadData, ToHttpThread } from './messages.ts';
import { Questions } from './questions.ts';
import { TurnDesk } from './shared-turns.ts';
import type { StoreDesk } from './store-desk.ts';
import type { StoreDoor } from './thread-stores.ts';

export interface HttpThreadsHost {
  onUnsealed: (unsealed: Unsealed) => void;
  onIntegrityFailure: (failure: Pick<IntegrityError, 'store' | 'kind'>) => void;
  /** Takes whole lines of the log. */
  onLines: (lines: string) => void;
  onSamples: (samples: readonly Sample[]) => void;
  onWarning: (text: string) => void;
  /** Called when a thread cannot go on, or has ended: the process must stop. */
  onFatal: (reason: string) => void;
  /** A thread is short of what others have free of limits; resolves when they have given it up. */
  onRecall: (thread: number, accounts: string[]) => Promise<void>;
  /** What bodies that come to a thread ask of the disk's room. */
  openDesk: () => RoomDesk;
  /** What they ask and tell of stores over a network. */
  storeDesk: StoreDesk;
  /** They take them with the main thread. */
  bulkTurns: Turns;
}

interface OneThread {
  worker: Worker;
  thread: number;
  desk: RoomDesk;
  turns: TurnDesk;
}

/** A thread that says nothing for so long is left out of what is measured or told, milliseconds. */
const measureMsMax = 2000;

export class HttpThreads {
  readonly #workers: Worker[] = [];
  readonly #told = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  readonly #host: HttpThreadsHost;
  readonly #questions = new Questions<FromHttpThread | undefined>();
  #isClosing = false;

  constructor(host: HttpThreadsHost) {
    this.#host = host;
  }

  /** Begins one more; resolves when it listens. */
  async add(data: Omit<HttpThreadData, 'told'>): Promise<void> {
    const workerData: HttpThreadData = { ...data, told: this.#told };
    const worker = new Worker(new URL('./http-thread.js', import.meta.url), {
      name: 'http',
      workerData,
      transferList: [data.end.port],
    });
    const { onFatal, openDesk, bulkTurns } = this.#host;
    const turns = new TurnDesk(bulkTurns, (turnCame) => worker.postMessage({ turnCame }));
    const of = { worker, thread: data.thread, desk: openDesk(), turns };
    await new Promise<void>((resolve, reject) => {
      worker.on('message', (message: FromHttpThread) => {
        if ('ready' in message) resolve();
        else this.#take(message, of);
      });
      worker.on('error', (error) => {
        reject(error);
        onFatal(`an HTTP thread failed: ${error.stack ?? String(error)}`);
      });
      worker.on('exit', () => {
        if (!this.#isClosing) onFatal('an HTTP thread ended');
      });
      this.#workers.push(worker);
    });
  }

  /** The rows that are not authentic, all that there are now. */
  tellUnsealed(unsealed: readonly Unsealed[]): void {
    this.#tell({ unsealed });
  }

  /** Nothing may be written any more. */
  tellRefusal(refusal: string): void {
    this.#tell({ refusal });
  }

  tellDoor(door: StoreDoor): void {
    this.#tell({ door });
  }

  /** To be told before anything is sealed under it. */
  tellRootKey(rootKey: RootKey): void {
    this.#tell({ rootKey });
  }

  /** What each of them has measured, of those that answer in time. */
  async measure(): Promise<MeasuredMetric[][]> {
    const answers = this.#askAll((measure) => ({ measure }), measureMsMax);
    const all = await Promise.all(answers);
    return all.flatMap((answer) => (answer && 'metrics' in answer ? [answer.metrics] : []));
  }

  /** What became of a request that one of them answered; of those that say so in time. */
  async recount(id: string): Promise<RequestStory | undefined> {
    const all = await Promise.all(this.#askAll((recount) => ({ recount, id }), measureMsMax));
    return all.flatMap((answer) => (answer && 'story' in answer ? (answer.story ?? []) : []))[0];
  }

  /** Which of these extents any of them reads, by id in hex. Waits for those that are busy. */
  async heldOf(ids: readonly string[]): Promise<Set<string>> {
    if (ids.length === 0) return new Set();
    const answers = await Promise.all(this.#askAll((holds) => ({ holds, ids })));
    return new Set(answers.flatMap((answer) => (answer && 'held' in answer ? answer.ids : [])));
  }

  /** Has a thread give up what it has free of limits; resolves when the ledger has it. */
  async giveUp(thread: number, accounts: readonly string[]): Promise<void> {
    const worker = this.#workers[thread - 1];
    if (worker) await this.#ask(worker, (giveUp) => ({ giveUp, accounts: [...accounts] }));
  }

  /** Lets requests finish for so long; resolves when all have ended. */
  async close(timeoutMs: number): Promise<void> {
    this.#isClosing = true;
    const exits = this.#workers.map((worker) => new Promise((done) => worker.once('exit', done)));
    this.#tell({ close: { timeoutMs } });
    await Promise.all(exits);
    this.#workers.length = 0;
    this.#questions.answerAll(undefined);
  }

  #tell(message: ToHttpThread): void {
    for (const worker of this.#workers) worker.postMessage(message);
    Atomics.add(new Int32Array(this.#told), 0, 1);
  }

  /** `undefined` stands for one that has ended, or did not answer in time. */
  #askAll(
    ask: (question: number) => ToHttpThread,
    msMax?: number,
  ): Promise<FromHttpThread | undefined>[] {
    return this.#workers.map((worker) => {
      const answer = this.#ask(worker, ask);
      if (msMax === undefined) return answer;
      return Promise.race([answer, sleep(msMax, undefined, { ref: false })]);
    });
  }

  #ask(
    worker: Worker,
    ask: (question: number) => ToHttpThread,
  ): Promise<FromHttpThread | undefined> {
    return this.#questions.ask((question) => worker.postMessage(ask(question)));
  }

  #take(message: FromHttpThread, { worker, thread, desk, turns }: OneThread): void {
    const { onUnsealed, onIntegrityFailure, onLines, onWarning, onFatal, onRecall } = this.#host;
    const { storeDesk } = this.#host;
    if ('lines' in message) onLines(message.lines);
    else if ('samples' in message) this.#host.onSamples(message.samples);
    else if ('measured' in message) this.#questions.answer(message.measured, message);
    else if ('held' in message) this.#questions.answer(message.held, message);
    else if ('recounted' in message) this.#questions.answer(message.recounted, message);
    else if ('gaveUp' in message) this.#questions.answer(message.gaveUp, message);
    else if ('recall' in message) {
      const { recall: recalled, accounts } = message;
      void onRecall(thread, accounts).then(() => worker.postMessage({ recalled }));
    } else if ('promise' in message) {
      const { promise: promised, question } = message;
      const outcome = desk.answer(question);
      worker.postMessage({ promised, outcome } satisfies ToHttpThread);
    } else if ('storeAsked' in message) {
      const { storeAsked: storeAnswered, question } = message;
      void storeDesk.answer(question).then((answer) => {
        worker.postMessage({ storeAnswered, answer } satisfies ToHttpThread);
      });
    } else if ('storeNews' in message) storeDesk.hear(message.storeNews, thread);
    else if ('turn' in message) turns.hear(message);
    else if ('closedRoom' in message) desk.close(message.closedRoom);
    else if ('integrity' in message) onIntegrityFailure(message.integrity);
    else if ('unsealed' in message) onUnsealed(message.unsealed);
    else if ('warning' in message) onWarning(message.warning);
    else if ('fatal' in message) onFatal(message.fatal);
  }
}
