// Bodies whose accounts have a rate of bytes: they move stretch by stretch, each when its turn has
// come. Invariant: while a stream waits for its turn it holds no chunk buffer, so who is slowed
// down by us keeps nobody else waiting. The one exception is a client that sends far more than it
// says.
import { chunkBytes, extentBytesMax } from '../../core/limits.ts';
import { countBytes, type ExtentRun, sliceRuns } from '../../core/manifest.ts';
import type { StageClock } from '../../instruments/stage-clock.ts';
import type { ShapedStream } from '../../quota/rates.ts';

type Bytes = AsyncGenerator<Buffer, void, void>;
type Pace = Pick<ShapedStream, 'bytesPerSecond' | 'pieceBytes' | 'pass'>;

/** A stream whose waiting for its turn is seen in the request's stages. */
export class TimedStream implements Pace {
  readonly #stream: ShapedStream;
  readonly #clock: StageClock;

  constructor(stream: ShapedStream, clock: StageClock) {
    this.#stream = stream;
    this.#clock = clock;
  }

  get bytesPerSecond(): number {
    return this.#stream.bytesPerSecond;
  }

  get pieceBytes(): number {
    return this.#stream.pieceBytes;
  }

  pass(bytes: number): Promise<void> | null {
    return this.#clock.during('reserve', this.#stream.pass(bytes));
  }
}

/** Frames that are larger than what they carry may come in so far. */
const owedBytesMax = 2 * chunkBytes;
/** Stretches of a download take about this part of a second at full rate. */
const stretchesPerSecond = 4;

/** What `runs` hold, as `read` gives it of some runs. */
export async function* readInTurns(
  stream: Pace,
  runs: readonly ExtentRun[],
  read: (runs: readonly ExtentRun[]) => Bytes,
): Bytes {
  const sizeBytes = countBytes(runs);
  // From the second on they begin where a chunk does, so that no chunk is read twice.
  let end = stretchBytesOf(stream) - ((runs[0]?.offset ?? 0) % chunkBytes);
  for (let from = 0; from < sizeBytes; from = end, end += stretchBytesOf(stream)) {
    const to = Math.min(end, sizeBytes);
    await stream.pass(to - from);
    yield* read(sliceRuns(runs, from, to));
  }
}

/** Whole chunks, up to an extent. */
function stretchBytesOf({ bytesPerSecond }: Pace): number {
  const chunks = Math.floor(bytesPerSecond / stretchesPerSecond / chunkBytes);
  return Math.min(Math.max(chunks * chunkBytes, chunkBytes), extentBytesMax);
}

/** Bytes that are in memory already. */
export async function* sendInTurns(stream: Pace, bytes: Buffer): Bytes {
  const { pieceBytes } = stream;
  for (let from = 0; from < bytes.length; from += pieceBytes) {
    const piece = bytes.subarray(from, from + pieceBytes);
    await stream.pass(piece.length);
    yield piece;
  }
}

/**
 * A body that comes in: what came too fast is made up for at the end of each chunk, and at its end.
 */
export class ShapedIntake {
  readonly #stream: Pace;
  readonly #write: (data: Buffer) => Promise<void> | null;
  /** Came in on the wire, and was not waited for. */
  #owedBytes = 0;
  /** Of the chunk under way. */
  #filledBytes = 0;

  constructor(stream: Pace, write: (data: Buffer) => Promise<void> | null) {
    this.#stream = stream;
    this.#write = write;
  }

  /** So much came on the wire. */
  count(bytes: number): void {
    this.#owedBytes += bytes;
  }

  /** After that was written: waits where it was more than chunks account for. */
  after(written: Promise<void> | null): Promise<void> | null {
    if (written) return written.then(() => this.#settle(owedBytesMax) ?? undefined);
    return this.#settle(owedBytesMax);
  }

  /** Writes decoded bytes, up to the end of a chunk before it waits. */
  write(data: Buffer): Promise<void> | null {
    const room = chunkBytes - this.#filledBytes;
    if (data.length < room) {
      this.#filledBytes += data.length;
      return this.#write(data);
    }
    this.#filledBytes = 0;
    return this.#writeAndWait(data, room);
  }

  /** Waits for what is still owed. */
  finish(): Promise<void> | null {
    return this.#settle(1);
  }

  async #writeAndWait(data: Buffer, room: number): Promise<void> {
    await this.#write(data.subarray(0, room));
    await this.#settle(1);
    if (data.length > room) await this.write(data.subarray(room));
  }

  #settle(leastBytes: number): Promise<void> | null {
    const bytes = this.#owedBytes;
    if (bytes < leastBytes) return null;
    this.#owedBytes = 0;
    return this.#stream.pass(bytes);
  }
}
