// A store of the built code in front of a real S3 server, through the proxy that injects faults.
import { randomBytes } from 'node:crypto';
import { StoreMeter } from '#bursar/instruments/store-meter.js';
import { failureCauses } from '#bursar/tiering/stores/attempt-failure.js';
import type { S3StoreOptions } from '#bursar/tiering/stores/s3/options.js';
import { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { FaultProxy } from '../tooling/fault-proxy.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';

export interface S3Rig {
  backend: S3Backend;
  proxy: FaultProxy;
  /** A store of its own prefix, with short pauses; closed by `stop`. */
  open(options?: Partial<S3StoreOptions>): Promise<S3Store>;
  stop(): Promise<void>;
}

export const bucket = 'bucket';
let count = 0;

export async function startS3Rig(versitygw: string): Promise<S3Rig> {
  const backend = await startVersitygw(versitygw);
  backend.makeBucket(bucket);
  const proxy = await FaultProxy.start(backend.port);
  const stores: S3Store[] = [];
  return {
    backend,
    proxy,
    open: async (options = {}) => {
      const store = await S3Store.open({
        number: 2,
        name: 'remote',
        meter: new StoreMeter({ causes: failureCauses }),
        url: `s3://${bucket}/prefix-${++count}`,
        endpoint: proxy.endpoint,
        region: backend.region,
        credentials: backend.credentials,
        // Long enough for a busy machine; tests of the timeouts set their own.
        connectTimeoutMs: 5000,
        firstByteTimeoutMs: 5000,
        stallTimeoutMs: 5000,
        retryPolicy: { triesMax: 5, pauseMsMin: 1, pauseMsMax: 10 },
        // Only the tests of the breaker want it to open.
        breaker: { failuresMax: 1000, pauseMsMin: 20, pauseMsMax: 200 },
        ...options,
      });
      stores.push(store);
      return store;
    },
    stop: async () => {
      await Promise.all(stores.map((store) => store.close()));
      await proxy.stop();
      await backend.stop();
    },
  };
}

/** Random pieces as the data path hands them over: views of shared memory. */
export function piecesOf(sizesBytes: readonly number[]): Buffer[] {
  return sizesBytes.map((size) => {
    const piece = Buffer.from(new SharedArrayBuffer(size));
    randomBytes(size).copy(piece);
    return piece;
  });
}

export function emptyLike(pieces: readonly Buffer[]): Buffer[] {
  return pieces.map((piece) => Buffer.alloc(piece.length));
}

export function sizeOf(pieces: readonly Buffer[]): number {
  return pieces.reduce((sum, piece) => sum + piece.length, 0);
}

export function newId(): Buffer {
  return randomBytes(16);
}

/** All of what `list` gives. */
export async function listed(store: S3Store): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for await (const { id, sizeBytes } of store.list()) found[id.toString('hex')] = sizeBytes;
  return found;
}

/** Reads a whole extent. */
export async function readWhole(store: S3Store, id: Buffer, sizeBytes: number): Promise<Buffer> {
  const into = Buffer.alloc(sizeBytes);
  await store.read({ id, sizeBytes, position: 0, into: [into] });
  return into;
}
