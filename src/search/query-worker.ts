// The thread that reads the index for queries, so that none of them holds up anything else.
import { parentPort, workerData } from 'node:worker_threads';
import { CandidateReader, type Candidates, type Wanted } from './candidates.ts';
import { giveUp, isDamage } from './object-index.ts';
import type { IndexedMetadata } from './postings.ts';
import { WatchedFile } from './watched-file.ts';

export interface QueryWorkerOptions {
  indexPath: string;
  metadata: IndexedMetadata;
}

export type ToQueryWorker = { close: true } | { id: number; wanted: Wanted };

export interface FromQueryWorker {
  id: number;
  /** null: all objects are to be looked at. */
  found: Candidates | null;
}

const port = parentPort;
if (!port) throw new Error('the index of objects is read in a worker thread');
const { indexPath, metadata } = workerData as QueryWorkerOptions;

let opened: { reader: CandidateReader; file: WatchedFile } | null = null;
/** One after the other. */
let turn = Promise.resolve();
port.on('message', (message: ToQueryWorker) => {
  turn = turn.then(async () => {
    if ('close' in message) {
      closeIndex();
      port.close();
      return;
    }
    const { id, wanted } = message;
    port.postMessage({ id, found: await answer(wanted) } satisfies FromQueryWorker);
  });
});

/** An index that cannot be read leads to nothing, and nothing of it is waited for. */
async function answer(wanted: Wanted): Promise<Candidates | null> {
  try {
    return await open().find(wanted);
  } catch (cause) {
    const isBroken = isDamage(cause) && opened?.file.isOther() === false;
    closeIndex();
    // The thread that keeps it makes another where there is none.
    if (isBroken) giveUp(indexPath, cause);
    return null;
  }
}

function open(): CandidateReader {
  if (opened?.file.isOther()) closeIndex();
  // Should another take its place meanwhile, that is seen at the next look.
  const file = new WatchedFile(indexPath);
  opened ??= { file, reader: new CandidateReader(indexPath, metadata) };
  return opened.reader;
}

function closeIndex(): void {
  opened?.reader.close();
  opened = null;
}
