// How the clients that people have take refusals: what is over budget they ask for once and say why
// it was refused, what comes too fast they try again until it is done. Counted by the records.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  as,
  callNative,
  type Keys,
  newName,
  newPrincipal,
  send,
  type Target,
} from '../protocol/target.ts';
import { seededBytes } from '../tooling/files.ts';
import { putLimits } from '../tooling/limits.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import {
  awsCli,
  boto3Python,
  clientEnvironment,
  describeWithTool,
  rclone,
  runTool,
  ToolFailure,
} from '../tooling/tools.ts';

const timeoutMs = 120_000;
const MiB = 1024 * 1024;

let gateway: ServedGateway;
let operator: Target;
let dir: string;

/** Of each test. */
let student: { name: string; account: string; bucket: string; keys: Keys; target: Target };

beforeAll(async () => {
  gateway = await startServedGateway();
  const { endpoint, accessKeyId, secretAccessKey, stop } = gateway;
  const keys = { accessKeyId, secretAccessKey };
  operator = { endpoint, keys, strayNames: () => [], stop };
  dir = mkdtempSync(join(tmpdir(), 'bursar-limits-'));
}, timeoutMs);

afterAll(async () => {
  rmSync(dir, { recursive: true, force: true });
  await gateway?.stop();
});

beforeEach(async () => {
  const name = newName('student');
  const keys = await newPrincipal(operator, { name });
  const target = as(operator, keys);
  const bucket = newName('own');
  student = { name, account: `principal:default/${name}`, bucket, keys, target };
  expect((await send(target, { method: 'PUT', path: `/${bucket}` })).status).toBe(200);
  const stored = await send(target, {
    method: 'PUT',
    path: `/${bucket}/stored`,
    body: Buffer.alloc(150_000),
  });
  expect(stored.status).toBe(200);
});

interface Told {
  action: string;
  key?: string;
  error?: string;
  bytesIn: number;
  bytesOut: number;
}

/** Takes the limits away, and gives what the student was refused under them. */
async function refusals(): Promise<Told[]> {
  // A commit: what was to be recorded before it is recorded with it.
  await putLimits(operator, student.account, null);
  const { records } = await callNative(operator, 'GET', '/_/v1/records', undefined, [
    ['principal', student.name],
    ['limit', '1000'],
  ]);
  return records.filter(({ error }: Told) => error !== undefined);
}

/** Little goes in and out, but much may be asked for. */
async function setBudget(): Promise<void> {
  await putLimits(operator, student.account, {
    egressBytes: { day: 100_000 },
    ingressBytes: { month: 250_000 },
  });
}

const reason = (): RegExp =>
  new RegExp(`The limit of ${student.account} on \\w+ per (day|month) .* reset at \\d{4}-`);

function environment(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const { accessKeyId, secretAccessKey } = student.keys;
  return { ...clientEnvironment({ ...gateway, accessKeyId, secretAccessKey }), ...more };
}

async function failing(run: Promise<string>): Promise<string> {
  const outcome = await run.catch((error: unknown) => error);
  if (!(outcome instanceof ToolFailure)) throw new Error(`it did not fail: ${outcome}`);
  return outcome.output;
}

describeWithTool(boto3Python, 'boto3', (path) => {
  const script = join(import.meta.dirname, 'boto3-limits.py');
  const run = async (promise: string, mode: string) => {
    const args = [script, gateway.endpoint, promise, mode, student.bucket];
    return JSON.parse(await runTool(path, args, environment()));
  };

  for (const mode of ['legacy', 'standard', 'adaptive']) {
    describe(`in its ${mode} mode`, () => {
      it('asks once for what is over budget, and says why', { timeout: timeoutMs }, async () => {
        await setBudget();
        const { put, get, range } = await run('over_budget', mode);
        for (const told of [put, get]) {
          expect(told).toMatchObject({ code: 'QuotaExceeded', status: 403, retries: 0 });
          expect(told.account).toBe(student.account);
          expect(told.text).toMatch(reason());
        }
        expect(range).toBe(100);
        const refused = await refusals();
        expect(refused.map(({ key }) => key).sort()).toEqual(['large', 'stored']);
        for (const { bytesIn, bytesOut } of refused) expect([bytesIn, bytesOut]).toEqual([0, 0]);
      });

      it('waits and succeeds where it is too fast', { timeout: timeoutMs }, async () => {
        await putLimits(operator, student.account, { rate: { requests: 5 } });
        const { retries } = await run('over_rate', mode);
        expect(retries).toBeGreaterThan(0);
        const refused = await refusals();
        expect(refused.length).toBe(retries);
        expect(new Set(refused.map(({ error }) => error))).toEqual(new Set(['SlowDown']));
      });
    });
  }
});

describeWithTool(awsCli, 'AWS CLI', (path) => {
  const aws = (args: string[], more: NodeJS.ProcessEnv = {}) =>
    runTool(path, ['--endpoint-url', gateway.endpoint, ...args], environment(more));

  for (const mode of ['legacy', 'standard']) {
    it(`asks once for what is over budget, and says why, in its ${mode} mode`, {
      timeout: timeoutMs,
    }, async () => {
      await setBudget();
      const file = join(dir, 'large.bin');
      writeFileSync(file, Buffer.alloc(300_000));
      const { bucket } = student;
      const more = { AWS_RETRY_MODE: mode };
      const up = await failing(aws(['s3', 'cp', file, `s3://${bucket}/large`], more));
      expect(up).toContain('QuotaExceeded');
      expect(up).toMatch(reason());
      const down = await failing(aws(['s3', 'cp', `s3://${bucket}/stored`, file], more));
      expect(down).toContain('QuotaExceeded');
      expect(down).toMatch(reason());
      const refused = await refusals();
      expect(refused.map(({ action, key }) => [action, key])).toEqual([
        ['s3:PutObject', 'large'],
        ['s3:GetObject', 'stored'],
      ]);
      for (const { bytesIn, bytesOut } of refused) expect([bytesIn, bytesOut]).toEqual([0, 0]);
    });
  }

  it('asks once for each part that is over budget, and leaves no upload behind', {
    timeout: timeoutMs,
  }, async () => {
    await putLimits(operator, student.account, { storedBytes: { total: 12 * MiB } });
    const file = join(dir, 'parts.bin');
    writeFileSync(file, Buffer.alloc(32 * MiB));
    const { bucket } = student;
    const output = await failing(aws(['s3', 'cp', '--no-progress', file, `s3://${bucket}/parts`]));
    expect(output).toContain('QuotaExceeded');
    const refused = await refusals();
    // Ten parts are under way at a time, of which the four are all.
    expect(refused.length).toBeLessThanOrEqual(4);
    expect(refused.length).toBeGreaterThan(0);
    const uploads = await aws(['s3api', 'list-multipart-uploads', '--bucket', bucket]);
    expect(uploads).not.toContain('UploadId');
  });

  it('waits and succeeds where it is too fast, if it may try often enough', {
    timeout: timeoutMs,
  }, async () => {
    await putLimits(operator, student.account, { rate: { requests: 10 } });
    const tree = join(dir, 'tree');
    mkdirSync(tree, { recursive: true });
    for (let i = 0; i < 60; i++) writeFileSync(join(tree, `file${i}`), `content ${i}`);
    const { bucket } = student;
    await aws(['s3', 'cp', '--recursive', tree, `s3://${bucket}/tree`], {
      AWS_MAX_ATTEMPTS: '20',
      AWS_RETRY_MODE: 'standard',
    });
    expect((await refusals()).length).toBeGreaterThan(0);
    const listed = await aws(['s3', 'ls', `s3://${bucket}/tree/`]);
    expect(listed.trimEnd().split('\n').length).toBe(60);
  });
});

describeWithTool(rclone, 'rclone', (path) => {
  const run = (args: string[]) => runTool(path, args, environment({ RCLONE_CONFIG: '/dev/null' }));
  const at = (target: string) =>
    `:s3,provider=Other,env_auth=true,region=us-east-1,endpoint="${gateway.endpoint}":${target}`;

  it('asks once for what is over budget, and says why', { timeout: timeoutMs }, async () => {
    await setBudget();
    const file = join(dir, 'rclone.bin');
    writeFileSync(file, seededBytes(1, 300_000));
    const { bucket } = student;
    const once = ['--retries', '1'];
    const up = await failing(run(['copyto', ...once, file, at(`${bucket}/large`)]));
    expect(up).toContain('QuotaExceeded');
    expect(up).toMatch(reason());
    const down = await failing(run(['copyto', ...once, at(`${bucket}/stored`), file]));
    expect(down).toContain('QuotaExceeded');
    const refused = await refusals();
    expect(refused.filter(({ error }) => error === 'QuotaExceeded').map(({ key }) => key)).toEqual([
      'large',
      'stored',
    ]);
  });

  it('asks three times by itself, and no more', { timeout: timeoutMs }, async () => {
    await setBudget();
    const file = join(dir, 'rclone-thrice.bin');
    writeFileSync(file, seededBytes(2, 300_000));
    await failing(run(['copyto', file, at(`${student.bucket}/large`)]));
    expect((await refusals()).filter(({ error }) => error === 'QuotaExceeded').length).toBe(3);
  });

  it('waits and succeeds where it is too fast', { timeout: timeoutMs }, async () => {
    await putLimits(operator, student.account, { rate: { requests: 10 } });
    const { bucket } = student;
    const tree = join(dir, 'rclone-tree');
    mkdirSync(tree, { recursive: true });
    for (let i = 0; i < 60; i++) writeFileSync(join(tree, `file${i}`), `content ${i}`);
    await run(['copy', '--transfers', '8', tree, at(`${bucket}/tree`)]);
    const refused = await refusals();
    expect(refused.filter(({ error }) => error === 'SlowDown').length).toBeGreaterThan(0);
    await run(['check', '--one-way', tree, at(`${bucket}/tree`)]);
  });
});
