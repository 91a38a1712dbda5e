// Asks witnesses to cosign the log's newest checkpoint, in the background. Invariants: nobody who
// is served waits for one; there is one request at a time to each, bounded in time and bytes; and
// when a witness has cosigned what is not in this log, the log is signed no more.
// Specification: C2SP tlog-witness.

import type { Checkpoint } from '../../audit/log/checkpoint.ts';
import { listCosigned } from '../../audit/log/cosignatures.ts';
import { compareLog } from '../../audit/log/log-comparison.ts';
import { isConsistent, proveConsistency, rootOf, type TileReader } from '../../audit/log/merkle.ts';
import {
  addCosignatures,
  answerBytesMax,
  readAnswer,
  renderAddCheckpoint,
  type Witness,
  type WitnessAnswer,
} from '../../audit/log/witness.ts';
import { everywhere } from '../../authz/oidc/address-policy.ts';
import { askGuarded } from '../../authz/oidc/guarded-request.ts';
import { isoTime, monotonicMs } from '../../core/clock.ts';
import type { Reader } from '../../core/database.ts';
import { reasonOf } from '../alarms/alarm-notifier.ts';
import type { LogHead } from './log-head.ts';

export interface WitnessesOptions {
  witnesses: readonly Witness[];
  head: Pick<
    LogHead,
    'note' | 'checkpoint' | 'size' | 'noteFor' | 'refusal' | 'refuse' | 'receiveCosigned'
  >;
  read: Reader;
  tiles: TileReader;
  ledger: {
    maintain(work: { kind: 'noteCosigned'; witness: string; note: string }): Promise<number>;
  };
  onError: (error: unknown) => void;
  /** Between two rounds, milliseconds. */
  intervalMs?: number;
  /** What one request may take, milliseconds. */
  attemptMs?: number;
}

const intervalMsDefault = 5000;
const attemptMsDefault = 10_000;
/** A log that does not grow is cosigned anew so often: a cosignature says when. */
const refreshMs = 3_600_000;
const pauseMsMax = 300_000;

/** What is known of one, and when it is asked again. */
interface Line {
  witness: Witness;
  /** Leaves of the newest checkpoint that it has cosigned, as far as is known. */
  seen: number;
  cosignedSize: number | null;
  cosignedMs: number | null;
  problem: string | null;
  failures: number;
  /** On the monotonic clock. */
  notBeforeMs: number;
}

/** What the operator sees of one. */
export interface WitnessState {
  name: string;
  url: string;
  /** Leaves of the newest checkpoint that it cosigned; null: none. */
  cosignedSize: number | null;
  cosignedAt: string | null;
  /** Why the last request brought no cosignature; null: it did. */
  problem: string | null;
}

export class Witnesses {
  readonly #options: WitnessesOptions;
  readonly #lines: Line[];
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #round: Promise<void> = Promise.resolve();

  private constructor(options: WitnessesOptions) {
    this.#options = options;
    this.#lines = options.witnesses.map((witness) => ({
      ...{ witness, seen: 0, cosignedSize: null, cosignedMs: null },
      ...{ problem: null, failures: 0, notBeforeMs: 0 },
    }));
  }

  /**
   * Asks each once before anybody is served, for at most `firstMs`: after a restore it is the
   * witnesses who know that the log was longer. Then goes on in the background.
   */
  static async open(options: WitnessesOptions, firstMs: number): Promise<Witnesses> {
    const witnesses = new Witnesses(options);
    await witnesses.#load();
    await witnesses.#runRound(firstMs).catch(options.onError);
    witnesses.#schedule();
    return witnesses;
  }

  state(): WitnessState[] {
    return this.#lines.map(({ witness, cosignedSize, cosignedMs, problem }) => ({
      name: witness.key.name,
      url: witness.url,
      cosignedSize,
      cosignedAt: cosignedMs === null ? null : isoTime(cosignedMs),
      problem,
    }));
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    if (this.#timer) clearTimeout(this.#timer);
    await this.#round;
  }

  /** What earlier runs were given. */
  async #load(): Promise<void> {
    const { read, head, tiles } = this.#options;
    for (const { witness, note, checkpoint } of await listCosigned(read)) {
      const { size } = head;
      if (checkpoint.origin !== head.checkpoint?.origin) continue;
      if ((await compareLog({ size, tiles }, checkpoint)) !== 'extends') {
        const here = `${size} records are here`;
        head.refuse(`witness ${witness} has cosigned ${checkpoint.size} others, and ${here}`);
        return;
      }
      for (const line of this.#lines) {
        if (nameOf(line.witness) !== witness) continue;
        line.seen = checkpoint.size;
        line.cosignedSize = checkpoint.size;
      }
      head.receiveCosigned(note);
    }
  }

  #schedule(): void {
    const { intervalMs = intervalMsDefault } = this.#options;
    if (this.#stopping.signal.aborted || this.#lines.length === 0) return;
    // Between three quarters of it and all, so that gateways do not come together.
    this.#timer = setTimeout(
      () => {
        const { onError } = this.#options;
        this.#round = this.#runRound()
          .catch(onError)
          .then(() => this.#schedule());
      },
      intervalMs * (0.75 + Math.random() / 4),
    );
    this.#timer.unref();
  }

  /** All that are due, about the same checkpoint, so that it has all their cosignatures. */
  async #runRound(boundMs: number = Number.POSITIVE_INFINITY): Promise<void> {
    const { head } = this.#options;
    const { note, checkpoint } = head;
    if (note === null || checkpoint === null || checkpoint.size === 0) return;
    const due = this.#lines.filter((line) => isDue(line, checkpoint));
    const { attemptMs = attemptMsDefault } = this.#options;
    const asked = { note, checkpoint, attemptMs: Math.min(attemptMs, boundMs) };
    const lines = await Promise.all(due.map((line) => this.#askOne(line, asked)));
    // Others may have cosigned the same one in an earlier round.
    const before = head.noteFor(checkpoint.size - 1);
    let cosigned = before?.checkpoint.size === checkpoint.size ? before.note : note;
    const first = cosigned;
    for (const [i, line] of lines.entries()) {
      if (line === null || head.refusal !== null) continue;
      cosigned = addCosignatures(cosigned, [line]);
      const witness = nameOf((due[i] as Line).witness);
      await this.#options.ledger.maintain({ kind: 'noteCosigned', witness, note: cosigned });
    }
    if (cosigned !== first && head.refusal === null) head.receiveCosigned(cosigned);
  }

  /** Its cosignature; null: it gave none, and the line says why. Never rejects. */
  async #askOne(line: Line, asked: Asked): Promise<string | null> {
    try {
      const answer = await this.#askUntilKnown(line, asked);
      const cosigned = this.#judge(line, asked.checkpoint, answer);
      line.problem = null;
      line.failures = 0;
      return cosigned;
    } catch (error) {
      if (this.#stopping.signal.aborted) return null;
      line.problem = reasonOf(error);
      line.failures += 1;
      const { intervalMs = intervalMsDefault } = this.#options;
      const pauseMs = Math.min(intervalMs * 2 ** Math.min(line.failures, 16), pauseMsMax);
      line.notBeforeMs = monotonicMs() + pauseMs * (0.5 + Math.random() / 2);
      return null;
    }
  }

  /** Asks again where it tells which size it has seen. */
  async #askUntilKnown(line: Line, asked: Asked): Promise<WitnessAnswer> {
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(asked.attemptMs)]);
    const oldSize = Math.min(line.seen, asked.checkpoint.size);
    const answer = await this.#ask(line, oldSize, asked, signal);
    if (answer.kind !== 'seen') return answer;
    line.seen = answer.size;
    if (answer.size > asked.checkpoint.size) return answer;
    return this.#ask(line, answer.size, asked, signal);
  }

  async #ask(
    { witness }: Line,
    oldSize: number,
    { note, checkpoint }: Asked,
    signal: AbortSignal,
  ): Promise<WitnessAnswer> {
    const { tiles } = this.#options;
    const proof = await proveConsistency(tiles, oldSize, checkpoint.size);
    const old = { size: oldSize, root: await rootOf(tiles, oldSize) };
    // So that what the witness says of it says something of the log.
    if (!isConsistent(old, checkpoint, proof)) throw new Error('the proof for it is wrong');
    const answer = await sendTo(witness, renderAddCheckpoint({ oldSize, proof, note }), signal);
    return readAnswer(witness, note, answer);
  }

  /** What an answer means for the log. Throws for one that is no help. */
  #judge(line: Line, { size }: Checkpoint, answer: WitnessAnswer): string {
    const { head } = this.#options;
    const { name } = line.witness.key;
    switch (answer.kind) {
      case 'cosigned':
        line.seen = size;
        line.cosignedSize = size;
        line.cosignedMs = answer.timeS * 1000;
        line.notBeforeMs = 0;
        return answer.line;
      case 'seen': {
        // Anybody may show a witness what has been published meanwhile.
        if (answer.size <= head.size) throw new Error('it was shown a newer checkpoint meanwhile');
        const here = `${head.size} records are here`;
        head.refuse(
          `witness ${name} has seen ${answer.size} records of this log, and ${here}: ` +
            'the database is older than what was signed',
        );
        throw new Error('it has seen a longer log');
      }
      case 'inconsistent':
        head.refuse(
          `witness ${name} has seen another log under this name: its first ${line.seen} records ` +
            'are not those that are here',
        );
        throw new Error('it has seen another log');
      case 'refused':
        throw new Error(answer.reason);
    }
  }
}

/**
 * How many leaves a witness has seen of a log. `empty`: the log's signed checkpoint without leaves,
 * of which every log is an extension. Throws an Error that says why it is not known.
 */
export async function askSeenSize(witness: Witness, empty: string): Promise<number> {
  const body = renderAddCheckpoint({ oldSize: 0, proof: [], note: empty });
  const answer = await sendTo(witness, body, AbortSignal.timeout(attemptMsDefault));
  const read = readAnswer(witness, empty, answer);
  if (read.kind === 'seen') return read.size;
  if (read.kind === 'cosigned') return 0;
  throw new Error(read.kind === 'refused' ? read.reason : 'it has seen another log');
}

interface Asked {
  note: string;
  checkpoint: Checkpoint;
  attemptMs: number;
}

function isDue({ cosignedSize, cosignedMs, notBeforeMs }: Line, { size }: Checkpoint): boolean {
  if (monotonicMs() < notBeforeMs) return false;
  return cosignedSize !== size || cosignedMs === null || Date.now() - cosignedMs > refreshMs;
}

/** The operator chose it: it may be in a private network, or on this machine. */
const policy = everywhere;

async function sendTo(
  { url }: Witness,
  body: string,
  signal: AbortSignal,
): Promise<{ status: number; contentType: string; body: string }> {
  const headers = {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    'user-agent': 'bursar',
  };
  const to = new URL(`${url}/add-checkpoint`);
  const request = { url: to, policy, method: 'POST', headers, body, signal } as const;
  return askGuarded(request, async (answer) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of answer) {
      bytes += (chunk as Buffer).length;
      if (bytes > answerBytesMax) throw new Error('its answer is too long');
      chunks.push(chunk as Buffer);
    }
    const contentType = answer.headers['content-type'] ?? '';
    return { status: answer.statusCode ?? 0, contentType, body: decode(Buffer.concat(chunks)) };
  });
}

function decode(bytes: Buffer): string {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
}

function nameOf({ key }: Witness): string {
  return `${key.name}+${key.id}`;
}
