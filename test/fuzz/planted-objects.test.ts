// Objects that somebody who may write to a store's bucket, but has no keys, puts there: of any name
// and any content, those of the gateway under other names among them. The journal opens and goes
// on, and is read back as if they were not there.
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { bucketId, JournalRig } from '../ledger/journal/journal-rig.ts';
import { type S3Rig, startS3Rig } from '../stores/s3-rig.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { fuzzMs, randomBelow, seededRandom } from './seeded-random.ts';

const seed = fuzzMs > 0 ? Date.now() % 1e9 : 17;
const rounds = process.env.BURSAR_FULL === '1' || fuzzMs > 0 ? 30 : 4;
const plantedPerRound = 25;

describeWithTool(versitygw, `planted objects, seed ${seed}`, (path) => {
  const random = seededRandom(seed);
  const below = (max: number): number => randomBelow(random, max);
  const pick = <T>(values: readonly T[]): T => values[below(values.length)] as T;
  let s3: S3Rig;
  let rig: JournalRig;

  beforeAll(async () => {
    s3 = await startS3Rig(path);
  }, 60_000);
  afterAll(() => s3?.stop(), 60_000);
  beforeEach(async () => {
    rig = await JournalRig.start(s3);
  });
  afterEach(() => rig.close());

  const digits = (width: number): string =>
    pick([
      () => String(below(60)).padStart(width, '0'),
      () => pick(['9', '0', '1']).repeat(width),
      () =>
        String(2 ** 53 + below(10))
          .padStart(width, '0')
          .slice(-width),
      () => Array.from({ length: width }, () => below(10)).join(''),
    ])();
  const hex = (width: number): string =>
    Array.from({ length: width }, () => below(16).toString(16)).join('');
  const someName = (): string =>
    pick([
      () => 'begin',
      () => `${digits(20)}-${digits(20)}`,
      () => `snapshot-${digits(20)}-${digits(20)}`,
      () => `snapshot-${digits(20)}-complete`,
      () => `${digits(20)}-`,
      () => `x${String.fromCharCode(32 + below(90))}é\u{1f600}`,
      () => hex(40),
    ])();
  const newName = (generation: string): string =>
    pick([
      () => `journal/${generation}/${someName()}`,
      () => `journal/${generation}/${someName()}`,
      () => `journal/${digits(15)}-${hex(8)}/${someName()}`,
      () => `journal/${digits(16)}-${hex(8)}/${someName()}`,
      () => `journal/${hex(10)}`,
      () => `extents/${hex(2)}/${hex(32)}`,
      () => `extents/${hex(2)}`,
    ])();
  const newContent = async (ours: readonly string[]): Promise<Buffer> => {
    const copied = (await rig.store.getObject(pick(ours))) ?? Buffer.alloc(0);
    return pick([
      () => Buffer.alloc(below(400), below(256)),
      () => Buffer.concat([Buffer.from('BSJ1'), Buffer.from(hex(below(600)), 'hex')]),
      () => copied,
      () => copied.subarray(0, below(copied.length)),
      () => {
        const changed = Buffer.from(copied);
        if (changed.length > 0) changed[below(changed.length)] = below(256);
        return changed;
      },
    ])();
  };

  it('stop nothing, and change nothing of what is restored', async () => {
    const expected: Record<string, string> = {};
    let journal = await rig.open({ compactionBytes: 10 * 16 * 1024 });
    for (let round = 0; round < rounds; round++) {
      for (let i = 0; i < 4; i++) {
        const key = `key ${below(10)}`;
        const isEnd = below(4) === 0;
        const seq = isEnd ? await rig.remove(key) : await rig.put(key, `etag ${round} ${i}`);
        if (isEnd) delete expected[key];
        else expected[key] = `etag ${round} ${i}`;
        await journal.flushed(seq);
      }
      const ours = await rig.names();
      const { generation } = (await rig.replay()).report;
      for (let i = 0; i < plantedPerRound; i++) {
        const name = newName(generation);
        const bytes = await newContent(ours);
        // Objects are folders and files there: some names cannot be beside others.
        if (!ours.includes(name)) await rig.store.putObject(name, bytes).catch(() => {});
      }
      const context = `seed ${seed}, round ${round}`;
      await journal.close();
      journal = await rig.open({ compactionBytes: 10 * 16 * 1024 });
      await journal.flushed(await rig.put(`new ${round}`));
      expected[`new ${round}`] = 'etag';
      expect(journal.state(), context).toMatchObject({ ready: true, reason: null, lostObjects: 0 });
      const { objects, report, buckets, staged } = await rig.replay();
      expect(objects, context).toEqual(expected);
      expect([buckets, report.generation, report.missing], context).toEqual([
        ['far'],
        generation,
        [],
      ]);
      expect(staged[0]?.id).toBe(bucketId);
    }
  }, 300_000);
});
