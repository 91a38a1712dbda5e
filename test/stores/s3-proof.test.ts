// Successes that are none: what an S3 store believes of the answers to its PUTs. A real server
// behind a proxy that answers in its place, with the PUT carried out or not.
import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import type { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import type { Fault } from '../tooling/fault-proxy.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { newId, piecesOf, readWhole, type S3Rig, sizeOf, startS3Rig } from './s3-rig.ts';

vi.setConfig({ testTimeout: 60_000 });

const checksum = 'x-amz-checksum-crc32c';
const etag = `"${'0'.repeat(32)}"`;
const html = { 'content-type': 'text/html' };

/** Each is given in the place of the server's own answer to a PUT. */
const lies: [title: string, lie: Omit<Extract<Fault, { kind: 'lie' }>, 'kind'>][] = [
  ['the page of a portal', { status: 200, headers: html, body: '<html>log in</html>' }],
  ['an empty 200', { status: 200 }],
  ['an ETag of something else', { status: 200, headers: { etag } }],
  ['a checksum of something else', { status: 200, headers: { etag, [checksum]: 'AAAAAA==' } }],
  ['an error document', { status: 200, headers: { etag }, body: '<Error><Code>No</Code></Error>' }],
  ...[201, 202, 203, 204, 205, 206].map((status): (typeof lies)[number] => [
    `a ${status}`,
    { status, headers: { etag } },
  ]),
];

describeWithTool(versitygw, 'a success without its proof', (path) => {
  let rig: S3Rig;
  let store: S3Store;

  beforeAll(async () => {
    rig = await startS3Rig(path);
    store = await rig.open({ retryPolicy: { triesMax: 3, pauseMsMin: 1, pauseMsMax: 2 } });
  });
  afterAll(() => rig?.stop());
  beforeEach(() => {
    rig.proxy.choose = () => undefined;
  });

  function inject(fault: Fault): void {
    rig.proxy.choose = ({ method }) => (method === 'PUT' ? fault : undefined);
  }

  it.each(lies)('is not believed: %s, and nothing was stored', async (_, lie) => {
    inject({ kind: 'lie', ...lie });
    await expect(store.put(newId(), piecesOf([1000, 300_000]))).rejects.toThrow(Refusal);
    await expect(store.putObject('journal/segment', randomBytes(100))).rejects.toThrow(Refusal);
    expect(['unproven', 'error-in-200']).toContain(store.state().lastFailure?.reason);
    expect(store.state()).toMatchObject({ ready: true, inFlight: 0 });
  });

  it.each(lies)('is read back: %s, and the object was stored', async (_, lie) => {
    inject({ kind: 'lie', ...lie, carriedOut: true });
    const id = newId();
    const pieces = piecesOf([1000, 300_000]);
    const puts = rig.proxy.methods.PUT ?? 0;
    await store.put(id, pieces);
    const name = `journal/${id.toString('hex')}`;
    expect(await store.putObject(name, pieces[0] as Buffer)).toBe('stored');
    expect((rig.proxy.methods.PUT ?? 0) - puts).toBe(2);
    rig.proxy.choose = () => undefined;
    expect((await readWhole(store, id, sizeOf(pieces))).equals(Buffer.concat(pieces))).toBe(true);
  });

  it('is not believed of a server that changes what it stores', async () => {
    // The proof is of the bytes that came, and they are others.
    inject({ kind: 'lie', status: 200, headers: { etag }, carriedOut: true });
    const name = 'journal/changed';
    await store.putObject(name, Buffer.from('what was there'));
    inject({ kind: 'lie', status: 200, headers: { etag } });
    await expect(store.putObject(name, Buffer.from('what is sent'))).rejects.toThrow(Refusal);
  });

  it('costs nothing more where the proof is there', async () => {
    const before = rig.proxy.requests;
    await store.put(newId(), piecesOf([1000]));
    await store.putObject('journal/proven', Buffer.from('1'));
    expect(rig.proxy.requests - before).toBe(2);
  });

  it.each([
    ['extent', (bytes: Buffer) => store.put(newId(), [bytes])],
    ['journal segment', (bytes: Buffer) => store.putObject(`journal/${newId()}`, bytes)],
  ])('is no 412 to the PUT of an %s', async (_, put) => {
    inject({ kind: 'status', status: 412, code: 'PreconditionFailed' });
    await expect(put(randomBytes(1000))).rejects.toThrow(Refusal);
    inject({ kind: 'status', status: 412, code: 'PreconditionFailed', carriedOut: true });
    const puts = rig.proxy.methods.PUT ?? 0;
    // What is there is what was sent, byte for byte.
    await put(randomBytes(1000));
    expect((rig.proxy.methods.PUT ?? 0) - puts).toBe(1);
  });

  it.each([412, 416])('is no %s to the GET of an object', async (status) => {
    await store.putObject('journal/there', Buffer.from('1'));
    rig.proxy.choose = () => ({ kind: 'status', status, code: 'Refused' });
    await expect(store.getObject('journal/there')).rejects.toThrow(Refusal);
  });
});

it('the ETag that is an MD5 is one by the digest of the bytes', async () => {
  const { isMd5Etag, md5Of } = await import('#bursar/tiering/stores/s3/proven-put.js');
  const pieces = piecesOf([3, 0, 70_000]);
  const md5 = createHash('md5').update(Buffer.concat(pieces)).digest('hex');
  expect(await md5Of(pieces)).toBe(md5);
  expect(isMd5Etag(`"${md5}"`, md5)).toBe(true);
  expect([`"${md5}-1"`, `W/"${md5}"`, undefined, ''].some((one) => isMd5Etag(one, md5))).toBe(
    false,
  );
});
