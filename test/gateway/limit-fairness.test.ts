// Whose limits a request draws on, and on how much of them: nobody uses up what is others' by
// asking for what they may not have, nor by announcing what nobody reads.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { RawClient } from '../limits/raw-client.ts';
import {
  as,
  callNative,
  exchange,
  newName,
  newPrincipal,
  patternOf,
  send,
  signMessage,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { putLimits } from '../tooling/limits.ts';

let target: Target;
let alice: Target;
let raw: RawClient;
const bucket = newName();
const limited = `bucket:default/${bucket}`;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  alice = as(target, await newPrincipal(target, { name: 'alice' }));
  raw = new RawClient({ ...alice, ...alice.keys });
  expect((await send(alice, { method: 'PUT', path: `/${bucket}` })).status).toBe(200);
});
afterEach(() => putLimits(target, limited, null));
afterAll(async () => {
  raw?.close();
  await target?.stop();
});

/** Counted of the bucket, once all is recorded. */
async function requestsOf(): Promise<number> {
  const { status } = await send(alice, { method: 'PUT', path: `/${bucket}/last`, body: '' });
  expect(status).toBe(200);
  const { usage } = await callNative(target, 'GET', '/_/v1/usage', undefined, [['limit', '200']]);
  const found = usage.find(({ account }: { account: string }) => account === limited);
  return found.requests;
}

describe('a bucket of somebody else', () => {
  it('is charged nothing when its name is asked for a new one', async () => {
    const before = await requestsOf();
    const bob = as(target, await newPrincipal(target));
    const { code } = await send(bob, { method: 'PUT', path: `/${bucket}` });
    expect(code).toBe('BucketAlreadyExists');
    expect(await requestsOf()).toBe(before + 1);
  });

  it('is not said to be used up when its name is asked for a new one', async () => {
    const bob = as(target, await newPrincipal(target));
    await putLimits(target, limited, { requests: { total: 0 } });
    const { code } = await send(bob, { method: 'PUT', path: `/${bucket}` });
    expect(code).toBe('BucketAlreadyExists');
  });
});

describe('a body that is announced', () => {
  it('with a download keeps no upload out', async () => {
    const object = `/${bucket}/large`;
    const body = patternOf(32 * 1024 * 1024);
    expect((await send(alice, { method: 'PUT', path: object, body })).status).toBe(200);
    await putLimits(target, limited, { ingressBytes: { total: body.length + 1000 } });
    const reader = raw.connect();
    reader.write(raw.head('GET', object, { 'content-length': '1000' }));
    await new Promise((resolve) => reader.once('data', resolve));
    reader.pause();
    const small = { method: 'PUT', path: `/${bucket}/small`, body: patternOf(900) };
    expect((await send(alice, small)).code).toBeUndefined();
    reader.destroy();
  });

  it('longer than any number of bytes is the client’s mistake', async () => {
    await putLimits(target, limited, { ingressBytes: { total: 1000 } });
    const { path, headers } = signMessage(alice, {
      method: 'PUT',
      path: `/${bucket}/endless`,
      payload: 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
      headers: { 'x-amz-decoded-content-length': '10' },
    });
    const endless = { ...headers, 'content-length': '9999999999999999' };
    const { status, code } = await exchange(alice, 'PUT', path, endless);
    expect({ status, code }).toEqual({ status: 400, code: 'InvalidArgument' });
  });
});
