// Random moments: a gateway on an S3 store is backed up while it is written to, written to further,
// killed, loses its folder (and sometimes its newest backup), and is restored. What was
// acknowledged is there; what was under way is there or not; nothing else is. BURSAR_FULL=1 has 20
// rounds, by default there are 2; each goes on with what the one before restored.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { seededBytes } from '../tooling/files.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { ask } from './rebuild-content.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { listVersions } from './restore-content.ts';
import type { S3Client } from './s3-client.ts';

const rounds = process.env.BURSAR_FULL === '1' ? 20 : 1;
const keys = 42;
const writers = 6;
const enabled = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';

/** What a key of the plain bucket may be: digests of bytes, or null: nothing is there. */
type May = Set<string | null>;

/**
 * Of a key of the bucket with versions: what was acknowledged, the newest first, and what may be
 * besides.
 */
interface Kept {
  versions: string[];
  isUnsure: boolean;
}

class Model {
  readonly plain = new Map<string, May>();
  readonly kept = new Map<string, Kept>();
  #seed = 1;

  /** One operation; when it was not answered, what it would have done may have been done. */
  async work(client: S3Client, key: string): Promise<void> {
    const seed = this.#seed++;
    const body = seededBytes(seed, 100 + ((seed * 7919) % 20_000));
    const digest = createHash('sha256').update(body).digest('hex');
    const what = seed % 7;
    if (what < 3)
      await this.#change(key, digest, () => ask(client, 'PUT', `/plain/${key}`, { body }));
    else if (what === 3)
      await this.#change(key, null, () => ask(client, 'DELETE', `/plain/${key}`));
    else if (what < 6) await this.#add(key, () => ask(client, 'PUT', `/kept/${key}`, { body }));
    else await this.#end(client, key);
  }

  async #change(key: string, to: string | null, act: () => Promise<unknown>): Promise<void> {
    const may = this.plain.get(key) ?? new Set([null]);
    this.plain.set(key, new Set([...may, to]));
    await act();
    this.plain.set(key, new Set([to]));
  }

  async #add(key: string, act: () => Promise<{ headers: object }>): Promise<void> {
    const known = this.kept.get(key) ?? { versions: [], isUnsure: false };
    this.kept.set(key, { ...known, isUnsure: true });
    const { headers } = await act();
    const id = String((headers as Record<string, string>)['x-amz-version-id']);
    this.kept.set(key, { versions: [id, ...known.versions], isUnsure: false });
  }

  async #end(client: S3Client, key: string): Promise<void> {
    const known = this.kept.get(key);
    const [newest, ...others] = known?.versions ?? [];
    if (!newest) return;
    this.kept.set(key, { versions: others, isUnsure: true });
    await ask(client, 'DELETE', `/kept/${key}`, { query: [['versionId', newest]] });
    this.kept.set(key, { versions: others, isUnsure: false });
  }

  /** What is not as it may be; from here on what is there is what was acknowledged. */
  async compare(client: S3Client): Promise<string[]> {
    const wrong: string[] = [];
    for (const [key, may] of this.plain) {
      const { status, body } = await client.send('GET', `/plain/${key}`);
      const is = status === 404 ? null : createHash('sha256').update(body).digest('hex');
      if (!may.has(is)) wrong.push(`plain/${key}: ${status}`);
      this.plain.set(key, new Set([is]));
    }
    const listed = await listVersions(client, 'kept');
    for (const [key, { versions, isUnsure }] of this.kept) {
      const is = listed.filter((one) => one.key === key).map(({ versionId }) => versionId);
      const isThere = versions.every((id) => is.includes(id));
      // One that was under way, of whichever kind, is one more.
      if (!isThere || is.length - versions.length > Number(isUnsure)) {
        wrong.push(`kept/${key}: ${is} instead of ${versions}`);
      }
      this.kept.set(key, { versions: is, isUnsure: false });
    }
    return wrong;
  }
}

describeWithTool(versitygw, 'a data folder that is lost at any moment', (path) => {
  let rig: RebuildRig;
  const folder = mkdtempSync(join(tmpdir(), 'bursar-moments-'));
  const place = join(folder, 'place');
  const model = new Model();

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve();
    await ask(rig.client, 'PUT', '/plain');
    await ask(rig.client, 'PUT', '/kept');
    const headers = { 'content-md5': createHash('md5').update(enabled).digest('base64') };
    const body = Buffer.from(enabled);
    await ask(rig.client, 'PUT', '/kept', { query: [['versioning', '']], headers, body });
    expect((await rig.backUp(place)).code).toBe(0);
  }, 120_000);
  afterAll(async () => {
    await rig?.stop();
    rmSync(folder, { recursive: true, force: true });
  }, 60_000);

  it(
    `has all that was acknowledged after ${rounds} losses`,
    async () => {
      for (let round = 0; round < rounds; round++) {
        await runRound(round);
        const newest = await rig.runPlain([
          'backup',
          'list',
          place,
          '--data',
          rig.dataDir,
          '--json',
        ]);
        const ids = (JSON.parse(newest.stdout) as { id: string }[]).map(({ id }) => id);
        // Each third time the newest backup is lost as well.
        const id = round % 3 === 2 ? ids.at(-2) : ids.at(-1);
        const { code, stderr } = await rig.run(['restore', place, '--backup', id as string]);
        expect(code, stderr).toBe(0);
        await rig.serve();
        expect(await model.compare(rig.client), `round ${round}`).toEqual([]);
      }
      const before = await rig.client.send('GET', '/_/v1/health');
      expect(JSON.parse(before.body.toString()).stores.s3).toMatchObject({ ready: true });
      await rig.stopGateway();
      const deep = await rig.runPlain(['verify', 'deep', '--data', rig.dataDir]);
      expect(deep.code, deep.stderr + deep.stdout).toBe(0);
      await rig.serve();
    },
    rounds * 60_000,
  );

  async function runRound(round: number): Promise<void> {
    const { client } = rig;
    let isOver = false;
    const write = async (writer: number): Promise<void> => {
      for (let i = writer; !isOver; i += writers) {
        // Each writer has its own keys.
        await model.work(client, `${i % keys}`).catch(() => {
          if (!isOver) throw new Error('a request failed while the gateway ran');
        });
      }
    };
    const writing = Promise.all(Array.from({ length: writers }, (_, writer) => write(writer)));
    const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));
    await pause(300 + ((round * 977) % 900));
    const made = await rig.backUp(place, ['--rate', '4MiB']);
    await pause(200 + ((round * 613) % 1500));
    isOver = true;
    await rig.kill();
    await writing;
    expect(made.code, made.stderr).toBe(0);
    rig.loseFolder();
  }
});
