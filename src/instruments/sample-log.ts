// Samples on disk: lines of JSON in segments, the oldest of which goes when there are too many.
// Invariants: a sample whose `append` has resolved survives the process and the machine; one writer
// at a time has a name in a folder; and whatever is in the files, reading them takes bounded memory
// and passes over what is not a sample.
import { readdirSync, unlinkSync } from 'node:fs';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { acquireLock } from '../core/database.ts';
import { makeFolderDurably, syncPath } from '../core/durable-file.ts';
import type { Sample, Series } from './sample.ts';
import { parseSample, renderSample } from './sample-line.ts';

export interface SampleLogOptions {
  /**
   * The name of the writer, such as `probe` or `traffic`. Each has its own segments and its own
   * bound.
   */
  name: string;
  segmentBytesMax?: number;
  segmentsMax?: number;
}

interface Entry {
  text: string;
  isDurable: boolean;
  resolve: () => void;
  reject: (error: unknown) => void;
}

const segmentBytesDefault = 16 * 1024 * 1024;
const segmentsDefault = 16;
/** A sample with all its stages takes some 500 bytes. */
const lineBytesMax = 8 * 1024;
const segmentName = /^([a-z]{1,32})-(\d{8})\.jsonl$/;

export class SampleLog {
  readonly #dir: string;
  readonly #name: string;
  readonly #segmentBytesMax: number;
  readonly #segmentsMax: number;
  readonly #release: () => void;
  #number: number;
  #file: FileHandle | null = null;
  #sizeBytes = 0;
  /** Something before the next line may lack its end. */
  #isTorn = false;
  #waiting: Entry[] = [];
  #flushing: Promise<void> | null = null;

  private constructor(dir: string, options: SampleLogOptions, release: () => void) {
    this.#dir = dir;
    this.#name = options.name;
    this.#segmentBytesMax = options.segmentBytesMax ?? segmentBytesDefault;
    this.#segmentsMax = options.segmentsMax ?? segmentsDefault;
    this.#release = release;
    this.#number = this.#numbers().at(-1) ?? 0;
  }

  /**
   * Makes the folder if it is missing. Throws the system's error, or one that says it is in use.
   */
  static async open(dir: string, options: SampleLogOptions): Promise<SampleLog> {
    makeFolderDurably(dir);
    const release = acquireLock(join(dir, `${options.name}.lock`));
    if (!release) throw new Error(`${dir} is in use by another ${options.name}`);
    const log = new SampleLog(dir, options, release);
    try {
      await log.#openSegment(log.#number);
    } catch (error) {
      release();
      throw error;
    }
    return log;
  }

  /** Resolves when the sample is durable; those that come meanwhile share the next sync. */
  append(sample: Sample): Promise<void> {
    return this.#enqueue(renderSample(sample), true);
  }

  /** Resolves when the system has the samples: a crash of the machine may take them. */
  appendSoon(samples: readonly Sample[]): Promise<void> {
    return this.#enqueue(samples.map(renderSample).join(''), false);
  }

  /** After what was given. */
  async close(): Promise<void> {
    await this.#flushing;
    await this.#file?.close();
    this.#release();
  }

  #enqueue(text: string, isDurable: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ text, isDurable, resolve, reject });
      this.#flushing ??= this.#flush();
    });
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      try {
        await this.#write(batch);
        for (const { resolve } of batch) resolve();
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#flushing = null;
  }

  async #write(batch: readonly Entry[]): Promise<void> {
    const text = batch.map((entry) => entry.text).join('');
    const bytes = Buffer.from(this.#isTorn ? `\n${text}` : text);
    if (this.#sizeBytes > 0 && this.#sizeBytes + bytes.length > this.#segmentBytesMax) {
      await this.#openSegment(this.#number + 1);
    }
    if (!this.#file) await this.#openSegment(this.#number);
    const file = this.#file as unknown as FileHandle;
    this.#isTorn = true;
    await file.appendFile(bytes);
    this.#isTorn = false;
    this.#sizeBytes += bytes.length;
    if (batch.some(({ isDurable }) => isDurable)) await file.datasync();
  }

  /**
   * Nothing is written to it before its name is durable. The oldest go when it is there: where none
   * can be made, again and again, those that are stay.
   */
  async #openSegment(number: number): Promise<void> {
    const before = this.#file;
    this.#file = null;
    await before?.close();
    const file = await open(this.#path(number), 'a+', 0o600);
    try {
      const { size } = await file.stat();
      const last = Buffer.alloc(1);
      if (size > 0) await file.read(last, 0, 1, size - 1);
      if (size === 0) await syncPath(this.#dir);
      this.#isTorn = size > 0 && last[0] !== newline;
      this.#sizeBytes = size;
    } catch (error) {
      await file.close();
      throw error;
    }
    this.#number = number;
    this.#file = file;
    for (const old of this.#numbers()) {
      if (old <= number - this.#segmentsMax) unlinkSync(this.#path(old));
    }
  }

  /** Ascending. */
  #numbers(): number[] {
    const names = readdirSync(this.#dir).map((name) => segmentName.exec(name));
    const own = names.filter((match) => match?.[1] === this.#name);
    return own.map((match) => Number(match?.[2])).sort((a, b) => a - b);
  }

  #path(number: number): string {
    return join(this.#dir, `${this.#name}-${String(number).padStart(8, '0')}.jsonl`);
  }
}

export interface SampleFilter {
  /** Not before, milliseconds since the Unix epoch. */
  fromMs?: number;
  /** Before. */
  toMs?: number;
  series?: readonly Series[];
}

/**
 * The samples in a folder: those of one writer after those of another, each in the order they were
 * written. Also while somebody writes; a folder that is not there has none.
 */
export async function* readSamples(dir: string, filter: SampleFilter = {}): AsyncGenerator<Sample> {
  const { fromMs = 0, toMs = Number.POSITIVE_INFINITY, series } = filter;
  for (const name of await listSegments(dir)) {
    for await (const line of readLines(join(dir, name))) {
      const sample = parseSample(line);
      if (!sample || sample.timeMs < fromMs || sample.timeMs >= toMs) continue;
      if (!series || series.includes(sample.series)) yield sample;
    }
  }
}

async function listSegments(dir: string): Promise<string[]> {
  const names = await unlessMissing(readdir(dir));
  return (names ?? []).filter((name) => segmentName.test(name)).sort();
}

const newline = 0x0a;

/** Lines that end and are not too long. */
async function* readLines(path: string): AsyncGenerator<string> {
  // The oldest may go while it is its turn.
  const file = await unlessMissing(open(path, 'r'));
  if (!file) return;
  let rest: Buffer = Buffer.alloc(0);
  let isTooLong = false;
  for await (const piece of file.createReadStream() as AsyncIterable<Buffer>) {
    let begin = 0;
    for (let end = piece.indexOf(newline); end >= 0; end = piece.indexOf(newline, begin)) {
      const line = piece.subarray(begin, end);
      const isWhole = !isTooLong && rest.length + line.length <= lineBytesMax;
      if (isWhole) yield (rest.length > 0 ? Buffer.concat([rest, line]) : line).toString('utf8');
      rest = Buffer.alloc(0);
      isTooLong = false;
      begin = end + 1;
    }
    isTooLong ||= rest.length + piece.length - begin > lineBytesMax;
    rest = isTooLong ? Buffer.alloc(0) : Buffer.concat([rest, piece.subarray(begin)]);
  }
}

async function unlessMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
