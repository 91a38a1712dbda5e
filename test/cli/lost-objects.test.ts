// Objects that no store has any more, on a served gateway with folder stores: what clients are
// answered, what is recorded, told and charged, and that what comes back is read again.
import { hash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import * as s3 from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { RecipeWorker } from '#bursar/cli/recipe/recipe-worker.js';
import { openDatabase } from '#bursar/core/database.js';
import {
  bytesIn,
  bytesOf,
  client,
  damage,
  extentsIn,
  folderOf,
  head,
  keys,
  MB,
  newIn,
  place,
  put,
  read,
  refusal,
  run,
  serve,
  served,
  startRig,
  stopRig,
} from './class-rig.ts';

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

beforeAll(startRig);
afterAll(stopRig);

const lost = '410 BursarObjectLost';
const soon = { timeout: 60_000, interval: 200 };

/** Puts an object; gives the paths of its extents in a store. */
async function putIn(store: string, Key: string, size: number, name: string): Promise<string[]> {
  const before = extentsIn(store);
  await put('first', Key, bytesOf(size), name);
  return newIn(store, before);
}

const aside = (store: string, path: string) => join(place.folder, 'aside', store, path);

function takeAway(store: string, paths: readonly string[]): void {
  for (const path of paths) {
    mkdirSync(dirname(aside(store, path)), { recursive: true });
    renameSync(join(folderOf(store), path), aside(store, path));
  }
}

function bringBack(store: string, paths: readonly string[]): void {
  for (const path of paths) renameSync(aside(store, path), join(folderOf(store), path));
}

interface Told {
  key: string;
  class?: string;
  change?: { lost?: { version: number } };
}

async function recordsOf(action: string, key: string): Promise<Told[]> {
  const lines = (await run('records', '--action', action, '--json')).trim().split('\n');
  return lines.flatMap((line) => {
    const found = line === '' ? undefined : (JSON.parse(line) as Told & { record?: Told });
    const record = found?.record ?? found;
    return record?.key === key ? [record] : [];
  });
}

/** Suspect copies whose repair has failed. */
async function failedCopies(): Promise<number> {
  const db = openDatabase(join(place.data, 'bursar.db'), { readonly: true, cacheKib: 1024 });
  const sql = 'SELECT count(*) AS count FROM extent_copies WHERE state = 3 AND tries > 0';
  const [row] = await db.tx.all<{ count: number }>(sql);
  db.close();
  return row?.count ?? 0;
}

async function billedOf(name: string): Promise<number> {
  const db = openDatabase(join(place.data, 'bursar.db'), { readonly: true, cacheKib: 1024 });
  const sql = 'SELECT sum(billed_bytes) AS bytes FROM quota_storage WHERE class = ?';
  const [row] = await db.tx.all<{ bytes: number }>(sql, name);
  db.close();
  return row?.bytes ?? 0;
}

describe('an object that no store has any more', () => {
  test.each([
    ['of some', 300_000],
    ['of many extents', 20 * MB],
  ])(
    '%s bytes is lost, told once, charged for no more, and read when it is back',
    async (_, size) => {
      const Key = `lost-${size}`;
      const made = await putIn('disk1', Key, size, 'derived');
      const billed = await billedOf('derived');
      takeAway('disk1', made);
      expect(await refusal(read('first', Key))).toBe(lost);
      expect(await refusal(read('first', Key))).toBe(lost);
      expect(await refusal(head('first', Key))).toMatch(/^410 /);
      expect(await billedOf('derived')).toBe(billed - size);
      const copy = { Bucket: 'first', Key: 'copy', CopySource: `first/${Key}` };
      expect(await refusal(client.send(new s3.CopyObjectCommand(copy)))).toBe(lost);
      if (size < MB) {
        await served.stop('SIGKILL');
        await serve();
      }
      expect(await refusal(read('first', Key))).toBe(lost);
      const told = await recordsOf('bursar:LoseObject', Key);
      expect(told).toHaveLength(1);
      expect(told[0]).toMatchObject({ class: 'derived', change: { lost: {} } });
      const events = await run('changes', 's3://first', '--json');
      const ofKey = events.split('\n').filter((line) => line.includes(`"${Key}"`));
      expect(ofKey.at(-1)).toContain('"eventName":"ReducedRedundancyLostObject"');
      bringBack('disk1', made);
      await vi.waitFor(async () => expect(await refusal(head('first', Key))).toBe('done'), soon);
      expect((await read('first', Key)).equals(bytesOf(size))).toBe(true);
      expect(await billedOf('derived')).toBe(billed);
      expect(await recordsOf('bursar:RecoverObject', Key)).toHaveLength(1);
    },
  );

  test('is found by verify data, and can be deleted', async () => {
    const made = await putIn('disk1', 'scrubbed', MB, 'derived');
    const billed = await billedOf('derived');
    takeAway('disk1', made);
    for (let times = 0; times < 2; times++) {
      const { code, stdout } = await place.run(['verify', 'data', '--json']);
      expect(code).toBe(1);
      expect(JSON.parse(stdout.split('\n')[0] as string)).toMatchObject({
        ...{ key: 'scrubbed', lost: true, kind: 'missing' },
      });
    }
    expect(await refusal(head('first', 'scrubbed'))).toMatch(/^410 /);
    expect(await recordsOf('bursar:LoseObject', 'scrubbed')).toHaveLength(1);
    await client.send(new s3.DeleteObjectCommand({ Bucket: 'first', Key: 'scrubbed' }));
    expect(await billedOf('derived')).toBe(billed - MB);
    expect(await run('verify', 'data')).toMatch(/^verified /);
  });

  test('is lost also where a read had begun to be answered', async () => {
    const broken = await putIn('disk1', 'half', 9 * MB, 'derived');
    damage(join(folderOf('disk1'), broken[0] as string));
    await expect(read('first', 'half')).rejects.toThrow();
    await vi.waitFor(async () => expect(await refusal(read('first', 'half'))).toBe(lost), soon);
    expect(await recordsOf('bursar:LoseObject', 'half')).toHaveLength(1);
  });

  test('is lost under the key that it is renamed to', async () => {
    const made = await putIn('disk1', 'renamed', MB, 'derived');
    takeAway('disk1', made);
    expect(await refusal(read('first', 'renamed'))).toBe(lost);
    const rename = { Bucket: 'first', Key: 'new name', RenameSource: '/first/renamed' };
    await client.send(new s3.RenameObjectCommand(rename));
    expect(await refusal(head('first', 'new name'))).toMatch(/^410 /);
    bringBack('disk1', made);
    await vi.waitFor(
      async () => expect(await refusal(head('first', 'new name'))).toBe('done'),
      soon,
    );
    expect((await read('first', 'new name')).equals(bytesOf(MB))).toBe(true);
  });

  test('of two legs is lost where neither has it, and not while one is away', async () => {
    const made = await putIn('disk2', 'two', 9 * MB, 'mirror');
    takeAway('disk2', made);
    expect((await read('first', 'two')).equals(bytesOf(9 * MB))).toBe(true);
    await vi.waitFor(() => expect(extentsIn('disk2')).toEqual(expect.arrayContaining(made)), soon);
    renameSync(folderOf('near'), `${folderOf('near')}-away`);
    for (const path of made) rmSync(join(folderOf('disk2'), path), { force: true });
    expect(await refusal(read('first', 'two'))).toMatch(/^503 /);
    rmSync(folderOf('near'), { recursive: true, force: true });
    renameSync(`${folderOf('near')}-away`, folderOf('near'));
    await vi.waitFor(async () => expect(await refusal(read('first', 'two'))).toBe('done'), soon);
    expect(await recordsOf('bursar:LoseObject', 'two')).toEqual([]);
    await vi.waitFor(() => expect(extentsIn('disk2')).toEqual(expect.arrayContaining(made)), soon);
    takeAway('disk2', made);
    takeAway('near', made);
    expect(await refusal(read('first', 'two'))).toBe(lost);
    expect(await recordsOf('bursar:LoseObject', 'two')).toHaveLength(1);
    bringBack('near', made);
    await vi.waitFor(async () => expect(await refusal(read('first', 'two'))).toBe('done'), soon);
    await vi.waitFor(() => expect(extentsIn('disk2')).toEqual(expect.arrayContaining(made)), soon);
  });

  test('of two copies that are damaged in different places both are made whole', async () => {
    const body = randomBytes(4 * MB);
    const before = extentsIn('disk2');
    await put('first', 'complementary', body, 'mirror');
    const [path = ''] = newIn('disk2', before);
    const [good, there] = [bytesIn('disk2', path), bytesIn('near', path)];
    expect(good.equals(there)).toBe(true);
    for (const [store, at] of [
      ['disk2', 300_000],
      ['near', 2_000_000],
    ] as const) {
      const bytes = Buffer.from(good);
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      writeFileSync(join(folderOf(store), path), bytes);
    }
    expect((await read('first', 'complementary')).equals(body)).toBe(true);
    // While nothing can be put, neither is touched: each has what the other lacks.
    const temporaries = ['disk2', 'near'].map((store) => join(folderOf(store), 'temporary'));
    for (const temporary of temporaries) {
      renameSync(temporary, `${temporary}-away`);
      writeFileSync(temporary, '');
    }
    await place.run(['verify', 'data']);
    await vi.waitFor(async () => expect(await failedCopies()).toBeGreaterThan(0), soon);
    expect((await read('first', 'complementary')).equals(body)).toBe(true);
    for (const temporary of temporaries) {
      rmSync(temporary);
      renameSync(`${temporary}-away`, temporary);
    }
    await vi.waitFor(() => {
      for (const store of ['disk2', 'near']) expect(bytesIn(store, path).equals(good)).toBe(true);
    }, soon);
    expect(await recordsOf('bursar:LoseObject', 'complementary')).toEqual([]);
  });

  test('stays damaged where its class refuses to lose it', async () => {
    const made = await putIn('disk2', 'refused', 50_000, 'kept');
    damage(join(folderOf('disk2'), made[0] as string));
    expect(await refusal(read('first', 'refused'))).toBe('500 BursarIntegrityError');
    expect(await refusal(head('first', 'refused'))).toBe('done');
    expect(await recordsOf('bursar:LoseObject', 'refused')).toEqual([]);
    await client.send(new s3.DeleteObjectCommand({ Bucket: 'first', Key: 'refused' }));
  });

  const drill = (...args: string[]) => run('store', 'drill', ...args);

  test('a drill is refused by a store that does not allow it', async () => {
    const refused = await place.run(['store', 'drill', 'disk1', '--lose', '5%']);
    expect(refused.stderr).toContain('The store disk1 does not allow drills');
    const nowhere = await place.run(['store', 'drill', 'local', '--lose', '5%']);
    expect(nowhere.stderr).toContain('local is no store that drills are done in');
    const unclear = await place.run(['store', 'drill', 'near', '--lose', '5%', '--undo']);
    expect(unclear.stderr).toContain('give --lose, maybe with --seed, or --undo');
    expect([refused.code, nowhere.code, unclear.code]).toEqual([1, 1, 2]);
  });

  test('what a drill hides is repaired or told as lost, and nothing false is served', async () => {
    const bodies = Array.from({ length: 200 }, (_, i) => Buffer.from(`${i} `.repeat(100 + i)));
    const classOf = (i: number) => (i % 2 === 0 ? 'spare' : 'mirror');
    await Promise.all(bodies.map((body, i) => put('first', `drill/${i}`, body, classOf(i))));
    const before = extentsIn('near');
    const said = JSON.parse(await drill('near', '--lose', '5%', '--seed', '7', '--json'));
    const hidden = before.filter((path) => !extentsIn('near').includes(path));
    expect(said).toMatchObject({ store: 'near', lose: 0.05, seed: 7, changed: hidden.length });
    expect(hidden.length).toBeGreaterThan(3);
    expect(await run('store', 'list')).toMatch(/^near +\d +yes +yes /m);
    const answers = await Promise.all(
      bodies.map(async (body, i) => {
        const answer = await read('first', `drill/${i}`).catch((error) => error.name as string);
        return typeof answer === 'string' ? answer : answer.equals(body) ? 'whole' : 'false';
      }),
    );
    expect(answers.filter((_, i) => classOf(i) === 'mirror')).toEqual(Array(100).fill('whole'));
    const losses = answers.flatMap((answer, i) => (answer === 'BursarObjectLost' ? [i] : []));
    expect(losses.length).toBeGreaterThan(0);
    expect(answers.filter((answer) => answer === 'whole')).toHaveLength(200 - losses.length);
    const told = await run('records', '--action', 'bursar:LoseObject', '--json');
    for (const i of losses) expect(told).toContain(`"drill/${i}"`);
    // Reads ask the first leg: what the other has lost of two is found by verification.
    expect((await place.run(['verify', 'data'])).code).toBe(1);
    // The mirrored ones are made again; those of one leg come back with the end of the drill.
    const repaired = hidden.length - losses.length;
    await vi.waitFor(
      () => expect(extentsIn('near')).toHaveLength(before.length - losses.length),
      soon,
    );
    expect(repaired).toBeGreaterThan(0);
    expect(await drill('near', '--undo')).toBe(
      `near: ${losses.length} of ${hidden.length} extents shown again\n`,
    );
    for (const i of losses) {
      await vi.waitFor(
        async () => expect(await refusal(head('first', `drill/${i}`))).toBe('done'),
        soon,
      );
      expect((await read('first', `drill/${i}`)).equals(bodies[i] as Buffer)).toBe(true);
    }
    expect(await run('records', '--action', 'bursar:DrillStore', '--json')).toContain('"seed":7');
  });

  describe('with a recipe', () => {
    const body = Buffer.from('b\na\nb\n');
    const made = Buffer.from('a\nb\nb\n');
    const sorting = ['sh', '-c', 'sort "$RECIPE_INPUT_1" > "$RECIPE_OUTPUT_1"'];
    const write = (Key: string, recipe: string | undefined, Body: Buffer | string = made) =>
      client.send(
        new s3.PutObjectCommand({
          ...{ Bucket: 'first', Key, Body, StorageClass: 'REDUCED_REDUNDANCY' },
          Metadata: recipe === undefined ? {} : { 'bursar-recipe': recipe },
        }),
      );
    const writeLost = async (Key: string, recipe: string, Body: Buffer = made) => {
      const before = extentsIn('disk1');
      await write(Key, recipe, Body);
      const paths = newIn('disk1', before);
      takeAway('disk1', paths);
      expect(await refusal(read('first', Key))).toBe(lost);
      return paths;
    };
    const jobs = async () =>
      JSON.parse(await run('work', 'list', 's3://first', '--json')) as {
        key: string;
        id: number;
        state: string;
        problem: string | null;
      }[];
    const work = (...args: string[]) =>
      place.run(['recipe', 'worker', '--bucket', 's3://first', '--once', '--json', ...args]);
    const raw = ['--unconfined', '--trust'];

    test('is written only with one that can be read', async () => {
      for (const said of [undefined, 'first/recipe', '{"command":["true"]}', 's3://first/']) {
        expect(await refusal(write('none', said))).toBe('400 InvalidRequest');
      }
      const tagged = {
        ...{ Bucket: 'first', Key: 'tagged', Body: 'x' },
        StorageClass: 'REDUCED_REDUNDANCY' as const,
        Tagging: 'bursar-recipe=s3://first/recipe.json',
      };
      await client.send(new s3.PutObjectCommand(tagged));
      // Who makes it again has no key of the customer's.
      const SSECustomerKey = Buffer.alloc(32, 'k').toString('base64');
      const sealed = { ...tagged, SSECustomerAlgorithm: 'AES256', SSECustomerKey };
      const writing = client.send(new s3.PutObjectCommand(sealed));
      expect(await refusal(writing)).toBe('400 InvalidRequest');
      const upload = { Bucket: 'first', Key: 'up', StorageClass: 'REDUCED_REDUNDANCY' } as const;
      const begun = client.send(new s3.CreateMultipartUploadCommand(upload));
      expect(await refusal(begun)).toBe('400 InvalidRequest');
      const copy = { ...upload, CopySource: 'first/refused', Key: 'copied' };
      await put('first', 'refused', 'x');
      expect(await refusal(client.send(new s3.CopyObjectCommand(copy)))).toBe('400 InvalidRequest');
    });

    test('is made again by a worker, and is the version that it was', async () => {
      await put('first', 'in.txt', body);
      const file = join(place.folder, 'recipe.json');
      const create = ['--input', 's3://first/in.txt', '--output', 's3://first/made.txt'];
      await run('recipe', 'create', file, ...create, '--', ...sorting);
      await put('first', 'recipe.json', readFileSync(file));
      const billed = await billedOf('again');
      await writeLost('made.txt', 's3://first/recipe.json');
      expect(await billedOf('again')).toBe(billed);
      expect(await jobs()).toMatchObject([{ key: 'made.txt', state: 'due' }]);
      const tree = await place.run(['recipe', 'explain', 's3://first/made.txt']);
      expect(tree.stdout).toBe(
        's3://first/made.txt, by s3://first/recipe.json LOST\n  s3://first/in.txt\n',
      );
      expect(JSON.parse(await run('recipe', 'show', 's3://first/made.txt'))).toMatchObject({
        command: sorting,
      });
      const distrusted = await work(...raw, 's3://first/other/');
      expect([distrusted.code, distrusted.stdout]).toEqual([1, expect.stringContaining('trust')]);
      expect(await jobs()).toMatchObject([{ state: 'due', tries: 0 }]);
      const unclear = await work('--trust', 's3://first/recipe.json');
      expect([unclear.code, unclear.stderr]).toEqual([2, expect.stringContaining('--unconfined')]);
      const { code, stdout, stderr } = await work(...raw, 's3://first/recipe.json');
      expect([code, stderr]).toEqual([0, '']);
      expect(JSON.parse(stdout)).toMatchObject({ key: 'made.txt', outcome: 'remade' });
      expect((await read('first', 'made.txt')).equals(made)).toBe(true);
      expect(await jobs()).toEqual([]);
      expect(await billedOf('again')).toBe(billed + made.length);
      const [told] = await recordsOf('bursar:RemakeObject', 'made.txt');
      expect(told).toMatchObject({ class: 'again', change: { remade: {} } });
      expect(await recordsOf('bursar:RecoverObject', 'made.txt')).toEqual([]);
    });

    test('is explained with what is missing, is another, or goes in a circle', async () => {
      const digestOf = (text: string) => hash('sha256', text, 'hex');
      const recipe = (key: string, ...inputs: [key: string, text: string][]) => ({
        'bursar-recipe': JSON.stringify({
          inputs: inputs.map(([input, text]) => {
            return { bucket: 'first', key: input, sha256: digestOf(text) };
          }),
          ...{ command: ['true'], outputs: [{ key }] },
        }),
      });
      for (const [Key, Metadata] of [
        ['circle', recipe('circle', ['turn', 'turn'], ['in.txt', 'other'], ['none', 'none'])],
        ['turn', recipe('turn', ['circle', 'circle'])],
      ] as const) {
        const stored = { Bucket: 'first', Key, Body: Key, Metadata };
        await client.send(new s3.PutObjectCommand(stored));
      }
      const tree = await place.run(['recipe', 'explain', 's3://first/circle']);
      expect(tree.code).toBe(1);
      const lines = tree.stdout.trim().split('\n');
      expect(lines).toEqual([
        's3://first/circle, by inline',
        '  s3://first/turn, by inline',
        '    s3://first/circle  ! it is made of itself',
        expect.stringMatching(/^ {2}s3:\/\/first\/in\.txt {2}! it has other bytes /),
        '  s3://first/none  ! it is not there',
      ]);
      const file = join(place.folder, 'none.json');
      const from = ['--input', 's3://first/none', '--output', 's3://first/made.txt'];
      const refused = await place.run(['recipe', 'create', file, ...from, '--', 'true']);
      expect([refused.code, existsSync(file)]).toEqual([1, false]);
    });

    test('of many extents is the same again, and only what was lost', async () => {
      const recipe = { command: ['true'], outputs: [{ key: 'large' }] };
      await writeLost('large', JSON.stringify(recipe), bytesOf(20 * MB));
      const [job] = await jobs();
      const again = (Body: Buffer, seq: number | string) => {
        const command = new s3.PutObjectCommand({ Bucket: 'first', Key: 'large', Body });
        command.middlewareStack.add(
          (next) => (args) => {
            const { request } = args as unknown as { request: { headers: Record<string, string> } };
            request.headers['x-bursar-remakes'] = String(seq);
            return next(args);
          },
          { step: 'build' },
        );
        return client.send(command);
      };
      const seq = job?.id ?? 0;
      expect(await refusal(again(bytesOf(MB), seq + 1))).toBe('412 PreconditionFailed');
      expect(await refusal(again(bytesOf(MB), 'x'))).toBe('400 InvalidArgument');
      // Without versioning other bytes would take the place of what is lost.
      expect(await refusal(again(bytesOf(MB), seq))).toBe('412 PreconditionFailed');
      expect((await jobs()).map(({ id }) => id)).toEqual([seq]);
      expect(await refusal(read('first', 'large'))).toBe(lost);
      await again(bytesOf(20 * MB), seq);
      expect((await read('first', 'large')).equals(bytesOf(20 * MB))).toBe(true);
      expect(await refusal(again(bytesOf(20 * MB), seq))).toBe('412 PreconditionFailed');
      expect(await jobs()).toEqual([]);
    });

    test('gets out of nothing, holds no worker, and waits for what is away', async () => {
      const recipe = (key: string, script: string, ...inputs: object[]) =>
        JSON.stringify({ inputs, command: ['sh', '-c', script], outputs: [{ key }] });
      const secret = join(place.folder, 'secret');
      writeFileSync(secret, made);
      const pid = join(place.folder, 'pid');
      const output = '"$RECIPE_OUTPUT_1"';
      await writeLost('linked', recipe('linked', `ln -s '${secret}' ${output}`));
      const leaving = `setsid sleep 600 & echo $! > '${pid}'; printf 'a\nb\nb\n' > ${output}`;
      await writeLost('left', recipe('left', leaving));
      const input = { bucket: 'first', key: 'linked', sha256: '0'.repeat(64) };
      await writeLost('chained', recipe('chained', 'true', input));
      const [wrapper, ran] = [join(place.folder, 'wrapper'), join(place.folder, 'ran')];
      writeFileSync(wrapper, `#!/bin/sh\necho "$1" >> '${ran}'\nexec "$@"\n`, { mode: 0o755 });
      const { stdout } = await work('--with', wrapper, '--trust', 'inline');
      process.kill(Number(readFileSync(pid, 'utf8')));
      const lines = stdout.trim().split('\n');
      const told = lines.map((line) => JSON.parse(line) as { key: string; outcome: string });
      expect(Object.fromEntries(told.map(({ key, outcome }) => [key, outcome]))).toEqual({
        ...{ linked: 'failed', left: 'remade', chained: 'left' },
      });
      expect(readFileSync(ran, 'utf8')).toBe('sh\nsh\n');
      expect(await jobs()).toMatchObject([
        { key: 'linked', tries: 1, problem: 'the command has not made it' },
        { key: 'chained', tries: 0, state: 'waiting', problem: expect.stringContaining('input') },
      ]);
      for (const Key of ['linked', 'chained']) {
        await client.send(new s3.DeleteObjectCommand({ Bucket: 'first', Key }));
      }
    });

    test('is done by who may write it, and seen and done by nobody else', async () => {
      const enroll = async (id: string) => {
        await run('principal', 'create', id);
        const key = JSON.parse(await run('key', 'create', id, '--json'));
        return {
          BURSAR_ENDPOINT: served.endpoint,
          BURSAR_ACCESS_KEY_ID: key.accessKeyId as string,
          BURSAR_SECRET_ACCESS_KEY: key.secretAccessKey as string,
        };
      };
      const [narrow, reader, eve] = await Promise.all(
        ['default/worker', 'default/reader', 'default/eve'].map(enroll),
      );
      const objects = 'arn:aws:s3:::first/narrow/*';
      const [Effect, worker] = ['Allow', { AWS: 'default/worker' }];
      const Condition = { StringEquals: { 's3:prefix': 'narrow/' } };
      const Resource = 'arn:aws:s3:::first';
      const readers = { AWS: ['default/worker', 'default/reader'] };
      const Statement = [
        { Effect, Principal: worker, Action: 's3:ListBucket', Resource, Condition },
        { Effect, Principal: worker, Action: 's3:PutObject', Resource: objects },
        { Effect, Principal: readers, Action: 's3:GetObject', Resource: objects },
        { Effect, Principal: { AWS: 'default/reader' }, Action: 's3:ListBucket', Resource },
      ];
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
      await client.send(new s3.PutBucketPolicyCommand({ Bucket: 'first', Policy }));
      const outputs = [{ bucket: 'default:first', key: 'narrow/a' }];
      await writeLost('narrow/a', JSON.stringify({ command: ['false'], outputs }));
      const [job] = await jobs();
      const id = String(job?.id);
      const asked = ['--once', '--json', ...raw, 'inline', '--bucket'];
      const idle = await place.run(['recipe', 'worker', ...asked, 's3://first'], reader);
      expect([idle.code, idle.stdout]).toEqual([0, '']);
      const refused = await place.run(['recipe', 'worker', ...asked, 's3://first'], eve);
      expect([refused.code, refused.stdout]).toEqual([1, expect.stringContaining('AccessDenied')]);
      const below = [...asked, 's3://default:first/narrow/'];
      const done = await place.run(['recipe', 'worker', ...below], narrow);
      expect([done.code, done.stdout]).toEqual([1, expect.stringContaining('ended with 1')]);
      const problem = expect.stringContaining('ended with 1');
      expect(await jobs()).toMatchObject([{ state: 'waiting', tries: 1, problem }]);
      const seen = await place.run(['work', 'list', '--json'], reader);
      expect(JSON.parse(seen.stdout)).toMatchObject([{ key: 'narrow/a', problem: null }]);
      expect((await place.run(['work', 'list', '--json'], eve)).stdout.trim()).toBe('[]');
      for (const who of [reader, eve]) {
        const { code, stderr } = await place.run(['work', 'retry', id], who);
        expect([code, stderr]).toEqual([1, expect.stringContaining('There is no job')]);
      }
      await client.send(new s3.DeleteObjectCommand({ Bucket: 'first', Key: 'narrow/a' }));
    });

    test('that makes other bytes makes a version, and is not tried again', async () => {
      const Bucket = 'first';
      const VersioningConfiguration = { Status: 'Enabled' } as const;
      await client.send(new s3.PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
      const recipe = (key: string) =>
        JSON.stringify({
          command: ['sh', '-c', 'date +%N > "$RECIPE_OUTPUT_1"'],
          outputs: [{ key }],
        });
      await writeLost('other', recipe('other'));
      await writeLost('old', recipe('old'));
      await put(Bucket, 'old', 'newer');
      const { code, stdout } = await work(...raw, 'inline');
      expect([code, stdout]).toEqual([1, expect.stringContaining('other bytes')]);
      expect(await refusal(head(Bucket, 'other'))).toBe('done');
      // What is newer than what was lost stays the newest.
      expect((await read(Bucket, 'old')).toString()).toBe('newer');
      expect((await jobs()).map(({ key, state }) => [key, state])).toEqual([
        ['other', 'dead'],
        ['old', 'dead'],
      ]);
      const [dead] = await jobs();
      expect(await run('work', 'retry', String(dead?.id))).toBe(`job ${dead?.id} is due\n`);
      const revived = await run('work', 'retry', 's3://first/o');
      expect(revived).toMatch(/^job \d+ is due\n$/);
      expect((await jobs()).map(({ state }) => state)).toEqual(['due', 'due']);
      expect((await place.run(['work', 'retry', '99999999'])).stderr).toContain('no job');
      const VersionId = (await head(Bucket, 'old')).VersionId;
      await client.send(new s3.DeleteObjectCommand({ Bucket, Key: 'old', VersionId }));
      const gone = await client.send(new s3.ListObjectVersionsCommand({ Bucket, Prefix: 'o' }));
      for (const { Key, VersionId } of gone.Versions ?? []) {
        await client.send(new s3.DeleteObjectCommand({ Bucket, Key, VersionId }));
      }
      expect(await jobs()).toEqual([]);
    });

    /** A command asked of something that answers in a gateway's place; gives what it was told. */
    async function askElsewhere(
      args: string[],
      answer: (asked: string) => [status: number, body: object],
    ): Promise<{ stdout: string; stderr: string; sent: [string, object][] }> {
      const sent: [string, object][] = [];
      const server = createServer(async (request, response) => {
        const pieces: Buffer[] = [];
        for await (const piece of request) pieces.push(piece as Buffer);
        const asked = `${request.method} ${request.url?.split('?')[0]}`;
        if (asked.startsWith('PUT')) {
          sent.push([asked, JSON.parse(Buffer.concat(pieces).toString()) as object]);
        }
        const [status, body] = asked.endsWith('whoami')
          ? [200, { tenant: 'default' }]
          : answer(asked);
        response.writeHead(status, { 'content-type': 'application/json' });
        response.end(JSON.stringify(body));
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const { stdout, stderr } = await place.run([...args, '--endpoint', endpoint]);
      server.close();
      return { stdout, stderr, sent };
    }

    test('is a try where the gateway fails at an input, or cannot do it', async () => {
      const sha256 = '0'.repeat(64);
      const inputs = (key: string) => [{ bucket: 'first', key, sha256 }];
      const jobOf = (id: number, key: string) => ({
        ...{ id, kind: 'recipe', bucket: 'first', key, state: 'leased', tries: 1 },
        recipe: JSON.stringify({
          inputs: inputs(`in${id}`),
          command: ['true'],
          outputs: [{ key }],
        }),
      });
      const pages = [[jobOf(500, 'a'), jobOf(501, 'b'), jobOf(503, 'c')]];
      const args = ['recipe', 'worker', '--once', '--json', '--parallel', '3', ...raw, 'inline'];
      const { sent } = await askElsewhere(args, (asked) => {
        const status = /\/in(\d+)$/.exec(asked)?.[1];
        if (status !== undefined) return [Number(status), {}];
        return [200, { lease: 'x', jobs: pages.shift() ?? [], next: null }];
      });
      expect(Object.fromEntries(sent)).toEqual({
        'PUT /_/v1/tenants/default/work/500': expect.objectContaining({ final: false }),
        'PUT /_/v1/tenants/default/work/501': expect.objectContaining({ final: false }),
        'PUT /_/v1/tenants/default/work/503': expect.objectContaining({ defer: 60 }),
      });
    });

    test('leaves what is due to others while its oldest job takes long', async () => {
      const visibilityMs = 600;
      const job = {
        ...{ id: 7, kind: 'recipe', bucket: 'first', key: 'slow', state: 'leased', tries: 1 },
        recipe: JSON.stringify({
          inputs: [{ bucket: 'first', key: 'in', sha256: '0'.repeat(64) }],
          ...{ command: ['true'], outputs: [{ key: 'slow' }] },
        }),
      };
      const pages = [[job]];
      const sent: string[] = [];
      const placesOf = (what: string) => sent.flatMap((one, i) => (one === what ? [i] : []));
      let fail = () => {};
      const server = createServer((request, response) => {
        const asked = `${request.method} ${request.url?.split('?')[0]}`;
        const answer = (status: number, body: object) => {
          response.writeHead(status, { 'content-type': 'application/json' });
          response.end(JSON.stringify(body));
        };
        request.resume();
        // The input comes to an end when the lease was made longer for far more than half of it.
        if (asked.endsWith('/in')) {
          fail = () => answer(500, {});
          if (placesOf('longer').length >= 14) fail();
        } else if (asked.startsWith('PUT')) {
          sent.push('longer');
          answer(200, {});
          if (placesOf('longer').length === 14) fail();
        } else {
          sent.push('lease');
          answer(200, { lease: 'x', jobs: pages.shift() ?? [], next: null });
        }
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const printing = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
      const worker = new RecipeWorker({
        connection: { endpoint, s3Endpoint: endpoint, region: 'us-east-1', ...keys },
        ...{ tenant: 'default', path: ['tenants', 'default'], query: {}, trusted: ['inline'] },
        ...{ wrapper: undefined, parallel: 2, visibilityMs, timeoutMs: 60_000 },
        ...{ isOnce: true, asJson: true },
      });
      const counts = await worker.run().finally(() => printing.mockRestore());
      server.closeAllConnections();
      server.close();
      expect(counts).toEqual({ done: 0, failed: 1, left: 0 });
      // Each third of the time the lease was made longer: after two it was more than half of it.
      const longer = placesOf('longer');
      const [second, last] = [longer[1], longer[13]];
      expect(sent.slice(0, second)).toContain('lease');
      expect(sent.slice(second, last)).not.toContain('lease');
      expect(sent.slice(last)).toContain('lease');
    });

    test('is tried again past jobs that have ended since they were listed', async () => {
      const dead = (id: number) => ({ id, state: 'dead' });
      const { stdout, stderr } = await askElsewhere(['work', 'retry', 's3://first'], (asked) => {
        if (asked.startsWith('GET'))
          return [200, { jobs: [dead(1), dead(2), dead(3)], next: null }];
        if (asked.endsWith('/1')) return [404, { title: 'gone' }];
        return asked.endsWith('/2') ? [412, { title: 'due' }] : [200, { id: 3, state: 'due' }];
      });
      expect([stdout, stderr]).toEqual(['job 3 is due\n', '']);
    });
  });

  test('differs in nothing from its records', async () => {
    takeAway('disk1', await putIn('disk1', 'kept lost', MB, 'derived'));
    expect(await refusal(read('first', 'kept lost'))).toBe(lost);
    await served.stop();
    expect(await run('verify', 'deep', '--config', 'config.yaml')).toMatch(/^compared /);
  });
});
