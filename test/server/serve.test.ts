// `bursar serve`: the first start, the operator's key, the lock, and the end.

import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { acquireLock, openDatabase } from '#bursar/core/database.js';
import { type Served, Workplace } from '../cli/command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let place: Workplace;
let credentials: string;
/** Of a first start, for those who only look. */
let shared: Workplace;
let running: Served;
/** What a gateway leaves that was stopped, and how it ended. */
let left: Workplace;
let ending: number | NodeJS.Signals | null;
/** Alice's, who is known there. */
let accessKeyId: string;

beforeAll(async () => {
  shared = new Workplace();
  running = await shared.serve();
  left = new Workplace();
  const served = await left.serve();
  await left.run(['principal', 'create', 'default/alice']);
  const made = await left.run(['key', 'create', 'default/alice', '--json']);
  accessKeyId = JSON.parse(made.stdout).accessKeyId;
  ending = await served.stop();
});

afterAll(async () => {
  await shared.remove();
  await left.remove();
});

beforeEach(() => {
  place = new Workplace();
  credentials = join(place.data, 'credentials');
});

afterEach(() => place.remove());

/** As if a gateway had served here before. */
function takeOver(): void {
  cpSync(left.data, place.data, { recursive: true });
}

const rootA = { BURSAR_ROOT_ACCESS_KEY: 'ROOTKEYA', BURSAR_ROOT_SECRET_KEY: 'root-secret' };
const rootB = { BURSAR_ROOT_ACCESS_KEY: 'ROOTKEYB', BURSAR_ROOT_SECRET_KEY: 'other-secret' };

/** The environment of an administration command that signs with this key. */
function signWith(root: typeof rootA, endpoint: string) {
  return {
    BURSAR_ACCESS_KEY_ID: root.BURSAR_ROOT_ACCESS_KEY,
    BURSAR_SECRET_ACCESS_KEY: root.BURSAR_ROOT_SECRET_KEY,
    BURSAR_ENDPOINT: endpoint,
  };
}

describe('the first start', () => {
  test('makes all that is needed for the next command to work, for its owner alone', async () => {
    const written = join(shared.data, 'credentials');
    expect(statSync(shared.data).mode & 0o777).toBe(0o700);
    expect(statSync(written).mode & 0o777).toBe(0o600);
    const text = readFileSync(written, 'utf8');
    expect(text).toMatch(/^\[bursar\]$/m);
    expect(text).toMatch(/^aws_access_key_id = [A-Z2-7]{20}$/m);
    expect(text).toMatch(/^aws_secret_access_key = \S{40}$/m);
    expect(text).toMatch(/^region = us-east-1$/m);
    expect(text).toContain(`endpoint_url = ${running.endpoint}\n`);

    const { code, stdout } = await shared.run(['tenant', 'list', '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject([{ name: 'default', membersCreateBuckets: true }]);
    const { stdout: principals } = await shared.run(['principal', 'list', 'default', '--json']);
    expect(JSON.parse(principals)).toMatchObject([{ name: 'admin', role: 'operator' }]);
  });

  test('says what to paste, and no secret', () => {
    const written = join(shared.data, 'credentials');
    const secret = /^aws_secret_access_key = (\S+)$/m.exec(readFileSync(written, 'utf8'))?.[1];
    const said = running.stdout();
    expect(said).toContain(`export AWS_SHARED_CREDENTIALS_FILE=${written} AWS_PROFILE=bursar`);
    expect(said).toContain(`aws --endpoint-url ${running.endpoint} s3 mb s3://first`);
    expect(said).toContain('boto3.Session(profile_name="bursar")');
    expect(said).not.toContain(String(secret));
  });

  test('that was cut short after the credentials were written is completed with them', async () => {
    takeOver();
    const before = /^aws_access.*\n.*$/m.exec(readFileSync(credentials, 'utf8'))?.[0];
    for (const name of readdirSync(place.data)) {
      if (name.startsWith('bursar.db')) rmSync(join(place.data, name));
    }
    await place.serve();
    expect(/^aws_access.*\n.*$/m.exec(readFileSync(credentials, 'utf8'))?.[0]).toBe(before);
    expect((await place.run(['tenant', 'list'])).code).toBe(0);
  });

  // Of many other moments test/fault/kill.test.ts tells.
  test.each([40, 350])(
    'killed about %i ms after it began, is completed by the next',
    async (delayMs) => {
      const doomed = place.run(['serve', '--listen', '127.0.0.1:0']);
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      place.killAll();
      await doomed;
      await place.serve();
      expect((await place.run(['tenant', 'list'])).code).toBe(0);
    },
  );
});

describe("the operator's key", () => {
  test('given by the environment works, and is what the credentials file says', async () => {
    const served = await place.serve([], rootA);
    const listed = await place.run(['tenant', 'list'], signWith(rootA, served.endpoint));
    expect(listed.code).toBe(0);
    expect(readFileSync(credentials, 'utf8')).toContain('aws_access_key_id = ROOTKEYA\n');
    expect((await place.run(['tenant', 'list'])).code).toBe(0);
  });

  test('changed at a later start replaces the old one, generated or given', async () => {
    takeOver();
    writeFileSync(join(place.folder, 'old'), readFileSync(credentials));

    const second = await place.serve([], rootA);
    const with1 = ['--credentials', 'old', '--endpoint', second.endpoint];
    expect(await place.run(['tenant', 'list', ...with1])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('InvalidAccessKeyId'),
    });
    await second.stop();

    const third = await place.serve([], rootB);
    expect((await place.run(['tenant', 'list'], signWith(rootA, third.endpoint))).code).toBe(1);
    expect((await place.run(['tenant', 'list'], signWith(rootB, third.endpoint))).code).toBe(0);
    await third.stop();

    // Kept when it is no longer given, and not put again when it did not change.
    const fourth = await place.serve();
    expect((await place.run(['tenant', 'list'], signWith(rootB, fourth.endpoint))).code).toBe(0);
    await fourth.stop();
    const fifth = await place.serve([], rootB);
    const puts = await place.run(['records', '--action', 'bursar:PutRootKey', '--json']);
    expect(puts.stdout.trim().split('\n')).toHaveLength(3);
    await fifth.stop();
  });

  test("that is another principal's stops the start", async () => {
    takeOver();
    const root = { ...rootA, BURSAR_ROOT_ACCESS_KEY: accessKeyId };
    expect(await place.run(['serve', '--listen', '127.0.0.1:0'], root)).toMatchObject({
      code: 1,
      stderr: 'bursar: BURSAR_ROOT_ACCESS_KEY is the access key of somebody else\n',
    });
  });

  test('is not written again where somebody removed the file', async () => {
    takeOver();
    rmSync(credentials);
    await (await place.serve()).stop();
    expect(existsSync(credentials)).toBe(false);
  });
});

describe('a second process', () => {
  test('on the same folder is refused with one line, and the first goes on', async () => {
    expect(await shared.run(['serve', '--listen', '127.0.0.1:0'])).toEqual({
      code: 1,
      stdout: '',
      stderr: 'bursar: ./bursar-data is in use by another bursar process\n',
    });
    expect((await shared.run(['tenant', 'list'])).code).toBe(0);
  });

  test('wins or loses whole when many start at once, and may start after a kill', async () => {
    const starts = await Promise.allSettled([1, 2, 3].map(() => place.serve()));
    const [winner, ...others] = starts.flatMap((start) => {
      if (start.status === 'fulfilled') return [start.value];
      expect(String(start.reason)).toContain('is in use');
      return [];
    });
    expect(others).toEqual([]);
    expect((await place.run(['tenant', 'list'])).code).toBe(0);
    expect(await winner?.stop('SIGKILL')).toBe('SIGKILL');
    await place.serve();
    expect((await place.run(['tenant', 'list'])).code).toBe(0);
  });
});

describe('the lock', () => {
  test('is held by one, and free again when released', () => {
    const path = join(place.folder, 'lock.db');
    const release = acquireLock(path);
    expect(release).toBeDefined();
    expect(acquireLock(path)).toBeUndefined();
    release?.();
    const again = acquireLock(path);
    expect(again).toBeDefined();
    again?.();
  });

  test('of something that is no database is an error, not a free pass', () => {
    const path = join(place.folder, 'lock.db');
    writeFileSync(path, 'x'.repeat(4096));
    expect(() => acquireLock(path)).toThrow();
  });
});

describe('a start that cannot be', () => {
  test('says in one line that the port is taken, and lets the folder go', async () => {
    const listen = running.endpoint.replace('http://', '');
    const other = ['serve', '--data', 'other', '--listen'];
    const refused = await place.run([...other, listen]);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(
      /^bursar: cannot listen on 127\.0\.0\.1 [^\n]*EADDRINUSE[^\n]*\n$/,
    );
    const again = await place.serve(['--data', 'other']);
    expect(await again.stop()).toBe(0);
  });

  test('refuses a database whose key file is gone, and makes no new one', async () => {
    takeOver();
    const keyFile = join(place.data, 'keys', 'root-keys.json');
    rmSync(keyFile);
    const refused = await place.run(['serve', '--listen', '127.0.0.1:0']);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/^bursar: [^\n]*root-keys\.json is missing[^\n]*\n$/);
    expect(existsSync(keyFile)).toBe(false);
  });

  test('refuses a key file that is another database’s, and changes nothing', async () => {
    takeOver();
    const keyFile = join(place.data, 'keys', 'root-keys.json');
    const own = readFileSync(keyFile);
    const other = Buffer.alloc(32, 7).toString('base64');
    writeFileSync(keyFile, own.toString().replace(/"key": "[^"]*"/, `"key": "${other}"`));
    for (const environment of [{}, rootA]) {
      const refused = await place.run(['serve', '--listen', '127.0.0.1:0'], environment);
      expect(refused).toMatchObject({ code: 1, stdout: '' });
      expect(refused.stderr).toMatch(
        /^bursar: cannot start: the key file has another root key of epoch 1 than [^\n]*\n$/,
      );
    }
    writeFileSync(keyFile, own);
    await place.serve();
    expect((await place.run(['tenant', 'list'])).code).toBe(0);
  });

  test('says in one line that the database is of a newer release, which it leaves', async () => {
    takeOver();
    const file = join(place.data, 'bursar.db');
    const editor = openDatabase(file, { readonly: false, cacheKib: 1024 });
    const own = editor.userVersion();
    editor.exec(`PRAGMA user_version = ${own + 1}`);
    const refused = await place.run(['serve', '--listen', '127.0.0.1:0']);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(
      /^bursar: cannot start: the database has schema \d+ and needs Bursar [^\n]*\n$/,
    );
    editor.exec(`PRAGMA user_version = ${own}`);
    editor.close();
    await place.serve();
    expect((await place.run(['tenant', 'list'])).code).toBe(0);
  });

  test('refuses a data folder that is a file', async () => {
    writeFileSync(join(place.folder, 'file'), '');
    const refused = await place.run(['serve', '--data', 'file', '--listen', '127.0.0.1:0']);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(/^bursar: cannot use file: [^\n]*\n$/);
  });
});

describe('the end', () => {
  test('comes with exit code 0, by SIGTERM or SIGINT', async () => {
    expect(ending).toBe(0);
    const served = await place.serve();
    expect(await served.stop('SIGINT')).toBe(0);
  });

  /** Begins a request whose body lacks its last byte, and makes sure that the server has it. */
  async function beginRequest(endpoint: string) {
    const { hostname, port } = new URL(endpoint);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    let answer = '';
    socket.setEncoding('utf8').on('data', (piece: string) => {
      answer += piece;
    });
    const head = 'POST /_/v1/tenants HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n';
    socket.write(`${head}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n`);
    await once(socket, 'data');
    expect(answer).toMatch(/^HTTP\/1\.1 100 /);
    answer = '';
    socket.write('{');
    return { socket, answer: () => answer };
  }

  test('waits for a request that is under way', async () => {
    const served = await place.serve();
    const request = await beginRequest(served.endpoint);
    await served.beginStop();
    request.socket.write('}');
    await once(request.socket, 'close');
    expect(request.answer()).toMatch(/^HTTP\/1\.1 403 /);
    expect(await served.ended()).toBe(0);
  });

  test('does not wait longer than it may', async () => {
    const served = await place.serve(['--shutdown-timeout', '50ms']);
    await beginRequest(served.endpoint);
    expect(await served.stop()).toBe(0);
  });

  test('comes at once by a second signal', async () => {
    const served = await place.serve();
    await beginRequest(served.endpoint);
    await served.beginStop();
    expect(await served.stop()).toBe(1);
  });
});
