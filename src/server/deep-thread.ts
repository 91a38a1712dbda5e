// The thread of one comparison of the folder that a gateway serves.
import { parentPort, workerData } from 'node:worker_threads';
import { messageOfError } from '../audit/verify/guard.ts';
import type { Difference } from '../audit/verify/record-fields.ts';
import type { openDeepParts } from './folder/deep-parts.ts';
import { type DeepSummary, verifyDeep } from './folder/deep-verification.ts';

export interface DeepThreadOptions {
  config: Parameters<typeof openDeepParts>[0];
  /** Where it is kept how far the run has come. */
  stateFile: string;
}

export type DeepThreadMessage =
  | { kind: 'progress'; records: number }
  | { kind: 'difference'; difference: Difference }
  | { kind: 'done'; summary: DeepSummary }
  | { kind: 'failed'; why: string };

const { config, stateFile } = workerData as DeepThreadOptions;
const post = (message: DeepThreadMessage) => parentPort?.postMessage(message);
try {
  const summary = await verifyDeep(config, {
    ...{ checkpointFiles: [], keys: [], withData: false, stateFile, mayBeginAnew: true },
    onDifference: (difference) => post({ kind: 'difference', difference }),
    onProgress: (_, records) => post({ kind: 'progress', records }),
  });
  post({ kind: 'done', summary });
} catch (error) {
  post({ kind: 'failed', why: messageOfError(error) });
}
