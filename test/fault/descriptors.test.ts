// A gateway that has no file descriptors left refuses what needs one, and serves again when it has:
// nobody's object is damaged, and there is no bug.
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { failureOfError } from '#bursar/tiering/stores/s3/failure.js';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, type Tool } from '../tooling/tools.ts';
import { makeContent } from './content.ts';
import { element } from './load.ts';
import { S3Client } from './s3-client.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

function findPrlimit(): Tool {
  const tool = { name: 'prlimit', variable: 'PATH' };
  try {
    execFileSync('prlimit', ['--version'], { stdio: 'ignore' });
    return { ...tool, path: 'prlimit' };
  } catch {
    return { ...tool, path: undefined };
  }
}

describeWithTool(findPrlimit(), 'a gateway without file descriptors', (prlimit) => {
  let gateway: ServedGateway;
  let client: S3Client;
  const content = makeContent(1, 1024 * 1024);

  beforeAll(async () => {
    gateway = await startServedGateway();
    // One connection, which is there already.
    client = new S3Client(gateway, 1);
    expect((await client.send('PUT', '/bucket')).status).toBe(200);
    expect(await put('first')).toEqual([200, undefined]);
    expect(await get('first')).toEqual([200, undefined]);
  });
  afterAll(async () => {
    client?.close();
    await gateway?.stop();
  });

  async function send(method: 'GET' | 'PUT', key: string, body?: Buffer) {
    const answer = await client.send(method, `/bucket/${key}`, body ? { body } : {});
    return [answer.status, answer.status < 300 ? undefined : element(answer.body, 'Code')];
  }

  const put = (key: string) => send('PUT', key, content.bytes);
  const get = (key: string) => send('GET', key);

  it('answers 503, and serves again when it has some', async () => {
    const { pid } = gateway;
    const limit = (soft: number | string): void => {
      execFileSync(prlimit, ['--pid', String(pid), `--nofile=${soft}:`]);
    };
    let open: number[] = [];
    const isSettled = (): boolean => {
      const before = open.join();
      open = readdirSync(`/proc/${pid}/fd`).map(Number);
      return open.join() === before;
    };
    // What a request or the start has open would be closed, and free, later.
    await expect.poll(isSettled, { interval: 500 }).toBe(true);
    // The lowest free number is at the limit, or above it.
    let free = 0;
    while (open.includes(free)) free++;
    limit(free);
    const refused = [503, 'ServiceUnavailable'];
    expect(await put('second')).toEqual(refused);
    expect(await get('first')).toEqual(refused);
    limit(1024);
    expect(await put('second')).toEqual([200, undefined]);
    expect(await get('first')).toEqual([200, undefined]);
    // It is no bug of a request; the checkpoint is kept again with the next one.
    const told = gateway.output().split('\n');
    const isOfOthers = (line: string) => line.includes('the checkpoint was not kept');
    expect(told.filter((line) => line.includes('EMFILE') && !isOfOthers(line))).toEqual([]);
  });

  it.each(['EMFILE', 'ENFILE'])('blames no store for its own %s', (code) => {
    const failure = failureOfError(Object.assign(new Error('connect'), { code }));
    expect(failure).toMatchObject({ reason: 'no-descriptors', passing: true, serverFault: false });
  });
});
