// A gateway whose objects are in a bucket of a real S3 server.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';

export const storeName = 'cloud';
const backendBucket = 'backing';
const prefix = 'bursar';

export interface BackedGateway {
  /** The one that serves now. */
  readonly gateway: ServedGateway;
  backend: S3Backend;
  /** Where the backend keeps what the gateway's store has, as plain files. */
  storeDir: string;
  /** Ends the gateway in order and serves its folder again, at another port. */
  restart(): Promise<void>;
  /** The same after SIGKILL. */
  crash(): Promise<void>;
  stop(): Promise<void>;
}

export interface BackedOptions {
  /** Of the versitygw. */
  path: string;
  /** In front of the backend, such as a proxy; default: the backend itself. */
  endpointOf?: (backend: S3Backend) => Promise<string>;
  /** More keys of the store's settings. */
  settings?: Record<string, string>;
  args?: string[];
  env?: Record<string, string>;
}

export async function startBackedGateway(options: BackedOptions): Promise<BackedGateway> {
  const backend = await startVersitygw(options.path);
  backend.makeBucket(backendBucket);
  const dataDir = mkdtempSync(join(tmpdir(), 'bursar-backed-'));
  const remove = async () => {
    await backend.stop();
    rmSync(dataDir, { recursive: true, force: true });
  };
  const endpoint = (await options.endpointOf?.(backend)) ?? backend.endpoint;
  const store = { url: `s3://${backendBucket}/${prefix}`, endpoint, pathStyle: 'yes' };
  const serve = () =>
    startServedGateway({
      dataDir,
      args: ['--store', storeName, ...(options.args ?? [])],
      env: {
        BURSAR_STORES: JSON.stringify({ [storeName]: { ...store, ...options.settings } }),
        AWS_ACCESS_KEY_ID: backend.credentials.accessKeyId,
        AWS_SECRET_ACCESS_KEY: backend.credentials.secretAccessKey,
        AWS_EC2_METADATA_DISABLED: 'true',
        ...options.env,
      },
    });
  try {
    let gateway = await serve();
    return {
      get gateway() {
        return gateway;
      },
      backend,
      storeDir: join(backend.dataDir, backendBucket, prefix),
      restart: async () => {
        await gateway.stop();
        gateway = await serve();
      },
      crash: async () => {
        await gateway.kill();
        gateway = await serve();
      },
      stop: async () => {
        await gateway.stop();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}
