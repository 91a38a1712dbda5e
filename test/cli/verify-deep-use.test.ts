// `bursar verify deep`: what was used, what is unfinished and what was taken back; and a run that
// was interrupted goes on.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { verifyDeep } from '#bursar/server/folder/deep-verification.js';
import { loadConfig } from '#bursar/server/settings/config.js';
import { S3Client } from '../fault/s3-client.ts';
import { CatalogEditor } from '../tooling/attacks.ts';
import {
  call,
  operator as keys,
  operatorSettings as rootKeys,
  type Sending,
  send,
} from '../tooling/filled-folder.ts';
import { type Outcome, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let place: Workplace;
/** A copy that the test may alter. */
let copy: string;
/** Of what was made. */
const ids = { token: '', revoked: '', share: '', withKey: '', upload: '', aborted: '' };

beforeAll(async () => {
  place = new Workplace();
  copy = join(place.folder, 'copy');
  await serving(place.data, fill);
  // The sums by day are made a moment after each start, too.
  await serving(place.data, async (client) => {
    await send(client, 'GET', '/data/one');
  });
});

afterAll(() => place.remove());

async function serving(
  data: string,
  work: (client: S3Client, endpoint: string) => Promise<void>,
): Promise<void> {
  const served = await place.serve(['--data', data, '--sweep-interval', '1h'], rootKeys);
  const client = new S3Client({ endpoint: served.endpoint, ...keys });
  await work(client, served.endpoint);
  client.close();
  expect(await served.stop()).toBe(0);
}

async function fill(client: S3Client, endpoint: string): Promise<void> {
  await send(client, 'PUT', '/data');
  for (const name of ['one', 'two']) {
    await send(client, 'PUT', `/data/${name}`, { body: Buffer.from(name) });
  }
  await send(client, 'PUT', '/data/two', { body: Buffer.from('two, again') });
  await send(client, 'DELETE', '/data/two');
  const refused = await client.send('GET', '/data/nothing');
  expect(refused.status).toBe(404);
  // More than two tiles of records.
  for (let i = 0; i < 600; i += 20) {
    await Promise.all(Array.from({ length: 20 }, () => send(client, 'GET', '/data/one')));
  }
  for (const name of ['upload', 'aborted', 'completed'] as const) {
    await upload(client, name);
  }
  await call(client, 'POST', 'tenants', { name: 'cms' });
  await call(client, 'POST', 'tenants/cms/principals', { name: 'alice', role: 'admin' });
  const path = 'tenants/cms/principals/alice/access-keys';
  const own = await call(client, 'POST', path);
  const alice = new S3Client({ endpoint, ...own });
  const scope = { scope: 'storage.read:/data' };
  ids.token = (await call(client, 'POST', 'tokens', scope)).jti;
  ids.revoked = (await call(client, 'POST', 'tokens', scope)).jti;
  ids.withKey = (await call(alice, 'POST', 'tokens', scope)).jti;
  alice.close();
  ids.share = (await call(client, 'POST', 'shares', { bucket: 'data', key: 'one' })).id;
  await call(client, 'DELETE', `tokens/${ids.revoked}`);
  await call(client, 'DELETE', `${path}/${own.accessKeyId}`);
  await call(client, 'DELETE', 'tenants/cms/principals/alice');
}

async function upload(client: S3Client, name: 'upload' | 'aborted' | 'completed'): Promise<void> {
  const path = `/data/${name}`;
  const begun = await send(client, 'POST', path, { query: [['uploads', '']] });
  const [, id = ''] = /<UploadId>([^<]+)/.exec(begun.body.toString()) ?? [];
  const etags: string[] = [];
  for (const number of ['1', '2', '2']) {
    const query: Sending['query'] = [
      ['partNumber', number],
      ['uploadId', id],
    ];
    const body = Buffer.alloc(number === '1' ? 5 * 1024 * 1024 : 7, number);
    etags[Number(number) - 1] = String(
      (await send(client, 'PUT', path, { query, body })).headers.etag,
    );
  }
  const query: Sending['query'] = [['uploadId', id]];
  if (name === 'aborted') await send(client, 'DELETE', path, { query });
  if (name === 'completed') {
    const parts = etags.map(
      (etag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${etag}</ETag></Part>`,
    );
    const body = Buffer.from(
      `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`,
    );
    // Completing again is recorded as well.
    for (let i = 0; i < 2; i++) await send(client, 'POST', path, { query, body });
  } else ids[name] = id;
}

function connectionOf(endpoint: string, own: typeof keys): Record<string, string> {
  return {
    BURSAR_ENDPOINT: endpoint,
    BURSAR_ACCESS_KEY_ID: own.accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: own.secretAccessKey,
  };
}

function takeCopy(): void {
  rmSync(copy, { recursive: true, force: true });
  cpSync(place.data, copy, { recursive: true });
}

function verify(folder: string): Promise<Outcome> {
  return place.run(['verify', 'deep', '--data', folder, '--skip-data']);
}

it('finds nothing where nothing was altered', async () => {
  const { code, stdout } = await verify(place.data);
  expect(stdout).toMatch(/^compared \d+ records|^compared [\d,]+ records/);
  expect(code).toBe(0);
});

describe('of what was altered', () => {
  let said: Outcome;
  beforeAll(async () => {
    takeCopy();
    const catalog = new CatalogEditor(copy);
    for (const sql of [
      "UPDATE quota_accounts SET used_spend = '0' WHERE account = 'tenant:default'",
      "UPDATE quota_accounts SET used_stored_bytes = 1 WHERE account = 'bucket:default/data'",
      "UPDATE quota_windows SET used_spend = '7' WHERE window = 'month' AND account = " +
        "'tenant:default'",
      "DELETE FROM quota_accounts WHERE account = 'principal:default/admin'",
      'UPDATE usage_days SET requests = requests + 1 WHERE account = ' +
        "'principal:default/admin' AND action = 's3:GetObject'",
      "DELETE FROM usage_days WHERE account = 'bucket:default/data' AND action = 's3:PutObject'",
      "UPDATE uploads SET initiator = 'default/mallory' WHERE completed IS NULL",
      'DELETE FROM parts WHERE number = 1',
      'UPDATE parts SET size = 8 WHERE number = 2',
      'UPDATE uploads SET completed = NULL WHERE completed IS NOT NULL',
      `UPDATE tokens SET expires_ms = expires_ms + 1 WHERE id = '${ids.token}'`,
      `UPDATE tokens SET details = replace(details, 'one', 'two') WHERE id = '${ids.share}'`,
      `DELETE FROM revocations WHERE id IN ('${ids.revoked}', '${ids.withKey}')`,
      "INSERT INTO revocations VALUES ('added', 'default', 'admin', 1, NULL)",
      "DELETE FROM retired_names WHERE name = 'alice'",
      "INSERT INTO retired_tenants VALUES ('never')",
    ]) {
      expect(await catalog.run(sql), sql).toBeGreaterThan(0);
    }
    catalog.close();
    said = await verify(copy);
  });

  const told = (text: string) =>
    new RegExp(
      text.replaceAll(/\$(\w+)/g, (_, name: keyof typeof ids) => ids[name]),
      'm',
    );

  it.each([
    [
      'spend that was zeroed',
      'what tenant:default used: its spend is 0, and the records say \\d+$',
    ],
    [
      'stored bytes',
      'what bucket:default/data used: its storedBytes is 1, and the records say \\d+$',
    ],
    ['an account that was deleted', 'what principal:default/admin used: it is missing'],
    ['a window', 'the month of tenant:default, what was used before: its spend is 7, and the'],
    [
      'a sum of a day',
      'what principal:default/admin used on \\S+ by s3:GetObject of \\S+: its req',
    ],
    [
      'one that was deleted',
      'what bucket:default/data used on \\S+ by s3:PutObject of STANDARD: it is m',
    ],
    ['whose an upload is', 'upload $upload: its initiator is not what .* "default/mallory", not'],
    ['a part that was deleted', 'part $upload/1: it is missing, and record \\d+ told of it last'],
    ['one that was altered', 'part $upload/2: its size is not what record \\d+ .*: 8, not 7'],
    ['an upload that was put back', 'upload \\S+: no record made it'],
    ['a token that lasts longer', 'token $token: its expiresMs is not what record'],
    ['a share link that leads elsewhere', 'token $share: its details is not what record'],
    ['a revocation that was deleted', 'revocation of $revoked: it is missing, and record'],
    ['that of what was asked for with a key', 'revocation of $withKey: it is missing, and record'],
    ['one that was added', 'revocation of added: no record made it'],
    ['a name that could be given again', 'retired name cms/principal/alice: it is missing'],
    ['one that never was', 'retired name never: no record made it'],
  ])('tells %s', (_, text) => {
    expect(said.stdout).toMatch(told(text));
    expect(said.code).toBe(1);
  });

  it('tells nothing of what was not altered', () => {
    expect(said.stdout).not.toMatch(/store:|backend:|bucket:default\/data: |aborted/);
  });
});

describe('of a gateway that serves', () => {
  it('finds what somebody altered behind its back, for operators alone', async () => {
    takeCopy();
    await serving(copy, async (client, endpoint) => {
      const run = (own = keys, ...flags: string[]) =>
        place.run(['verify', 'deep', '--served', ...flags], connectionOf(endpoint, own));
      const unaltered = await run();
      expect(unaltered.stdout, unaltered.stderr).toMatch(/^compared \d/);
      expect(unaltered.code).toBe(0);
      const catalog = new CatalogEditor(copy);
      await catalog.run("UPDATE uploads SET initiator = 'default/mallory' WHERE completed IS NULL");
      catalog.close();
      const altered = await run();
      expect(altered.stdout).toMatch(/^upload \S+: its initiator is not what record/m);
      expect(altered.code).toBe(1);
      await call(client, 'POST', 'tenants/cms/principals', { name: 'bob', role: 'admin' });
      const bob = await call(client, 'POST', 'tenants/cms/principals/bob/access-keys');
      for (const flags of [[], ['--stop']]) {
        const refused = await run(bob, ...flags);
        expect(refused.stderr).toMatch(/AccessDenied|not allowed|denied/i);
        expect(refused.code).toBe(1);
      }
    });
  });
});

describe('of a gateway that is written to', () => {
  it('finds nothing meanwhile, by itself or from beside it', async () => {
    takeCopy();
    await serving(copy, async (client, endpoint) => {
      let isOver = false;
      const write = async (name: string) => {
        const rule = { effect: 'allow', actions: ['s3:GetObject'], bucket: 'data' };
        const subjects = ['principal:default/admin'];
        for (let i = 0; !isOver; i++) {
          const path = `/data/load/${name}/${i % 5}`;
          await send(client, 'PUT', path, { body: Buffer.alloc(1 + (i % 3) * 90_000, 'x') });
          await send(client, 'GET', path);
          if (i % 2) await send(client, 'DELETE', path);
          const grant = `tenants/default/grants/${name}${i % 3}`;
          await call(client, 'PUT', grant, { ...rule, subjects });
          await call(client, 'DELETE', grant);
          await call(client, 'PUT', 'limits/bucket:default/data', { requests: { day: 1e6 + i } });
        }
      };
      const writers = ['a', 'b', 'c'].map(write);
      const environment = connectionOf(endpoint, keys);
      for (let i = 0; i < 2; i++) {
        const served = await place.run(['verify', 'deep', '--served'], environment);
        expect(served.stdout, served.stderr).toMatch(/^compared \d/);
        expect(served.code).toBe(0);
        const beside = await verify(copy);
        expect(beside.stdout, beside.stderr).toMatch(/^compared \d/);
        expect(beside.code).toBe(0);
      }
      isOver = true;
      await Promise.all(writers);
    });
  });

  it('has one run at a time, which an operator can stop, and the next goes on', async () => {
    takeCopy();
    await serving(copy, async (client, endpoint) => {
      const path = 'deep-verification';
      const begun = await call(client, 'POST', path);
      expect(begun.isRunning).toBe(true);
      // The same one: no record was compared twice.
      const again = await call(client, 'POST', path);
      expect(again.isRunning || again.summary !== null).toBe(true);
      const stop = ['verify', 'deep', '--served', '--stop'];
      const { code, stderr } = await place.run(stop, connectionOf(endpoint, keys));
      expect([code, stderr]).toEqual([0, '']);
      const stopped = await call(client, 'GET', path);
      expect(stopped.isRunning).toBe(false);
      expect(stopped.summary ?? stopped.failure).toBeTruthy();
      // What cannot be gone on with is no reason to compare nothing.
      for (const suffix of ['', '-wal', '-shm']) {
        rmSync(join(copy, `verify-deep.db${suffix}`), { force: true });
      }
      writeFileSync(join(copy, 'verify-deep.db'), 'somebody wrote this');
      await call(client, 'POST', path);
      await vi.waitFor(
        async () => {
          const { isRunning, summary } = await call(client, 'GET', path);
          expect(isRunning).toBe(false);
          expect(summary).toMatchObject({ differences: 0 });
        },
        { timeout: 100_000, interval: 100 },
      );
    });
  });
});

it('stops nothing but runs of a gateway', async () => {
  const { code, stderr } = await place.run(['verify', 'deep', '--data', copy, '--stop']);
  expect(stderr).toMatch(/give it with --served/);
  expect(code).toBe(2);
});

describe('a run that was interrupted', () => {
  const state = () => join(place.folder, 'state.db');
  const interrupted = async (folder: string): Promise<number> => {
    let count = 0;
    const onProgress = (_: string, compared: number) => {
      count = compared;
      if (compared > 0) throw new Error('interrupted');
    };
    const options = {
      ...{ checkpointFiles: [], keys: [], withData: false, stateFile: state(), sliceMs: 0 },
      ...{ onProgress, onDifference: () => {} },
    };
    const run = verifyDeep(loadConfig({ data: folder }, {}), options);
    await expect(run).rejects.toThrow(/interrupted; --resume \S+ goes on from here/);
    return count;
  };
  const resume = (folder: string) =>
    place.run(['verify', 'deep', '--data', folder, '--skip-data', '--resume', state()]);

  beforeEach(() => {
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${state()}${suffix}`, { force: true });
  });

  it('goes on where it ended, whatever came meanwhile', async () => {
    takeCopy();
    expect(await interrupted(copy)).toBe(256);
    await serving(copy, async (client) => {
      await send(client, 'PUT', '/data/one', { body: Buffer.from('one, again') });
      await send(client, 'DELETE', '/data/upload', { query: [['uploadId', ids.upload]] });
    });
    expect(await interrupted(copy)).toBeGreaterThan(0);
    const { code, stdout } = await resume(copy);
    expect(stdout).toMatch(/^compared \d/);
    expect(code).toBe(0);
    expect(existsSync(state())).toBe(false);
  });

  it('tells what it had found, and compares what was signed of what it had passed', async () => {
    takeCopy();
    const catalog = new CatalogEditor(copy);
    await catalog.run("UPDATE records SET record = '{}' WHERE idx = 3");
    await interrupted(copy);
    await catalog.run("UPDATE uploads SET initiator = 'default/mallory' WHERE completed IS NULL");
    catalog.close();
    const { code, stdout } = await resume(copy);
    expect(stdout).toMatch(/^record 3: it is not what its leaf was made of$/m);
    expect(stdout).toMatch(/its initiator is not what record/);
    expect(code).toBe(1);
  });

  it('finds the same when it is killed in its midst, again and again', async () => {
    takeCopy();
    const catalog = new CatalogEditor(copy);
    for (const sql of [
      "UPDATE records SET record = '{}' WHERE idx IN (3, 300)",
      "UPDATE uploads SET initiator = 'default/mallory' WHERE completed IS NULL",
      "UPDATE quota_accounts SET used_requests = 1 WHERE account = 'bucket:default/data'",
    ]) {
      expect(await catalog.run(sql), sql).toBeGreaterThan(0);
    }
    catalog.close();
    const whole = await verify(copy);
    for (const after of [256, 512]) {
      const script = `
        import { loadConfig } from '#bursar/server/settings/config.js';
        import { verifyDeep } from '#bursar/server/folder/deep-verification.js';
        await verifyDeep(loadConfig({ data: ${JSON.stringify(copy)} }, {}), {
          checkpointFiles: [], keys: [], withData: false, sliceMs: 0,
          stateFile: ${JSON.stringify(state())},
          onDifference: () => {},
          onProgress: (_, count) => {
            if (count >= ${after}) process.kill(process.pid, 'SIGKILL');
          },
        });`;
      const child = spawn(process.execPath, ['--input-type=module', '-e', script]);
      expect(await once(child, 'exit')).toEqual([null, 'SIGKILL']);
      expect(existsSync(state())).toBe(true);
    }
    const resumed = await resume(copy);
    expect(resumed.stdout).toBe(whole.stdout);
    expect(resumed.stdout).toMatch(/^record 3: /m);
    expect(resumed.code).toBe(1);
  });

  it('believes nothing that somebody wrote into its file', async () => {
    takeCopy();
    await interrupted(copy);
    const db = openDatabase(state(), { readonly: false, cacheKib: 1024 });
    const altered = await db.tx.run("UPDATE things SET value = replace(value, 'admin', 'mallory')");
    expect(altered.changes).toBeGreaterThan(0);
    db.close();
    const { code, stderr } = await resume(copy);
    expect(stderr).toMatch(
      /cannot go on from \S+: it is not what a run of this Bursar on this folder wrote/,
    );
    expect(code).toBe(2);
  });
});
