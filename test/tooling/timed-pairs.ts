// Does the time of an answer tell two questions apart? Both are asked in turn, in a random order,
// over one connection that stays, and the differences of the pairs are looked at: their trimmed
// mean, and how many of its standard errors it is from nothing (Yuen's, with a fifth of the pairs
// cut at each end: a few slow answers say nothing).
import { connect, type Socket } from 'node:net';

/** Requests whose answers must take as long as each other's, as they are on the wire. */
export interface TimedPair {
  /** Of what is there; of several, one at random. */
  there: readonly Buffer[];
  /** Of what is not. */
  missing: readonly Buffer[];
}

export interface PairVerdict {
  /** Microseconds that an answer about what is there takes longer. */
  differenceUs: number;
  /** The same in its standard errors. */
  errors: number;
  /** Status lines that were seen. */
  statuses: ReadonlySet<string>;
}

const trimmedShare = 0.2;
const warmUpRounds = 200;

/** Asks each pair `rounds` times, all of them in turn. Throws when the connection ends. */
export async function timePairs(
  endpoint: string,
  pairs: Readonly<Record<string, TimedPair>>,
  rounds: number,
): Promise<Record<string, PairVerdict>> {
  const line = new TimedLine(endpoint);
  const names = Object.keys(pairs);
  const differences = new Map(names.map((name) => [name, [] as number[]]));
  const statuses = new Map(names.map((name) => [name, new Set<string>()]));
  for (let round = -warmUpRounds; round < rounds; round++) {
    for (const name of names) {
      const { there, missing } = pairs[name] as TimedPair;
      const isThereFirst = Math.random() < 0.5;
      const [first, second] = isThereFirst ? [there, missing] : [missing, there];
      const a = await line.ask(anyOf(first));
      const b = await line.ask(anyOf(second));
      statuses.get(name)?.add(a.status).add(b.status);
      const difference = isThereFirst ? a.us - b.us : b.us - a.us;
      if (round >= 0) differences.get(name)?.push(difference);
    }
  }
  line.close();
  return Object.fromEntries(
    names.map((name) => [
      name,
      { ...judge(differences.get(name) ?? []), statuses: statuses.get(name) ?? new Set() },
    ]),
  );
}

function anyOf(requests: readonly Buffer[]): Buffer {
  return requests[Math.floor(Math.random() * requests.length)] as Buffer;
}

function judge(differences: number[]): Pick<PairVerdict, 'differenceUs' | 'errors'> {
  const sorted = Float64Array.from(differences).sort();
  const count = sorted.length;
  const cut = Math.floor(count * trimmedShare);
  const kept = sorted.subarray(cut, count - cut);
  const mean = kept.reduce((sum, one) => sum + one, 0) / kept.length;
  const [low, high] = [kept[0] as number, kept[kept.length - 1] as number];
  const winsorized = sorted.map((one) => Math.min(Math.max(one, low), high));
  const middle = winsorized.reduce((sum, one) => sum + one, 0) / count;
  const variance = winsorized.reduce((sum, one) => sum + (one - middle) ** 2, 0) / (count - 1);
  const error = Math.sqrt(variance / count) / (1 - 2 * trimmedShare);
  return { differenceUs: mean, errors: mean / error };
}

/** One connection, on which one request is under way at a time. */
class TimedLine {
  readonly #socket: Socket;
  #received = '';
  #onAnswer: ((error?: Error) => void) | null = null;

  constructor(endpoint: string) {
    const { hostname, port } = new URL(endpoint);
    this.#socket = connect({ host: hostname, port: Number(port), noDelay: true });
    this.#socket.on('data', (bytes: Buffer) => {
      this.#received += bytes.toString('latin1');
      if (isWhole(this.#received)) this.#onAnswer?.();
    });
    this.#socket.on('close', () => this.#onAnswer?.(new Error('the connection was closed')));
    this.#socket.on('error', () => {});
  }

  async ask(request: Buffer): Promise<{ us: number; status: string }> {
    this.#received = '';
    const begun = process.hrtime.bigint();
    await new Promise<void>((resolve, reject) => {
      this.#onAnswer = (error) => (error ? reject(error) : resolve());
      this.#socket.write(request);
    });
    const us = Number(process.hrtime.bigint() - begun) / 1000;
    return { us, status: this.#received.slice(9, 12) };
  }

  close(): void {
    this.#onAnswer = null;
    this.#socket.destroy();
  }
}

function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return false;
  const head = text.slice(0, end);
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
  if (length !== undefined) return text.length >= end + 4 + Number(length);
  return /\r\ntransfer-encoding: chunked/i.test(head) ? text.endsWith('0\r\n\r\n') : true;
}
