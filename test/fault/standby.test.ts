// A second machine follows what a gateway ships, and takes its place when that is gone
// (docs/admin/standby.md). Two processes on one machine stand for the two, with a real S3 server that has
// the store and the backups.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { seededBytes } from '../tooling/files.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { ask } from './rebuild-content.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { listVersions } from './restore-content.ts';
import { S3Client } from './s3-client.ts';
import { native, place, shippingFlags, untilShipped, waitMsMax } from './shipping-rig.ts';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

const main = resolve(import.meta.dirname, '../../dist/cli/main.js');
const enabled = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
/** The second machine. */
class Standby {
  readonly dataDir = mkdtempSync(join(tmpdir(), 'bursar-standby-'));
  readonly #rig: RebuildRig;
  #child: ChildProcess | null = null;
  #told = '';
  gateway: ServedGateway | null = null;

  constructor(rig: RebuildRig) {
    this.#rig = rig;
    cpSync(join(rig.dataDir, 'keys'), join(this.dataDir, 'keys'), { recursive: true });
  }

  get told(): string {
    return this.#told;
  }

  follow(): void {
    const where = ['--s3-endpoint', this.#rig.backend.endpoint, '--s3-path-style'];
    const words = ['standby', 'follow', place, '--data', this.dataDir, '--every', '100ms'];
    this.#child = spawn(process.execPath, [main, ...words, ...where], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: this.#env(),
    });
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#told += text;
    });
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((done) => child.once('close', done));
    child.kill('SIGKILL');
    await ended;
  }

  async status() {
    const { code, stdout } = await this.run(['standby', 'status', '--json'], []);
    return code === 0 ? JSON.parse(stdout) : null;
  }

  /** Waits until it has all that had been shipped. */
  async untilFollowed(): Promise<void> {
    const sinceMs = Date.now();
    const isFollowed = async () => {
      const askedMs = Date.now();
      const status = await this.status();
      return status?.segment && askedMs - status.secondsBehind * 1000 > sinceMs;
    };
    await vi.waitUntil(isFollowed, { timeout: waitMsMax, interval: 200 });
  }

  run(words: string[], flags = this.#storeFlags(), killAt?: string) {
    const all = [main, ...words, '--data', this.dataDir, ...flags];
    return new Promise<{ code: number; stdout: string; stderr: string }>((done) => {
      const child = execFile(process.execPath, all, { env: this.#env() }, (_, stdout, stderr) =>
        done({ code: child.exitCode ?? -1, stdout, stderr }),
      );
      if (killAt === undefined) return;
      child.stderr?.on('data', (text: string) => {
        if (text.includes(killAt)) child.kill('SIGKILL');
      });
    });
  }

  promote(killAt?: string) {
    return this.run(['standby', 'promote', '--json'], this.#storeFlags(), killAt);
  }

  async serve(): Promise<S3Client> {
    const { dataDir } = this;
    const env = this.#env();
    this.gateway = await startServedGateway({ dataDir, args: this.#storeFlags(), env });
    return new S3Client(this.gateway);
  }

  async remove(): Promise<void> {
    await this.kill();
    await this.gateway?.stop();
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  #storeFlags(): string[] {
    const { endpoint } = this.#rig.backend;
    return ['--store', 's3://backend/store', '--store-endpoint', endpoint, '--store-path-style'];
  }

  #env(): Record<string, string> {
    const { accessKeyId, secretAccessKey } = this.#rig.backend.credentials;
    return {
      PATH: process.env.PATH ?? '',
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
      AWS_EC2_METADATA_DISABLED: 'true',
    };
  }
}

/** Writes, and knows what was acknowledged. */
class Load {
  /** Seeds by path; of the bucket that keeps versions all, and else the last. */
  readonly last = new Map<string, number>();
  readonly versions = new Map<string, number>();
  /** Written by requests whose answer never came: they may be there or not. */
  readonly unsure = new Map<string, Set<number>>();
  readonly #running: Promise<void>[];
  #seed = 0;
  #isOver = false;

  constructor(client: S3Client) {
    this.#running = Array.from({ length: 4 }, (_, i) => this.#run(client, i));
  }

  get count(): number {
    return this.#seed;
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#running);
  }

  async #run(client: S3Client, worker: number): Promise<void> {
    for (let i = 0; !this.#isOver; i++) {
      const seed = ++this.#seed;
      const path = `/${i % 3 === 0 ? 'kept' : 'plain'}/${worker}-${i % 17}`;
      const body = bodyOf(seed);
      const unsure = this.unsure.get(path) ?? new Set();
      this.unsure.set(path, unsure.add(seed));
      try {
        const { status, headers } = await client.send('PUT', path, { body });
        if (status !== 200) continue;
        unsure.delete(seed);
        this.last.set(path, seed);
        const version = headers['x-amz-version-id'];
        if (version) this.versions.set(`${path}?${version}`, seed);
      } catch {
        return;
      }
    }
  }
}

function bodyOf(seed: number): Buffer {
  return seededBytes(seed, 100 + ((seed * 7919) % 20_000) + (seed % 13 === 0 ? 150_000 : 0));
}

async function prepare(client: S3Client): Promise<void> {
  await ask(client, 'PUT', '/plain');
  await ask(client, 'PUT', '/kept');
  const body = Buffer.from(enabled);
  const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
  await ask(client, 'PUT', '/kept', { query: [['versioning', '']], headers, body });
}

async function expectAll(client: S3Client, { last, versions, unsure }: Load): Promise<void> {
  for (const [path, seed] of last) {
    if (path.startsWith('/kept')) continue;
    const { body } = await ask(client, 'GET', path);
    const seeds = [seed, ...(unsure.get(path) ?? [])];
    expect(
      seeds.some((one) => body.equals(bodyOf(one))),
      path,
    ).toBe(true);
  }
  const listed = await listVersions(client, 'kept');
  for (const [name, seed] of versions) {
    const [path = '', id = ''] = name.split('?');
    expect(
      listed.some(({ versionId }) => versionId === id),
      name,
    ).toBe(true);
    const { body } = await ask(client, 'GET', path, { query: [['versionId', id]] });
    expect(body.equals(bodyOf(seed)), name).toBe(true);
  }
}

describeWithTool(versitygw, 'a standby', (path) => {
  describe('of a gateway whose machine dies', () => {
    let rig: RebuildRig;
    let standby: Standby;
    let client: S3Client | undefined;
    beforeAll(async () => {
      rig = await RebuildRig.start(path);
      await rig.serve(shippingFlags(rig));
      standby = new Standby(rig);
    });
    afterAll(async () => {
      client?.close();
      await standby?.remove();
      await rig?.stop();
    });

    it('follows, is killed while it does, and has all that was acknowledged when it is promoted', async () => {
      await prepare(rig.client);
      await native(rig.client, 'POST', '/tenants', { name: 'cms' });
      await untilShipped(rig.client);
      standby.follow();
      await standby.untilFollowed();
      const load = new Load(rig.client);
      for (let kills = 0; kills < 3; kills++) {
        await standby.kill();
        const { count } = load;
        await vi.waitUntil(() => load.count > count + 40, waitMsMax);
        standby.follow();
        await standby.untilFollowed();
      }
      await native(rig.client, 'POST', '/tenants', { name: 'last' });
      await untilShipped(rig.client);
      await standby.untilFollowed();
      const served = await standby.run(['serve', '--listen', '127.0.0.1:0']);
      expect(served).toMatchObject({ code: 1 });
      await rig.kill();
      await load.end();
      for (const step of [
        'copying the database',
        'comparing versions',
        'writing the new journal',
      ]) {
        await standby.promote(step);
        expect(existsSync(join(standby.dataDir, 'bursar.db'))).toBe(false);
      }
      const promoted = await standby.promote();
      expect(promoted.code, promoted.stderr).toBe(0);
      expect(JSON.parse(promoted.stdout)).toMatchObject({
        stores: { isWhole: true, lost: { count: 0 } },
        placeProblem: null,
      });
      client = await standby.serve();
      const tenants = JSON.stringify(await native(client, 'GET', '/tenants'));
      expect(tenants).toContain('cms');
      expect(tenants).toContain('last');
      await expectAll(client, load);
      await ask(client, 'PUT', '/plain/after', { body: Buffer.from('after') });
    });

    it('is the owner of the stores: the dead one is refused them when it returns', async () => {
      await expect(rig.serve()).rejects.toThrow('belongs to another data folder');
    });
  });

  describe('of a gateway that stands still', () => {
    let rig: RebuildRig;
    let standby: Standby;
    let client: S3Client | undefined;
    beforeAll(async () => {
      rig = await RebuildRig.start(path);
      await rig.serve(shippingFlags(rig));
      standby = new Standby(rig);
    });
    afterAll(async () => {
      client?.close();
      await standby?.remove();
      await rig?.stop();
    });

    it('takes its place: it acknowledges nothing more when it goes on', async () => {
      await prepare(rig.client);
      await untilShipped(rig.client);
      standby.follow();
      await standby.untilFollowed();
      const load = new Load(rig.client);
      await vi.waitUntil(() => load.count > 60, waitMsMax);
      process.kill(rig.gateway.pid as number, 'SIGSTOP');
      let promoted: Awaited<ReturnType<Standby['promote']>>;
      try {
        promoted = await standby.promote();
        expect(promoted.code, promoted.stderr).toBe(0);
        client = await standby.serve();
        await ask(client, 'PUT', '/plain/new owner', { body: Buffer.from('new') });
      } finally {
        process.kill(rig.gateway.pid as number, 'SIGCONT');
      }
      // What was under way then goes on, too: whatever of it is acknowledged must be there.
      const late = ['plain', 'kept'].flatMap((bucket) =>
        Array.from({ length: 20 }, (_, i) =>
          rig.client.send('PUT', `/${bucket}/late-${i}`, { body: bodyOf(i) }),
        ),
      );
      const statuses = (await Promise.all(late)).map(({ status }) => status);
      expect(new Set(statuses)).toEqual(new Set([503]));
      await load.end();
      await expectAll(client, load);
      for (const bucket of ['plain', 'kept']) {
        expect((await client.send('GET', `/${bucket}/late-1`)).status).toBe(404);
      }
    });
  });
});
