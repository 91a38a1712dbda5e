// How a verification goes on: over slices, after an interruption of any kind, beside requests and
// beside writers; and whom it serves.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { WriteStream } from 'node:tty';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Progress } from '#bursar/cli/progress.js';
import { KiB, MiB, makeContent } from '../fault/content.ts';
import { makeTenant, postSlice, type Slice, verifyAll } from '../fault/integrity-client.ts';
import { sleep } from '../fault/plain-start.ts';
import { S3Client } from '../fault/s3-client.ts';
import { CatalogEditor, flipBit, StoredExtents } from '../tooling/attacks.ts';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const keys = {
  accessKeyId: 'VERIFYTESTACCESSKEY0',
  secretAccessKey: 'a-secret-of-the-operator-0123456789',
};
const rootKeys = {
  BURSAR_ROOT_ACCESS_KEY: keys.accessKeyId,
  BURSAR_ROOT_SECRET_KEY: keys.secretAccessKey,
};
const objects = 6;
const objectBytes = 3 * MiB;
const chunkBytes = 256 * KiB;

let place: Workplace;
let served: Served;
let client: S3Client;

const positionFile = () => join(place.folder, 'bursar-verify.json');

beforeAll(async () => {
  place = new Workplace();
  served = await place.serve([], rootKeys);
  client = new S3Client({ endpoint: served.endpoint, ...keys });
  await client.send('PUT', '/data');
  for (let i = 0; i < objects; i++) {
    const { bytes: body } = makeContent(i, objectBytes);
    expect((await client.send('PUT', `/data/${i}`, { body })).status).toBe(200);
  }
  const catalog = new CatalogEditor(place.data);
  const extents = StoredExtents.ofDataFolder(place.data);
  for (const key of ['1', '4']) {
    const [run] = await catalog.runsOf('data', key);
    extents.edit(run?.id as Buffer, (sealed) => flipBit(sealed, 5));
  }
  catalog.close();
});

afterAll(async () => {
  client.close();
  await place.remove();
});

interface Begun {
  process: ChildProcess;
  stdout(): string;
  stderr(): string;
}

/** A run that takes its time: a slice of 1 MiB a second. */
function beginSlowly(...flags: string[]): Begun {
  const main = resolve('app/main.js');
  const args = [main, 'verify', 'data', '--json', '--rate', '1MiB/s', ...flags];
  const child = spawn(process.execPath, args, {
    cwd: place.folder,
    env: bareEnvironment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const told = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    told.stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    told.stderr += text;
  });
  return { process: child, stdout: () => told.stdout, stderr: () => told.stderr };
}

async function reachPosition(bytes: number): Promise<void> {
  for (;;) {
    if (existsSync(positionFile())) {
      const run = JSON.parse(readFileSync(positionFile(), 'utf8'));
      if (run.bytes >= bytes) return;
    }
    await sleep(20);
  }
}

/** Keys of the findings, and the sum, of what a run wrote so far. */
function parse(stdout: string): { keys: string[]; sum: Record<string, number> | undefined } {
  const lines = stdout
    .trim()
    .split('\n')
    .filter((line) => line !== '');
  const parsed = lines.map((line) => JSON.parse(line));
  const findings = parsed.filter((one) => one.key !== undefined);
  return { keys: findings.map(({ key }) => key), sum: parsed.find((one) => one.key === undefined) };
}

// The damage is in the first chunk, of which no byte comes.
const whole = { versions: objects, bytes: (objects - 2) * objectBytes, findings: 2 };

describe('an interrupted run', () => {
  it('that was killed goes on inside the object where it was, and sums up all', async () => {
    const begun = beginSlowly();
    await reachPosition(4 * MiB);
    begun.process.kill('SIGKILL');
    await once(begun.process, 'close');
    const kept = JSON.parse(readFileSync(positionFile(), 'utf8'));
    expect(kept.bytes).toBeLessThan(whole.bytes);

    const { code, stdout } = await place.run(['verify', 'data', '--json', '--resume']);
    expect(code).toBe(1);
    const { keys: later, sum } = parse(stdout);
    expect(sum).toEqual(whole);
    expect([...parse(begun.stdout()).keys, ...later].sort()).toEqual(['1', '4']);
    expect(existsSync(positionFile())).toBe(false);
  });

  it('whose gateway was killed says how to go on, and goes on with the next one', async () => {
    const begun = beginSlowly();
    await reachPosition(2 * MiB);
    await served.stop('SIGKILL');
    const [code] = await once(begun.process, 'close');
    expect(code).toBe(1);
    expect(begun.stderr()).toContain('cannot reach the gateway');
    expect(begun.stderr()).toContain('--resume ./bursar-verify.json goes on from here');

    const { host } = new URL(served.endpoint);
    served = await place.serve(['--listen', host], rootKeys);
    const { stdout } = await place.run(['verify', 'data', '--json', '--resume']);
    const { keys: later, sum } = parse(stdout);
    expect(sum).toEqual(whole);
    expect([...parse(begun.stdout()).keys, ...later].sort()).toEqual(['1', '4']);
  });

  it('is not gone on with as another one', async () => {
    const file = join(place.folder, 'mine.json');
    const begun = beginSlowly('--bucket', 'data', '--resume', file);
    while (!existsSync(file)) await sleep(20);
    begun.process.kill('SIGKILL');
    await once(begun.process, 'close');
    const other = await place.run(['verify', 'data', '--resume', file, '--bucket', 'other']);
    expect(other.code).toBe(2);
    expect(other.stderr).toBe(`bursar: the run in ${file} has the bucket data, not other\n`);
    writeFileSync(file, '{"version":9}');
    const unknown = await place.run(['verify', 'data', '--resume', file]);
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('no position') });
  });
});

describe('a slice', () => {
  async function slice(body: object): Promise<Slice> {
    const answer = await postSlice(client, body);
    expect(answer.status).toBe(200);
    return JSON.parse(answer.body.toString());
  }

  it('ends with the chunk that reaches its bytes, and the next goes on behind it', async () => {
    let cursor: string | undefined;
    let [slices, bytes] = [0, 0];
    do {
      const next = await slice({ prefix: '0', cursor, bytesMax: chunkBytes + 1 });
      expect(next.bytes).toBeLessThanOrEqual(2 * chunkBytes);
      cursor = next.cursor ?? undefined;
      bytes += next.bytes;
      slices++;
    } while (cursor !== undefined);
    expect(bytes).toBe(objectBytes);
    expect(slices).toBe(objectBytes / chunkBytes / 2 + 1);
  });

  it('estimates the whole by the usage counters', async () => {
    const { estimate } = await slice({ bucket: 'data' });
    expect(estimate).toEqual({ versions: objects, bytes: objects * objectBytes });
    expect((await slice({ prefix: '0' })).estimate).toBeNull();
  });

  it.each([
    ['is no base64', '!'],
    ['is no JSON', 'bnVsbA'],
    ['is of other members', Buffer.from('[1,2,3]').toString('base64url')],
    ['has a number below zero', Buffer.from('[1,"a",-1,null]').toString('base64url')],
    ['is too long', 'A'.repeat(17_000)],
  ])('is refused when its cursor %s', async (_why, cursor) => {
    const answer = await postSlice(client, { cursor });
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      code: 'InvalidInput',
      field: 'body.cursor',
    });
  });

  it('tells an admin of its own tenant only, whatever the cursor says', async () => {
    const target = { endpoint: served.endpoint, ...keys };
    const boss = await makeTenant(client, target, 'lhcb');
    await boss.send('PUT', '/own');
    await boss.send('PUT', '/own/key', { body: Buffer.from('bytes') });
    const { cursor } = await slice({ bucket: 'data', bytesMax: 1 });
    for (const scope of [{}, { cursor }, { tenant: 'lhcb' }]) {
      expect(await verifyAll(boss, scope)).toMatchObject({ versions: 1, bytes: 5, findings: [] });
    }
    for (const [scope, code] of [
      [{ tenant: 'default' }, 'NoSuchTenant'],
      [{ tenant: 'nobody' }, 'NoSuchTenant'],
      [{ bucket: 'data' }, 'NoSuchBucket'],
    ] as const) {
      const answer = await postSlice(boss, scope);
      expect(JSON.parse(answer.body.toString()).code).toBe(code);
    }
    boss.close();
  });

  it.each(['auditor', 'member'])('is refused to one who is %s', async (role) => {
    const path = '/_/v1/tenants/default/principals';
    const post = async (to: string, body: object) => {
      const sending = {
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify(body)),
      };
      return JSON.parse((await client.send('POST', to, sending)).body.toString());
    };
    await post(path, { name: role, role });
    const key = await post(`${path}/${role}/access-keys`, {});
    const theirs = new S3Client({ endpoint: served.endpoint, ...key });
    expect((await postSlice(theirs, {})).status).toBe(403);
    theirs.close();
  });
});

describe('beside others', () => {
  it('two runs and many reads at once all come to their end', async () => {
    const read = async (): Promise<void> => {
      for (let i = 0; i < 8; i++) {
        const { sha256 } = await client.digest('/data/2');
        expect(sha256).toBe(makeContent(2, objectBytes).sha256);
      }
    };
    const [first, second] = await Promise.all([verifyAll(client), verifyAll(client), read()]);
    for (const run of [first, second]) {
      const mine = run.findings.filter(({ bucket }) => bucket === 'data');
      expect(mine.map(({ key }) => key)).toEqual(['1', '4']);
    }
  });

  it('what is overwritten, deleted and swept meanwhile is no finding', async () => {
    const other = new Workplace();
    const sweeping = ['--sweep-interval', '100ms', '--sweep-grace', '0ms'];
    const { endpoint } = await other.serve(sweeping, rootKeys);
    const writer = new S3Client({ endpoint, ...keys });
    await writer.send('PUT', '/busy');
    let isDone = false;
    const write = async (seed: number): Promise<void> => {
      for (let i = 0; !isDone; i++) {
        const path = `/busy/${seed}-${i % 5}`;
        const { bytes: body } = makeContent(seed, i % 2 === 0 ? 600 * KiB : 2000);
        await writer.send('PUT', path, { body });
        if (i % 3 === 0) await writer.send('DELETE', path);
      }
    };
    const writers = [write(1), write(2), write(3)];
    let versions = 0;
    while (versions < 200) {
      const run = await verifyAll(writer);
      expect(run.findings).toEqual([]);
      versions += run.versions;
    }
    isDone = true;
    await Promise.all(writers);
    writer.close();
    await other.remove();
  });
});

describe('progress', () => {
  function makeStream(isTTY: boolean) {
    const written: string[] = [];
    const write = (text: string) => written.push(text) > 0;
    return { written, stream: { isTTY, columns: 80, write } as unknown as WriteStream };
  }

  it('is a bar on a terminal, drawn over and never wider than it', () => {
    const { written, stream } = makeStream(true);
    const progress = new Progress(stream, 0);
    progress.show({ versions: 1, bytes: 512 }, { versions: 4, bytes: 2048 });
    progress.show({ versions: 9, bytes: 9999 }, { versions: 4, bytes: 2048 });
    progress.clear();
    expect(written).toHaveLength(3);
    const bar = `\r\u001b[K[######${'-'.repeat(18)}] 25%  512 B of 2.0 KiB, 1 of 4 versions`;
    expect(written[0]?.slice(0, bar.length)).toBe(bar);
    expect(written[1]).toContain(' 99% ');
    for (const text of written) expect(text.length).toBeLessThan(80 + '\r\u001b[K'.length);
  });

  it('is silent at first where there is no terminal', () => {
    const { written, stream } = makeStream(false);
    const progress = new Progress(stream, 0);
    progress.show({ versions: 1, bytes: 512 }, null);
    progress.clear();
    expect(written).toEqual([]);
  });
});
