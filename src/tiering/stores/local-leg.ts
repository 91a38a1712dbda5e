// The data folder as one of several stores that have the same bytes: its files are then what the
// others have, with what an extent says of itself behind the chunks. Invariant: what is put in the
// place of a file leaves the old one or the new one there, whole.
import fs from 'node:fs';
import { promisify } from 'node:util';
import { monotonicMs } from '../../core/clock.ts';
import { IntegrityError, Refusal } from '../../core/errors.ts';
import { extentBytesMax } from '../../core/limits.ts';
import { localStore } from '../../core/manifest.ts';
import type { ExtentSource, LocalStore } from './local-store.ts';
import type { LegStore, RemoteRead } from './store.ts';
import type { StoreMeter } from './store-meter.ts';
import { causeOf, readFileOfStore } from './unreadable-file.ts';

const read = promisify(fs.read);

export class LocalLeg implements LegStore {
  readonly number = localStore;
  readonly extentBytesMax = extentBytesMax;
  readonly #store: LocalStore;

  constructor(store: LocalStore) {
    this.#store = store;
  }

  get meter(): StoreMeter {
    return this.#store.meter;
  }

  put(id: Buffer, pieces: readonly Buffer[]): Promise<void> {
    return this.replace(id, pieces);
  }

  async replace(id: Buffer, pieces: readonly Buffer[]): Promise<void> {
    try {
      const file = await this.#store.create(id, { replaces: true });
      try {
        let position = 0;
        for (const piece of pieces) {
          await file.write(piece, position);
          position += piece.length;
        }
        await file.finish();
      } catch (error) {
        await file.abort();
        throw error;
      }
    } catch (error) {
      throw refused(error);
    }
  }

  /** What cannot be removed now the sweeper removes. */
  async discard(ids: readonly Buffer[]): Promise<void> {
    await Promise.all(ids.map((id) => this.#store.remove(id).catch(() => {})));
  }

  async read({ id, sizeBytes, position, into, filled, signal }: RemoteRead): Promise<void> {
    const startMs = monotonicMs();
    this.meter.sent('get');
    let at = position;
    await this.#readFile(id, async (source) => {
      if (source.sizeBytes !== sizeBytes) {
        const message = `extent ${id.toString('hex')} has ${source.sizeBytes} bytes`;
        throw new IntegrityError(message, { kind: 'length' });
      }
      at = position;
      for (const [index, piece] of into.entries()) {
        signal?.throwIfAborted();
        await readFully(source, piece, at);
        at += piece.length;
        filled?.(index);
      }
    });
    const durationMs = monotonicMs() - startMs;
    this.meter.answered('get', at - position, durationMs, durationMs);
  }

  async readEnd(
    id: Buffer,
    maxBytes: number,
  ): Promise<{ bytes: Buffer; sizeBytes: number } | undefined> {
    try {
      return await this.#readFile(id, async (source) => {
        const { sizeBytes } = source;
        const bytes = Buffer.allocUnsafe(Math.min(maxBytes, sizeBytes));
        await readFully(source, bytes, sizeBytes - bytes.length);
        return { bytes, sizeBytes };
      });
    } catch (error) {
      if (error instanceof IntegrityError && error.kind === 'missing') return undefined;
      throw error;
    }
  }

  /** Opens a file, has it used, and closes it. */
  #readFile<T>(id: Buffer, use: (source: ExtentSource) => Promise<T>): Promise<T> {
    const file = {
      ...{ name: `extent ${id.toString('hex')}`, store: this.number, meter: this.meter },
      failureOfOne: (error: unknown) => {
        const cause = error instanceof Refusal ? error.cause : undefined;
        const { code, errno } = Object(cause) as NodeJS.ErrnoException;
        const isOfOne = cause instanceof Error && errno !== undefined && causeOf(code) === 'io';
        return isOfOne ? cause : null;
      },
      servesOthers: () => this.#store.servesOthers(id),
    };
    return readFileOfStore(file, async () => {
      const source = await this.#store.open(id).catch((error: unknown) => {
        throw refused(error);
      });
      try {
        return await use(source);
      } finally {
        await source.close();
      }
    });
  }
}

async function readFully(
  { descriptor }: ExtentSource,
  into: Buffer,
  position: number,
): Promise<void> {
  for (let done = 0; done < into.length; ) {
    const left = into.length - done;
    const { bytesRead } = await read(descriptor, into, done, left, position + done).catch(
      (error: unknown) => {
        throw refused(error);
      },
    );
    if (bytesRead === 0) throw new IntegrityError('an extent ended early', { kind: 'length' });
    done += bytesRead;
  }
}

/** What the disk says, as a store says it that cannot now. */
function refused(error: unknown): unknown {
  if (error instanceof IntegrityError || error instanceof Refusal) return error;
  return new Refusal('ServiceUnavailable', { message: 'The store cannot now.', cause: error });
}
