// Whoever can write to a store's bucket shortens the journal there before a data folder is restored
// from its backup. What the backup has is there all the same, is not what it was before, and the
// restore says which journal lacks what. BURSAR_FULL=1 tries every way to shorten it.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { ask } from './rebuild-content.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { buckets, changeAfter, fillBefore, lookAt, mounts, put } from './restore-content.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

interface Report {
  stores: {
    isWhole: boolean;
    ended: number;
    removed: number;
    journals: { lastSeq: number; toldSeq: number; missing: string[] }[];
  };
}

const isSegment = (name: string) => /\/\d{20}-\d{20}$/.test(name);

describeWithTool(versitygw, 'a backup whose store has a journal', (path) => {
  let rig: RebuildRig;
  let folder: string;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'bursar-cut-'));
    rig = await RebuildRig.start(path);
    await rig.serve();
  });
  afterEach(async () => {
    await rig?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const names = () => rig.storedObjects('journal/').map(({ name }) => name);
  const remove = (some: string[]) => {
    for (const name of some) rmSync(rig.pathOf(name));
  };
  const look = async () => {
    const seen: Record<string, unknown> = {};
    for (const bucket of [...buckets, ...mounts]) seen[bucket] = await lookAt(rig.client, bucket);
    return seen;
  };

  const attacks: [string, (old: ReadonlyMap<string, Buffer>) => Promise<void> | void, object][] = [
    [
      'that was cut after its first changes',
      (old) => remove(names().filter((name) => !old.has(name))),
      { missing: [expect.stringMatching(/\d{20}-\d{20}$/)] },
    ],
    [
      'of before, put back as a whole',
      async (old) => {
        remove(names());
        for (const [name, bytes] of old) await rig.putObject(name, bytes);
      },
      { missing: [expect.stringMatching(/\d{20}-\d{20}$/)] },
    ],
    [
      'without its middle',
      (old) =>
        remove(
          names()
            .filter((name) => isSegment(name) && !old.has(name))
            .slice(0, -1),
        ),
      { missing: [expect.stringMatching(/\d{20}-\d{20}$/)] },
    ],
    [
      'without its marker',
      () => remove(names().filter((name) => name.endsWith('/begin'))),
      { missing: [expect.stringMatching(/\/begin$/)] },
    ],
    [
      'that is gone, with the mark of its owner',
      () => {
        remove(names());
        remove(
          rig
            .storedObjects('')
            .map(({ name }) => name)
            .filter((name) => !name.includes('/')),
        );
      },
      { lastSeq: -1 },
    ],
  ];

  // A journal of before lacks what one lacks that was cut; a marker is looked for as a segment is.
  const tried = attacks.filter((_, i) => i % 2 === 0 || process.env.BURSAR_FULL === '1');
  it.each(tried)('%s has all that was acknowledged', async (_, attack, told) => {
    await fillBefore(rig.client);
    const old = new Map(names().map((name) => [name, readFileSync(rig.pathOf(name))]));
    await changeAfter(rig.client);
    const seen = await look();
    const place = join(folder, 'place');
    const made = await rig.backUp(place);
    expect(made.code, made.stderr).toBe(0);
    await rig.kill();
    rig.loseFolder();
    await attack(old);
    const { code, stdout, stderr } = await rig.run(['restore', place, '--json']);
    expect(code, stderr).toBe(1);
    expect(stderr).toContain('the journal of store s3');
    const { stores } = JSON.parse(stdout) as Report;
    expect(stores).toMatchObject({ isWhole: false, ended: 0, removed: 0 });
    const [journal] = stores.journals;
    expect(journal?.missing.length).toBeGreaterThan(0);
    expect(journal).toMatchObject({ ...told, missing: expect.any(Array) });
    await rig.serve(['--sweep-interval', '200ms', '--sweep-grace', '0s']);
    expect(await look()).toEqual(seen);
    expect((await rig.client.send('GET', '/gone')).status).toBe(404);
    await put(rig.client, '/plain/written again', 12);
    await ask(rig.client, 'DELETE', '/plain/written again');
    expect(await look()).toEqual(seen);
  });
});
