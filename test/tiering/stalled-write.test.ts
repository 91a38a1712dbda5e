// A write whose client stalls in the midst of a chunk, while others want its buffer: what has come
// is written as an extent of its own, and the write goes on.
import { createHash } from 'node:crypto';
import { expect, it, vi } from 'vitest';
import { startS3Rig } from '../stores/s3-rig.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { finish, KiB, MiB, makeBytes, makeRig, placeOf, type Rig } from './rig.ts';

vi.setConfig({ testTimeout: 30_000 });

const small = { bytesMax: 300 * KiB, loanMsMin: 0 };

/** Writes to a store of a rig that has one slot. */
async function stallAndGoOn(rig: Rig, store: number): Promise<void> {
  const body = makeBytes(1 * MiB, 5);
  let cuts = 0;
  const sink = rig.writer.begin({
    ...placeOf('cms', store),
    sizeBytes: body.length,
    checksums: ['SHA256'],
    party: { tenant: 'evil', principal: 'evil/mallory' },
    recall: () => cuts++,
  });
  const stops = [70 * KiB, 300 * KiB];
  let at = 0;
  for (const stop of stops) {
    await sink.write(body.subarray(at, stop));
    at = stop;
    const other = makeBytes(500 * KiB, stop);
    expect((await rig.get(await rig.put(other))).equals(other)).toBe(true);
  }
  await sink.write(body.subarray(at));
  const written = await finish(sink);
  expect(cuts).toBe(0);
  const lengths = written.runs.map(({ extentBytes }) => extentBytes);
  expect(lengths.slice(0, 2)).toEqual([70 * KiB, 230 * KiB]);
  expect(written.sha256).toEqual(createHash('sha256').update(body).digest());
  expect((await rig.get(written)).equals(body)).toBe(true);
  expect(rig.buffers.inUse).toBe(0);
}

it('gives its buffer to others, and is whole in the end', async () => {
  const rig = await makeRig(small);
  try {
    await stallAndGoOn(rig, 1);
  } finally {
    await rig.close();
  }
});

it('is cut where its end is not known', async () => {
  const rig = await makeRig(small);
  try {
    let cuts = 0;
    const begin = (isAtMost?: true) =>
      rig.writer.begin({
        ...placeOf(),
        sizeBytes: 1 * MiB,
        ...(isAtMost && { isAtMost }),
        checksums: [],
        recall: () => cuts++,
      });
    const open = begin(true);
    await open.write(makeBytes(1000));
    const waiting = rig.put(makeBytes(500 * KiB));
    await vi.waitFor(() => expect(cuts).toBe(1), 20_000);
    await open.abort();
    await waiting;
  } finally {
    await rig.close();
  }
});

describeWithTool(versitygw, 'a stalled write to an S3 store', (path) => {
  it('gives its buffer to others, and is whole in the end', async () => {
    const s3 = await startS3Rig(path);
    const rig = await makeRig({ ...small, remotes: [await s3.open({ extentBytesMax: 1 * MiB })] });
    try {
      await stallAndGoOn(rig, 2);
    } finally {
      await rig.close();
      await s3.stop();
    }
  });
});
