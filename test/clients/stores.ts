// The gateways that clients are run against: one on the local store, one on an S3 store.
import { afterAll, beforeAll, describe } from 'vitest';
import { startEmbeddedTarget, startS3Target, type Target } from '../protocol/target.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';

export type ClientTarget = Pick<Target, 'endpoint' | 'keys'>;

const timeoutMs = 60_000;

export function describeOnLocalStore(body: (targetOf: () => ClientTarget) => void): void {
  describe('on the local store', () => withTarget(startEmbeddedTarget, body));
}

export function describeOnBothStores(body: (targetOf: () => ClientTarget) => void): void {
  describeOnLocalStore(body);
  describeOnS3Store(body);
}

export function describeOnS3Store(body: (targetOf: () => ClientTarget) => void): void {
  describeWithTool(versitygw, 'on an S3 store', (path) => {
    withTarget(() => startS3Target(path), body);
  });
}

function withTarget(
  start: () => Promise<Target>,
  body: (targetOf: () => ClientTarget) => void,
): void {
  let target: Target;
  beforeAll(async () => {
    target = await start();
  }, timeoutMs);
  afterAll(() => target?.stop(), timeoutMs);
  body(() => target);
}
