// What a gateway ships while it serves is restored when its folder is lost (docs/admin/backup.md).
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { childrenOf } from '../tooling/child-processes.ts';
import { seededBytes } from '../tooling/files.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { expectAll, Load, prepare } from './acknowledged-load.ts';
import { listBucket } from './bookkeeping.ts';
import { ask } from './rebuild-content.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { listVersions } from './restore-content.ts';
import type { S3Client } from './s3-client.ts';
import { health, native, place, shippingFlags, untilShipped, waitMsMax } from './shipping-rig.ts';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

/**
 * Reads of before that have a record when the machine is lost, milliseconds. BURSAR_FULL=1 holds it
 * to that.
 */
const lostMsMax = 5000;
const recordedMsMax = 2000;

/** Reads again and again. */
class Reads {
  /** When each had ended, by its id. */
  readonly ended = new Map<string, number>();
  readonly #running: Promise<void>[];
  #isOver = false;

  constructor(client: S3Client) {
    this.#running = Array.from({ length: 2 }, () => this.#run(client));
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#running);
  }

  async #run(client: S3Client): Promise<void> {
    while (!this.#isOver) {
      try {
        const { status, headers } = await client.send('GET', '/near/1');
        if (status === 200) this.ended.set(String(headers['x-amz-request-id']), Date.now());
      } catch {
        return;
      }
    }
  }
}

/** Their ids. */
async function recordedReads(client: S3Client): Promise<Set<string>> {
  const ids = new Set<string>();
  for (let cursor: string | null = '0'; cursor !== null; ) {
    const query: [string, string][] = [
      ['action', 's3:GetObject'],
      ['cursor', cursor],
      ['limit', '1000'],
    ];
    const { body } = await ask(client, 'GET', '/_/v1/records', { query });
    const page = JSON.parse(body.toString()) as Page;
    for (const { requestId } of page.records) ids.add(requestId);
    cursor = page.next;
  }
  return ids;
}

/** S3 wants the digest of what is set. */
function withMd5(body: Buffer) {
  const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
  return { headers, body };
}

interface Page {
  records: { requestId: string }[];
  next: string | null;
}

describeWithTool(versitygw, 'a gateway that ships its changes', (path) => {
  let rig: RebuildRig;
  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve(shippingFlags(rig));
  });
  afterAll(() => rig?.stop());

  it('makes the backup that they are put on, and tells its lag', async () => {
    await untilShipped(rig.client);
    expect((await health(rig.client)).shipping).toMatchObject({ isLate: false, problem: null });
  });

  it('is restored with what no store tells, also when shipping was killed meanwhile', async () => {
    await ask(rig.client, 'PUT', '/near', { headers: { 'x-bursar-store': 'local' } });
    await native(rig.client, 'POST', '/tenants', { name: 'early' });
    const [child = 0] = childrenOf(rig.gateway.pid as number, 'ship-supervised');
    process.kill(child, 'SIGKILL');
    for (let i = 0; i < 20; i++) {
      await ask(rig.client, 'PUT', `/near/${i}`, { body: seededBytes(i, 5000) });
    }
    await native(rig.client, 'POST', '/tenants', { name: 'late' });
    await untilShipped(rig.client);
    await rig.kill();
    rig.loseFolder();
    const where = ['--s3-endpoint', rig.backend.endpoint, '--s3-path-style'];
    const { code, stdout, stderr } = await rig.run(['restore', place, '--json', ...where]);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout).shipped).toMatchObject({ segments: expect.any(Number) });
    await rig.serve(shippingFlags(rig));
    const tenants = JSON.stringify(await native(rig.client, 'GET', '/tenants'));
    expect(tenants).toContain('early');
    expect(tenants).toContain('late');
    for (let i = 0; i < 20; i++) {
      const { body } = await ask(rig.client, 'GET', `/near/${i}`);
      expect(body.equals(seededBytes(i, 5000))).toBe(true);
    }
    await untilShipped(rig.client);
    await rig.stopGateway();
    // A clean stop leaves one file.
    expect(existsSync(join(rig.dataDir, 'bursar.db-wal'))).toBe(false);
    const deep = await rig.runPlain(['verify', 'deep', '--data', rig.dataDir]);
    expect(deep.code, deep.stderr + deep.stdout).toBe(0);
    await rig.serve(shippingFlags(rig));
  });

  it('loses no write that an S3 store has, and records of reads of seconds', async () => {
    await prepare(rig.client);
    const load = new Load(rig.client);
    const reads = new Reads(rig.client);
    await vi.waitUntil(() => load.count > 100 && reads.ended.size > 100, waitMsMax);
    await untilShipped(rig.client);
    // So that there are some of before the seconds that may be lost.
    const { count } = load;
    const sinceMs = Date.now();
    await vi.waitUntil(
      () => load.count > count + 100 && Date.now() - sinceMs > 2 * lostMsMax,
      waitMsMax,
    );
    const askedMs = Date.now();
    const { lagSeconds } = (await health(rig.client)).shipping;
    await rig.kill();
    await load.end();
    await reads.end();
    rig.loseFolder();
    const where = ['--s3-endpoint', rig.backend.endpoint, '--s3-path-style'];
    const { code, stderr } = await rig.run(['restore', place, '--json', ...where]);
    expect(code, stderr).toBe(0);
    await rig.serve(shippingFlags(rig));
    await expectAll(rig.client, load);
    const recorded = await recordedReads(rig.client);
    // A read is recorded a moment after its end, which a busy machine makes long.
    const toldMs = askedMs - lagSeconds * 1000 - recordedMsMax;
    const safeMs = process.env.BURSAR_FULL === '1' ? askedMs - lostMsMax : toldMs;
    const safe = [...reads.ended].filter(([, endMs]) => endMs < safeMs).map(([id]) => id);
    expect(safe.length).toBeGreaterThan(0);
    expect(safe.filter((id) => !recorded.has(id))).toEqual([]);
  });

  it('is restored with what local buckets were told, and bytes as of the backup', async () => {
    const large = (seed: number) => ({ body: seededBytes(seed, 200_000) });
    const tagged = { headers: { 'x-amz-tagging': 'when=before' } };
    const enabled = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
    const where = ['--s3-endpoint', rig.backend.endpoint, '--s3-path-style'];
    for (const name of ['here', 'versions']) {
      await ask(rig.client, 'PUT', `/${name}`, { headers: { 'x-bursar-store': 'local' } });
    }
    await ask(rig.client, 'PUT', '/versions', {
      query: [['versioning', '']],
      ...withMd5(Buffer.from(enabled)),
    });
    for (const path of ['/here/backed', '/here/replaced', '/here/deleted', '/versions/replaced']) {
      await ask(rig.client, 'PUT', path, { ...large(1), ...tagged });
    }
    // The gateway's own backup is older than what follows, and what is shipped can be put on that
    // only: it takes a minute until the gateway notices the one that is made here.
    await untilShipped(rig.client);
    const { code, stderr } = await rig.backUp(place, where);
    expect(code, stderr).toBe(0);
    for (const path of ['/here/replaced', '/versions/replaced', '/here/new']) {
      await ask(rig.client, 'PUT', path, large(2));
    }
    await ask(rig.client, 'PUT', '/here/small', { body: seededBytes(3, 60_000) });
    await ask(rig.client, 'DELETE', '/here/deleted');
    await ask(rig.client, 'DELETE', '/here/backed', { query: [['tagging', '']] });
    await untilShipped(rig.client);
    await rig.kill();
    rig.loseFolder();
    const restored = await rig.run(['restore', place, '--json', ...where]);
    expect(restored.code, restored.stderr).toBe(0);
    expect(JSON.parse(restored.stdout)).toMatchObject({ localMissing: 3 });
    await rig.serve(shippingFlags(rig));
    const { objects } = await listBucket(rig.client, 'here');
    expect([...objects.keys()].sort()).toEqual(['backed', 'new', 'replaced', 'small']);
    const backed = await ask(rig.client, 'GET', '/here/backed');
    expect(backed.body.equals(seededBytes(1, 200_000))).toBe(true);
    expect(backed.headers['x-amz-tagging-count']).toBeUndefined();
    const small = await ask(rig.client, 'GET', '/here/small');
    expect(small.body.equals(seededBytes(3, 60_000))).toBe(true);
    for (const path of ['/here/new', '/here/replaced', '/versions/replaced']) {
      expect((await rig.client.send('HEAD', path)).headers['content-length']).toBe('200000');
      const { status, body } = await rig.client.send('GET', path);
      expect([status, body.toString()]).toEqual([
        500,
        expect.stringContaining('BursarIntegrityError'),
      ]);
    }
    const [, before] = (await listVersions(rig.client, 'versions')).map((one) => one.versionId);
    const kept = await ask(rig.client, 'GET', '/versions/replaced', {
      query: [['versionId', before as string]],
    });
    expect(kept.body.equals(seededBytes(1, 200_000))).toBe(true);
  });
});
