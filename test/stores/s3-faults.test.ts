import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import type { FailureCause } from '#bursar/tiering/stores/attempt-failure.js';
import type { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import type { Fault } from '../tooling/fault-proxy.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import {
  emptyLike,
  listed,
  newId,
  piecesOf,
  readWhole,
  type S3Rig,
  sizeOf,
  startS3Rig,
} from './s3-rig.ts';

vi.setConfig({ testTimeout: 60_000 });

const sizes = [262_176, 262_176, 100_000];
const middle = 300_000;

type Case = [title: string, fault: Fault, cause: FailureCause];

const slowDown: Fault = { kind: 'status', status: 503, code: 'SlowDown' };
const internalError: Fault = { kind: 'status', status: 500, code: 'InternalError' };

const readFaults: Case[] = [
  ['reset before the answer', { kind: 'reset', at: 'answer' }, 'reset'],
  ['reset in mid-body', { kind: 'reset', at: 'download', afterBytes: middle }, 'truncated'],
  ['truncated', { kind: 'truncate', afterBytes: middle }, 'truncated'],
  ['stalled in mid-body', { kind: 'stall', at: 'download', afterBytes: middle }, 'stall'],
  ['never given', { kind: 'stall', at: 'answer' }, 'timeout-first-byte'],
  ['slow to begin', { kind: 'slow-first-byte', delayMs: 10_000 }, 'timeout-first-byte'],
  ['a 500', internalError, 'http-500'],
  ['a 502 of a proxy', { kind: 'status', status: 502, code: 'BadGateway' }, 'http-502'],
  ['a 503 SlowDown', slowDown, 'http-503'],
  ['a 429', { kind: 'status', status: 429, code: 'TooManyRequests' }, 'http-503'],
  ['a success with an error document', { kind: 'error-in-200' }, 'error-in-200'],
  [
    "an error document under the data's own head",
    { kind: 'error-in-200', keepHeaders: true },
    'wrong-length',
  ],
  ['shorter, and says so', { kind: 'shorten', byBytes: 10 }, 'wrong-length'],
  ['without a length', { kind: 'no-length' }, 'wrong-length'],
  ['of another range', { kind: 'other-range' }, 'wrong-range'],
  ['the page of something else', { kind: 'portal' }, 'error-in-200'],
  ['not HTTP', { kind: 'garbage' }, 'wrong-body'],
];

/** The server does not store the extent. */
const writeFaults: Case[] = [
  ['reset in mid-upload', { kind: 'reset', at: 'upload', afterBytes: middle }, 'reset'],
  ['answered with a 500', internalError, 'http-500'],
  ['answered with a 503 SlowDown', slowDown, 'http-503'],
  [
    'answered with a conflict',
    { kind: 'status', status: 409, code: 'ConditionalRequestConflict' },
    'conflict',
  ],
  ['damaged on the way', { kind: 'flip', at: 'upload', offset: middle }, 'damaged'],
];

/** The server stores it, and the store does not hear of it. */
const answerFaults: Case[] = [
  ['reset', { kind: 'reset', at: 'answer' }, 'reset'],
  ['never given', { kind: 'stall', at: 'answer' }, 'timeout-first-byte'],
  ['a 500', { ...internalError, carriedOut: true }, 'http-500'],
  ['a success with an error document', { kind: 'error-in-200' }, 'error-in-200'],
  ['not HTTP', { kind: 'garbage' }, 'wrong-body'],
];

describeWithTool(versitygw, 'an S3 store on a faulty network', (path) => {
  let rig: S3Rig;
  let store: S3Store;

  beforeAll(async () => {
    rig = await startS3Rig(path);
    store = await rig.open({ firstByteTimeoutMs: 1000, stallTimeoutMs: 1000 });
  });
  afterAll(() => rig?.stop());
  beforeEach(() => {
    rig.proxy.choose = () => undefined;
  });

  /** The next `count` requests of `method` meet the fault. */
  function inject(method: string, fault: Fault, count = Number.POSITIVE_INFINITY): void {
    let left = count;
    rig.proxy.choose = (request) => {
      if (request.method !== method || left === 0) return undefined;
      left--;
      return fault;
    };
  }

  const retries = (cause: FailureCause): number => store.state().retries[cause] ?? 0;

  it.each(readFaults)('gives the right bytes when an answer is %s', async (_, fault, cause) => {
    const id = newId();
    const pieces = piecesOf(sizes);
    await store.put(id, pieces);
    const before = retries(cause);
    inject('GET', fault, 2);
    const into = emptyLike(pieces);
    const filled: number[] = [];
    await store.read({
      id,
      sizeBytes: sizeOf(pieces),
      position: 0,
      into,
      filled: (index) => {
        filled.push(index);
        expect(into[index]?.equals(pieces[index] as Buffer)).toBe(true);
      },
    });
    expect(filled).toEqual([0, 1, 2]);
    expect(retries(cause) - before).toBe(2);
    expect(store.state().inFlight).toBe(0);
  });

  it('goes on after the last byte that came', async () => {
    const id = newId();
    const pieces = piecesOf(sizes);
    await store.put(id, pieces);
    const ranges: (string | undefined)[] = [];
    rig.proxy.choose = ({ headers }) => {
      ranges.push(headers.range);
      return ranges.length === 1 ? { kind: 'truncate', afterBytes: middle } : undefined;
    };
    expect((await readWhole(store, id, sizeOf(pieces))).equals(Buffer.concat(pieces))).toBe(true);
    const last = sizeOf(pieces) - 1;
    expect(ranges).toEqual([`bytes=0-${last}`, `bytes=${middle}-${last}`]);
  });

  it.each(writeFaults)('stores an extent whose PUT is %s', async (_, fault, cause) => {
    const id = newId();
    const pieces = piecesOf(sizes);
    const before = retries(cause);
    inject('PUT', fault, 2);
    await store.put(id, pieces);
    // That the server has done it is found when it breaks the connection again.
    const isFound = fault.kind === 'reset' && fault.at === 'answer';
    expect(retries(cause) - before).toBe(isFound ? 1 : 2);
    expect(store.state().inFlight).toBe(0);
    expect((await readWhole(store, id, sizeOf(pieces))).equals(Buffer.concat(pieces))).toBe(true);
  });

  it.each(answerFaults)('finds an extent stored when the answer is %s', async (_, fault, cause) => {
    const id = newId();
    const pieces = piecesOf(sizes);
    const before = retries(cause);
    const puts = rig.proxy.methods.PUT ?? 0;
    inject('PUT', fault);
    await store.put(id, pieces);
    expect(retries(cause) - before).toBe(1);
    expect((rig.proxy.methods.PUT ?? 0) - puts).toBe(1);
    expect((await readWhole(store, id, sizeOf(pieces))).equals(Buffer.concat(pieces))).toBe(true);
  });

  it('tells a stalled upload from a slow one', async () => {
    // More than the buffers of the connection hold.
    const pieces = piecesOf(Array.from({ length: 64 }, () => 262_176));
    const before = retries('stall');
    inject('PUT', { kind: 'stall', at: 'upload', afterBytes: 1 }, 1);
    await store.put(newId(), pieces);
    expect(retries('stall') - before).toBe(1);
  });

  it.each(readFaults)('lists what is there when an answer is %s', async (_, fault) => {
    const single = await rig.open({ firstByteTimeoutMs: 1000, stallTimeoutMs: 1000 });
    const id = newId();
    await single.put(id, piecesOf([1000]));
    inject('GET', fault, 1);
    expect(await listed(single)).toEqual({ [id.toString('hex')]: 1000 });
    await single.close();
  });

  it.each([
    ['ServiceUnavailable', internalError],
    ['SlowDown', slowDown],
  ] as const)('refuses with %s after five tries', async (code, fault) => {
    const id = newId();
    await store.put(id, piecesOf([1000]));
    for (const [method, request] of [
      ['PUT', () => store.put(newId(), piecesOf(sizes))],
      ['GET', () => readWhole(store, id, 1000)],
      ['DELETE', () => store.remove(id)],
      ['GET', () => listed(store)],
    ] as const) {
      inject(method, fault);
      const before = rig.proxy.methods[method] ?? 0;
      const error = await request().catch((refusal: unknown) => refusal);
      expect(error).toBeInstanceOf(Refusal);
      expect((error as Refusal).code).toBe(code);
      expect((rig.proxy.methods[method] ?? 0) - before).toBe(5);
    }
    expect(store.state().inFlight).toBe(0);
  });

  it('stores nothing of an extent whose upload never comes through', async () => {
    const single = await rig.open();
    for (const [, fault] of writeFaults) {
      if (fault.kind !== 'reset' || fault.at !== 'upload') continue;
      inject('PUT', fault);
      await expect(single.put(newId(), piecesOf(sizes))).rejects.toThrow(Refusal);
    }
    rig.proxy.choose = () => undefined;
    expect(await listed(single)).toEqual({});
  });

  it('does not try again what is denied', async () => {
    inject('PUT', { kind: 'status', status: 403, code: 'AccessDenied' });
    const before = rig.proxy.requests;
    await expect(store.put(newId(), piecesOf([10]))).rejects.toThrow(Refusal);
    expect(rig.proxy.requests - before).toBe(1);
    expect(store.state().lastFailure).toMatchObject({ reason: 'denied' });
  });

  it('takes no 404 for a missing extent but that of S3 itself', async () => {
    const id = newId();
    for (const code of ['NotFound', 'NoSuchBucket']) {
      inject('GET', { kind: 'status', status: 404, code });
      await expect(readWhole(store, id, 10)).rejects.toThrow(Refusal);
      await expect(store.readEnd(id, 10)).rejects.toThrow(Refusal);
      await expect(store.getObject('name')).rejects.toThrow(Refusal);
    }
  });

  it('refuses quickly while nothing listens, and serves again when it does', async () => {
    const id = newId();
    await store.put(id, piecesOf([1000]));
    const before = retries('refused');
    await rig.proxy.refuse();
    await expect(readWhole(store, id, 1000)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect(retries('refused') - before).toBeGreaterThanOrEqual(3);
    // No connection is left now: what gets none is not sent, and not counted.
    const { requests } = store.state();
    await expect(readWhole(store, id, 1000)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect(store.state().requests).toBe(requests);
    await rig.proxy.accept();
    expect(await readWhole(store, id, 1000)).toHaveLength(1000);
  });

  it('gives up a connection that is not made in time, and keeps no descriptor', async () => {
    const sockets = new Set<Socket>();
    let accepted = 0;
    // It takes connections, but no TLS handshake ever ends.
    const silent = createServer((socket) => {
      accepted++;
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket)).on('error', () => {});
      socket.resume();
    });
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as AddressInfo;
    const unreachable = await rig.open({
      endpoint: `https://127.0.0.1:${port}`,
      connectTimeoutMs: 50,
      breaker: { failuresMax: 1000, pauseMsMin: 60_000, pauseMsMax: 60_000 },
    });
    expect(unreachable.state()).toMatchObject({
      ready: false,
      inFlight: 0,
      lastFailure: { reason: 'timeout-connect' },
    });
    expect(unreachable.state().failures['timeout-connect']).toBe(5);
    expect(accepted).toBe(5);
    for (let i = 0; i < 400 && sockets.size > 0; i++) await sleep(10);
    expect(sockets.size).toBe(0);
    await unreachable.close();
    silent.close();
  });

  it('survives a restart of the server', async () => {
    const id = newId();
    const pieces = piecesOf(sizes);
    await store.put(id, pieces);
    await rig.backend.kill();
    const read = readWhole(store, id, sizeOf(pieces)).catch((error: unknown) => error);
    await rig.backend.restart();
    expect(await read).toSatisfy((got) => got instanceof Refusal || Buffer.isBuffer(got));
    expect((await readWhole(store, id, sizeOf(pieces))).equals(Buffer.concat(pieces))).toBe(true);
  });
});
