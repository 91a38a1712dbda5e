// Whatever is done to a bucket and its versions, and however the journal is cut into segments and
// snapshots meanwhile, replaying it gives what the catalog has. Sequences are seeded.
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from '../../fuzz/seeded-random.ts';
import { type S3Rig, startS3Rig } from '../../stores/s3-rig.ts';
import { describeWithTool, versitygw } from '../../tooling/tools.ts';
import { bucketId, JournalRig } from './journal-rig.ts';

const keys = ['a', 'b', 'c/d'];
const settings = ['cors', 'lifecycle', 'tagging', 'publicAccess', 'ownership'] as const;

interface Row {
  key: string;
  versionId: string | null;
  isMarker: number;
  seq: number;
  createdMs: number;
  etag: string;
  attributes: string;
}

/** All versions that the catalog keeps, the oldest first. */
function listKept(rig: JournalRig): Promise<Row[]> {
  const columns = `key, version_id AS versionId, is_marker AS isMarker, seq,
    created_ms AS createdMs, etag, attributes`;
  return rig.fixture.read.all<Row>(
    `SELECT ${columns} FROM versions WHERE bucket_id = ?
       UNION ALL SELECT ${columns} FROM noncurrent_versions WHERE bucket_id = ? ORDER BY seq`,
    bucketId,
    bucketId,
  );
}

describeWithTool(versitygw, 'a journal of versions', (path) => {
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

  /** One random change; gives its seq, or -1 where there was nothing to change. */
  async function change(random: () => number): Promise<number> {
    const key = randomOf(random, keys);
    const versions = (await listKept(rig)).filter((one) => one.key === key);
    const some = versions.length > 0 ? randomOf(random, versions) : null;
    const versionId = some?.versionId ?? 'null';
    switch (randomBelow(random, 9)) {
      case 0:
        return rig.setVersioning(randomOf(random, ['Enabled', 'Suspended']));
      case 1:
        return rig.remove(key);
      case 2:
      case 3:
        return some ? rig.remove(key, versionId) : -1;
      case 4: {
        if (!some || some.isMarker) return -1;
        const tags = [['k', String(randomBelow(random, 100))]] as const;
        const amended = { kind: 'amendVersion', bucketId, key, versionId } as const;
        return rig.commit({ ...amended, amendment: { tags } });
      }
      case 5: {
        const name = randomOf(random, settings);
        const document = randomOf(random, [null, JSON.stringify(randomBelow(random, 100))]);
        return rig.commit({ kind: 'putBucketSetting', bucketId, name, document });
      }
      case 6: {
        const policy = randomOf(random, [null, `{"a":${randomBelow(random, 100)}}`]);
        return rig.commit({ kind: 'putBucketPolicy', bucketId, policy });
      }
      default:
        return rig.put(key, `etag ${randomBelow(random, 1000)}`);
    }
  }

  async function expectReplayed(): Promise<void> {
    let replayed = await rig.replay();
    // A snapshot may just have taken the place of segments that were being read.
    for (let i = 0; i < 20 && replayed.report.missing.length > 0; i++)
      replayed = await rig.replay();
    const { versions, staged, report } = replayed;
    expect(report).toMatchObject({ missing: [], damaged: [] });
    const told = versions.map((one) => ({
      ...{ key: one.key, versionId: one.versionId, isMarker: one.isMarker ? 1 : 0, seq: one.seq },
      ...{ createdMs: one.createdMs, etag: one.etag, attributes: one.attributes },
    }));
    expect(told).toEqual(await listKept(rig));
    const { read } = rig.fixture;
    const bucket = await read.get<{ policy: string | null }>(
      `SELECT versioning, public_access AS publicAccess, ownership, policy FROM buckets
         WHERE id = ?`,
      bucketId,
    );
    const { policy, ...rest } = bucket as { policy: string | null };
    const rows = await read.all<{ name: string; document: string }>(
      'SELECT name, document FROM bucket_settings WHERE bucket_id = ?',
      bucketId,
    );
    const documents = Object.fromEntries(rows.map(({ name, document }) => [name, document]));
    if (policy !== null) documents.policy = policy;
    expect(staged).toEqual([expect.objectContaining({ ...rest, documents })]);
  }

  it('replays to what the catalog has, whatever was done', { timeout: fuzzTimeoutMs }, async () => {
    let compacted = 0;
    await fuzz(1, 1, async (random) => {
      // Small enough for snapshots to come in between.
      const options = { compactionBytes: 3 * 16 * 1024 };
      let journal = await rig.open(options);
      for (let round = 0; round < 12; round++) {
        let seq = -1;
        for (let i = randomBelow(random, 20); i >= 0; i--) {
          const changed = await change(random);
          if (changed < 0) continue;
          seq = changed;
          if (randomBelow(random, 4) === 0) await journal.flushed(seq);
          else journal.note(seq);
        }
        if (randomBelow(random, 4) === 0) {
          await journal.close();
          journal = await rig.open(options);
        }
        if (seq >= 0) await journal.flushed(seq);
        await expectReplayed();
        compacted += (await rig.files()).snapshots.length;
      }
      await journal.close();
    });
    expect(compacted).toBeGreaterThan(0);
    expect(rig.errors).toEqual([]);
  });
});
