import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import type { StoreEvent } from '#bursar/tiering/stores/driver.js';
import type { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { newId, piecesOf, readWhole, type S3Rig, startS3Rig } from './s3-rig.ts';

vi.setConfig({ testTimeout: 60_000 });

const breaker = { failuresMax: 10, pauseMsMin: 20, pauseMsMax: 100 };

describeWithTool(versitygw, 'the circuit breaker of an S3 store', (path) => {
  let rig: S3Rig;

  beforeAll(async () => {
    rig = await startS3Rig(path);
  });
  afterAll(() => rig?.stop());
  afterEach(async () => {
    rig.proxy.choose = () => undefined;
    await rig.proxy.accept();
  });

  async function until(condition: () => boolean): Promise<void> {
    for (let tries = 0; !condition(); tries++) {
      if (tries > 1000) throw new Error('it never became so');
      await sleep(5);
    }
  }

  /** Fails requests until the breaker is open. */
  async function trip(store: S3Store): Promise<void> {
    while (store.state().breaker === 'closed') await store.getObject('name').catch(() => null);
  }

  it('opens after the failures it may see, and refuses at once from then on', async () => {
    const store = await rig.open({ breaker: { ...breaker, pauseMsMin: 60_000 } });
    rig.proxy.choose = () => ({ kind: 'status', status: 500, code: 'InternalError' });
    const before = rig.proxy.requests;
    await expect(store.getObject('a')).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect(store.state()).toMatchObject({ ready: true, breaker: 'closed' });
    await expect(store.getObject('a')).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect(store.state()).toMatchObject({ ready: false, breaker: 'open' });
    expect(rig.proxy.requests - before).toBe(10);
    rig.proxy.choose = () => undefined;
    for (const request of [
      store.getObject('a'),
      store.putObject('a', Buffer.from('a')),
      store.put(newId(), piecesOf([10])),
      readWhole(store, newId(), 10),
      store.remove(newId()),
      store.listObjects('')[Symbol.asyncIterator]().next(),
    ]) {
      await expect(request).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    }
    expect(rig.proxy.requests - before).toBe(10);
    await store.close();
  });

  it('passes on that the server wants fewer requests', async () => {
    const store = await rig.open({ breaker: { ...breaker, pauseMsMin: 60_000 } });
    rig.proxy.choose = () => ({ kind: 'status', status: 503, code: 'SlowDown' });
    await trip(store);
    await expect(store.getObject('a')).rejects.toMatchObject({ code: 'SlowDown' });
    await store.close();
  });

  it('closes again without any traffic once the server is back', async () => {
    const events: StoreEvent[] = [];
    const store = await rig.open({ breaker, onEvent: (event) => events.push(event) });
    await rig.proxy.refuse();
    await trip(store);
    expect(store.state().lastFailure).toMatchObject({ reason: 'refused' });
    await sleep(100);
    expect(store.state().ready).toBe(false);
    await rig.proxy.accept();
    await until(() => store.state().ready);
    expect(await store.getObject('none')).toBeUndefined();
    const states = events.flatMap((event) => (event.kind === 'breaker' ? [event.state] : []));
    expect(states.slice(0, 3)).toEqual(['open', 'half-open', 'open']);
    expect(states.slice(-2)).toEqual(['half-open', 'closed']);
    await store.close();
  });

  it('closes again when the server, back, says no to the trial', async () => {
    const store = await rig.open({ breaker });
    await rig.proxy.refuse();
    await trip(store);
    rig.proxy.choose = () => ({ kind: 'status', status: 403, code: 'AccessDenied' });
    await rig.proxy.accept();
    await until(() => store.state().ready);
    await store.close();
  });

  it('opens once, though the probe at the start fails more than once', async () => {
    const states: string[] = [];
    await rig.proxy.refuse();
    const store = await rig.open({
      breaker: { failuresMax: 2, pauseMsMin: 200, pauseMsMax: 60_000 },
      onEvent: (event) => event.kind === 'breaker' && states.push(event.state),
    });
    await until(() => states.includes('half-open'));
    expect(states.slice(0, states.indexOf('half-open'))).toEqual(['open']);
    await sleep(100);
    expect(states.filter((state) => state === 'half-open')).toEqual(['half-open']);
    await store.close();
  });

  it('sends one trial at a time, however many wait', async () => {
    const store = await rig.open({ breaker, firstByteTimeoutMs: 300 });
    rig.proxy.choose = () => ({ kind: 'stall', at: 'answer' });
    await trip(store);
    const before = rig.proxy.requests;
    const refused = Array.from({ length: 100 }, () => store.getObject('a').catch(() => 'refused'));
    expect(new Set(await Promise.all(refused))).toEqual(new Set(['refused']));
    await until(() => store.state().breaker === 'half-open');
    await sleep(100);
    expect(store.state()).toMatchObject({ breaker: 'half-open', inFlight: 1 });
    expect(rig.proxy.requests - before).toBe(1);
    await store.close();
  });

  it('refuses those who wait for their turn when it opens', async () => {
    const store = await rig.open({
      breaker: { ...breaker, failuresMax: 2 },
      connectionsMax: 2,
      firstByteTimeoutMs: 300,
    });
    rig.proxy.choose = () => ({ kind: 'stall', at: 'answer' });
    const all = Array.from({ length: 50 }, () => store.getObject('a').catch(() => 'refused'));
    expect(new Set(await Promise.all(all))).toEqual(new Set(['refused']));
    expect(store.state()).toMatchObject({ ready: false, waiting: 0 });
    await store.close();
  });

  it('stays closed when the server only says no', async () => {
    const store = await rig.open({ breaker });
    for (let i = 0; i < 20; i++) {
      expect(await store.getObject('none')).toBeUndefined();
      rig.proxy.choose = () => ({ kind: 'status', status: 403, code: 'AccessDenied' });
      await expect(store.getObject('none')).rejects.toMatchObject({ code: 'ServiceUnavailable' });
      rig.proxy.choose = () => undefined;
    }
    expect(store.state()).toMatchObject({ ready: true, breaker: 'closed' });
    await store.close();
  });

  it('opens a store whose server is down as not ready, and probes it when it is back', async () => {
    const events: StoreEvent[] = [];
    await rig.proxy.refuse();
    const store = await rig.open({ breaker, onEvent: (event) => events.push(event) });
    expect(store.state()).toMatchObject({ ready: false, breaker: 'open' });
    expect(store.state().lastFailure?.reason).toBe('refused');
    await expect(store.put(newId(), piecesOf([10]))).rejects.toMatchObject({
      code: 'ServiceUnavailable',
    });
    await rig.proxy.accept();
    await until(() => store.state().ready);
    expect(store.state().findings.map(({ ok }) => ok)).not.toContain(false);
    expect(events.filter(({ kind }) => kind === 'probed').length).toBeGreaterThan(1);
    await store.put(newId(), piecesOf([10]));
    await store.close();
  });
});
