import { afterEach, describe, expect, it, vi } from 'vitest';
import type { StoreEvent } from '#bursar/tiering/stores/driver.js';
import { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type Oddity, type OddServer, startOddServer } from './odd-s3-server.ts';
import { newId, piecesOf, startS3Rig } from './s3-rig.ts';

vi.setConfig({ testTimeout: 60_000 });

const capabilities = ['write', 'proof', 'read', 'range', 'list', 'condition', 'race', 'delete'];

describeWithTool(versitygw, 'the probe of a real server', (path) => {
  it('finds all that a store may use, and tells of it', async () => {
    const rig = await startS3Rig(path);
    const events: StoreEvent[] = [];
    const store = await rig.open({ onEvent: (event) => events.push(event) });
    const { ready, findings } = store.state();
    expect(ready).toBe(true);
    expect(findings.map(({ capability, ok }) => [capability, ok])).toEqual(
      capabilities.map((capability) => [capability, true]),
    );
    expect(events).toEqual([{ kind: 'probed', findings }]);
    await rig.stop();
  });

  it.each([
    ['a bucket that is not there', { url: 's3://no-such-bucket' }, 'NoSuchBucket'],
    [
      'keys that are not known',
      { credentials: { accessKeyId: 'UNKNOWN', secretAccessKey: 'secret' } },
      'No user exists',
    ],
    [
      'another secret',
      { credentials: { accessKeyId: 'TESTBACKENDACCESSKEY', secretAccessKey: 'wrong' } },
      'SignatureDoesNotMatch',
    ],
  ])('refuses %s', async (_, options, message) => {
    const rig = await startS3Rig(path);
    await expect(rig.open(options)).rejects.toThrow(message);
    await rig.stop();
  });
});

describe('the probe of an odd server', () => {
  let server: OddServer;
  let store: S3Store | undefined;

  afterEach(async () => {
    await store?.close();
    await server.stop();
    store = undefined;
  });

  async function open(oddity?: Oddity): Promise<S3Store> {
    server = await startOddServer(oddity);
    store = await S3Store.open({
      number: 2,
      name: 'odd',
      url: 's3://bucket/prefix',
      endpoint: server.endpoint,
      credentials: { accessKeyId: 'key', secretAccessKey: 'secret' },
      retryPolicy: { triesMax: 3, pauseMsMin: 1, pauseMsMax: 2 },
    });
    return store;
  }

  it('finds all of it in one that keeps its promises, and leaves nothing there', async () => {
    const { ready, findings } = (await open()).state();
    expect(ready).toBe(true);
    expect(findings.map(({ ok }) => ok)).toEqual(capabilities.map(() => true));
    expect(server.objects.size).toBe(0);
  });

  it('takes a conflict for a lost race', async () => {
    const { findings } = (await open('has conflicts')).state();
    expect(findings.map(({ ok }) => ok)).toEqual(capabilities.map(() => true));
  });

  it.each<[Oddity, string]>([
    ['ignores conditions', 'condition'],
    ['refuses conditions', 'condition'],
    ['overwrites', 'condition'],
    ['loses races', 'race'],
  ])('uses one that %s without them', async (oddity, lacking) => {
    const used = await open(oddity);
    const { ready, findings } = used.state();
    expect(ready).toBe(true);
    expect(findings.find(({ capability }) => capability === lacking)?.ok).toBe(false);
    const id = newId();
    const pieces = piecesOf([1000]);
    const asked = server.conditions;
    await used.put(id, pieces);
    await used.put(id, pieces);
    expect(await used.putObject('mark', Buffer.from('1'), { ifAbsent: true })).toBe('stored');
    expect(await used.putObject('mark', Buffer.from('2'), { ifAbsent: true })).toBe('exists');
    expect((await used.getObject('mark'))?.toString()).toBe('1');
    expect(server.conditions).toBe(asked);
  });

  it.each<[Oddity, string, number]>([
    ['knows MD5s only', 'an MD5', 0],
    ['proves nothing', 'not answered with a checksum', 1],
    ['echoes checksums', 'not answered with a checksum', 1],
  ])('reads back what one stored that %s', async (oddity, detail, reads) => {
    const used = await open(oddity);
    const { ready, findings } = used.state();
    expect(ready).toBe(true);
    const proof = findings.find(({ capability }) => capability === 'proof');
    expect(proof?.ok).toBe(reads === 0);
    expect(proof?.detail).toContain(detail.replace('an MD5', 'the MD5'));
    const asked = server.gets;
    await used.put(newId(), piecesOf([1000, 70_000]));
    expect(await used.putObject('mark', Buffer.from('1'))).toBe('stored');
    expect(server.gets - asked).toBe(reads * 2);
  });

  it.each<[Oddity, string]>([
    ['ignores ranges', 'HTTP 200 to a range'],
    ['cuts ranges', '753 bytes instead of 754'],
    ['shifts ranges', 'other bytes'],
    ['forgets bytes', 'does not give what was stored'],
    ['lists nothing', 'lacks a stored object'],
    ['keeps what is deleted', 'can still be read'],
    ['denies writes', 'AccessDenied'],
    ['denies deletes', 'AccessDenied'],
    ['has no bucket', 'NoSuchBucket'],
    ['is no S3 server', 'HTTP 404'],
  ])('refuses one that %s', async (oddity, message) => {
    await expect(open(oddity)).rejects.toThrow(message);
  });
});
