// What happens to a reader when the stored bytes of a remote store were changed behind its back:
// each change is found, and not one byte of a changed chunk comes out.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { IntegrityError } from '#bursar/core/errors.js';
import type { ExtentRun } from '#bursar/core/manifest.js';
import type { WrittenObject } from '#bursar/tiering/object-writer.js';
import { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';
import { C, makeBytes, makeRig, type Rig } from './rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const body = makeBytes(4 * C + 100);
const small = makeBytes(5000);

describeWithTool(versitygw, 'stored bytes of a remote store that were changed', (path) => {
  let backend: S3Backend;
  let store: S3Store;
  let rig: Rig;
  beforeAll(async () => {
    backend = await startVersitygw(path);
    backend.makeBucket('bucket');
    store = await S3Store.open({
      number: 2,
      name: 'remote',
      url: 's3://bucket/prefix',
      endpoint: backend.endpoint,
      region: backend.region,
      credentials: backend.credentials,
    });
    rig = await makeRig({ remotes: [store] });
  });
  afterEach(() => expect(rig.buffers.inUse).toBe(0));
  afterAll(async () => {
    await rig.close();
    await store.close();
    await backend.stop();
  });

  const put = (bytes: Buffer, tenant = 'cms') => rig.put(bytes, { store: 2, tenant });

  function fileOf(object: WrittenObject): string {
    const name = (object.runs[0] as ExtentRun).id.toString('hex');
    return join(backend.dataDir, 'bucket', 'prefix', 'extents', name.slice(30), name);
  }

  function change(object: WrittenObject, edit: (stored: Buffer) => Buffer): void {
    const file = fileOf(object);
    writeFileSync(file, edit(readFileSync(file)));
  }

  /** Reads until it fails, on both ways that there are. */
  async function expectDamage(object: WrittenObject, kind: string, intactBytes = 0) {
    const seen: Buffer[] = [];
    const error: unknown = await rig.get(object, { see: (data) => seen.push(data) }).then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(IntegrityError);
    expect(error).toMatchObject({ kind, store: 2 });
    const whole = object.sizeBytes === small.length ? small : body;
    expect(Buffer.concat(seen).equals(whole.subarray(0, intactBytes))).toBe(true);
    const [only] = object.runs;
    if (!only || !rig.reader.isSmallRemote(only)) return;
    await expect(rig.reader.openRemote('cms', only)).rejects.toMatchObject({ kind, store: 2 });
  }

  it.each([0, 1, 2, 3, 4])('a bit of chunk %i', async (i) => {
    const object = await put(body);
    change(object, (stored) => {
      stored[i * (C + 32) + 50] = (stored[i * (C + 32) + 50] as number) ^ 4;
      return stored;
    });
    await expectDamage(object, 'chunk', i * C);
  });

  it('a bit of a small object, and of its tag', async () => {
    for (const at of [0, 4999, 5000, 5031]) {
      const object = await put(small);
      change(object, (stored) => {
        stored[at] = (stored[at] as number) ^ 1;
        return stored;
      });
      await expectDamage(object, 'chunk');
    }
  });

  it('two chunks that changed places', async () => {
    const object = await put(body);
    change(object, (stored) => {
      const swapped = Buffer.from(stored);
      stored.copy(swapped, C + 32, 2 * (C + 32), 3 * (C + 32));
      stored.copy(swapped, 2 * (C + 32), C + 32, 2 * (C + 32));
      return swapped;
    });
    await expectDamage(object, 'chunk', C);
  });

  it.each([1, 132, C])('%i bytes less', async (n) => {
    const object = await put(body);
    change(object, (stored) => stored.subarray(0, stored.length - n));
    await expectDamage(object, 'length');
  });

  it('cut after a whole chunk', async () => {
    const object = await put(body);
    change(object, (stored) => stored.subarray(0, 2 * (C + 32)));
    await expectDamage(object, 'length');
  });

  it('bytes appended, to a large and to a small object', async () => {
    for (const bytes of [body, small]) {
      const object = await put(bytes);
      change(object, (stored) => Buffer.concat([stored, Buffer.alloc(1)]));
      await expectDamage(object, 'length');
    }
  });

  it('nothing there any more', async () => {
    for (const bytes of [body, small]) {
      const object = await put(bytes);
      rmSync(fileOf(object));
      await expectDamage(object, 'missing');
    }
  });

  it("another valid extent in its place, of the same tenant's or of another's", async () => {
    for (const tenant of ['cms', 'lhcb']) {
      for (const bytes of [body, small]) {
        const object = await put(bytes);
        const other = await put(bytes, tenant);
        writeFileSync(fileOf(object), readFileSync(fileOf(other)));
        await expectDamage(object, 'chunk');
      }
    }
  });
});
