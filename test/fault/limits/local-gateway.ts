// A gateway with its own disk that can be ended and served again, as one with an S3 store can
// (backed-gateway.ts).
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ServedGateway, startServedGateway } from '../../tooling/served-gateway.ts';

export interface LastingGateway {
  /** The one that serves now. */
  readonly gateway: ServedGateway;
  /** Ends the gateway in order and serves its folder again, at another port. */
  restart(): Promise<void>;
  /** The same after SIGKILL. */
  crash(): Promise<void>;
  stop(): Promise<void>;
}

export async function startLocalGateway(args: string[] = []): Promise<LastingGateway> {
  const dataDir = mkdtempSync(join(tmpdir(), 'bursar-limits-'));
  const serve = () => startServedGateway({ dataDir, args });
  let gateway = await serve();
  return {
    get gateway() {
      return gateway;
    },
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
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
