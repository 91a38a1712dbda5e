// The thread that writes one inventory and ends: rendering tens of thousands of rows is nothing for
// the threads that others wait for.
import { parentPort, workerData } from 'node:worker_threads';
import { S3Client } from '@aws-sdk/client-s3';
import { messageOfFailure } from '../../core/command-failure.ts';
import { type InventoryDone, type InventoryJob, writeInventory } from './inventory-job.ts';

export interface InventoryThreadOptions {
  job: InventoryJob;
  /** Where the gateway listens. */
  endpoint: string;
  region: string;
  credentials: { accessKeyId: string; secretAccessKey: string; sessionToken: string };
}

export type InventoryAnswer = InventoryDone | { failed: string };

const { job, ...client } = workerData as InventoryThreadOptions;
const s3 = new S3Client({ ...client, forcePathStyle: true });
try {
  parentPort?.postMessage((await writeInventory(s3, job)) satisfies InventoryAnswer);
} catch (error) {
  parentPort?.postMessage({ failed: messageOfFailure(error) } satisfies InventoryAnswer);
} finally {
  s3.destroy();
}
