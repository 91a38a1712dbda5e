// The log of a served gateway: one line for each request that came in, whatever became of it, and
// nothing in it with which another could act. Nobody waits for it.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { pipelinedRequestsMax } from '#bursar/core/limits.js';
import { LogWriter, makeLogger } from '#bursar/instruments/logger.js';
import type { ObservedRequest } from '#bursar/instruments/observed-request.js';
import { RequestLog } from '#bursar/instruments/request-log.js';
import { StageClock } from '#bursar/instruments/stage-clock.js';
import { callNative, exchange, patternOf, region, send, type Target } from '../protocol/target.ts';
import { signedHead, Wire } from '../protocol/wire.ts';
import { presignUrl } from '../tooling/presign.ts';
import {
  environmentWithoutSettings,
  type ServedGateway,
  startServedGateway,
} from '../tooling/served-gateway.ts';
import { findLine, type LogLine, readLines } from './log-lines.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const MiB = 2 ** 20;

describe('the log of a gateway', () => {
  let gateway: ServedGateway;
  let target: Target;

  beforeAll(async () => {
    // Lines are in the order in which requests end only where one thread writes all of them.
    const env = { BURSAR_HTTP_THREADS: '1' };
    gateway = await startServedGateway({ args: ['--stall-timeout', '5s'], env });
    const { endpoint, accessKeyId, secretAccessKey, stop } = gateway;
    target = { endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [], stop };
    await send(target, { method: 'PUT', path: '/logged' });
  });
  afterAll(() => gateway?.stop());

  const lineOf = (id: string | undefined): Promise<LogLine> =>
    findLine(gateway, ({ requestId }) => requestId === id);

  it('has who asked for what, what became of it, and how long it took', async () => {
    const body = 'content';
    const put = await send(target, { method: 'PUT', path: '/logged/key', body });
    const line = await lineOf(put.headers['x-amz-request-id']);
    expect(line).toEqual({
      level: 'info',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      msg: 'request',
      requestId: put.headers['x-amz-request-id'],
      way: 's3',
      method: 'PUT',
      operation: 'PutObject',
      tenant: 'default',
      principal: 'admin',
      bucket: 'logged',
      store: 'local',
      status: 200,
      bytesIn: body.length,
      bytesOut: 0,
      durationMs: expect.any(Number),
      firstByteMs: expect.any(Number),
      receipt: Number(put.headers['x-bursar-receipt']),
      source: '127.0.0.1',
    });
    expect(line.firstByteMs).toBeLessThanOrEqual(line.durationMs);
    expect(Date.parse(line.time)).toBeGreaterThan(Date.now() - 60_000);

    const get = await send(target, { method: 'GET', path: '/logged/key' });
    const read = { operation: 'GetObject', bytesOut: body.length, status: 200 };
    expect(await lineOf(get.headers['x-amz-request-id'])).toMatchObject(read);
    const none = await send(target, { method: 'HEAD', path: '/logged/nothing' });
    const missed = { operation: 'HeadObject', bytesOut: 0, status: 404, error: 'NoSuchKey' };
    expect(await lineOf(none.headers['x-amz-request-id'])).toMatchObject(missed);
    const native = await send(target, { method: 'GET', path: '/_/v1/whoami' });
    expect(await lineOf(native.headers['x-amz-request-id'])).toMatchObject({
      ...{ way: 'native', operation: 'WhoAmI', tenant: 'default', principal: 'admin' },
      ...{ status: 200, bytesOut: native.body.length },
      receipt: Number(native.headers['x-bursar-receipt']),
    });
  });

  it('names no key, query, header, token or secret', async () => {
    const secret = 'a-very-secret-name';
    const { token } = await callNative(target, 'POST', '/_/v1/tokens', {
      scope: 'storage.read:/logged',
    });
    const { accessKeyId, secretAccessKey } = target.keys;
    const presigned = presignUrl({
      ...{ method: 'GET', origin: target.endpoint, path: `/logged/${secret}`, headers: {} },
      ...{ accessKeyId, secret: secretAccessKey, region, timeMs: Date.now(), expiresSeconds: 60 },
    });
    await exchange(target, 'GET', presigned.slice(target.endpoint.length));
    const share = { bucket: 'logged', key: 'key' };
    const link = await callNative(target, 'POST', '/_/v1/shares', share);
    await exchange(target, 'GET', link.url.slice(target.endpoint.length));
    await send(target, { method: 'PUT', path: `/logged/${secret}`, body: secret });
    await send(target, { method: 'GET', path: '/logged', query: [['prefix', secret]] });
    await send(target, { method: 'GET', path: `/${secret}/x` });
    await exchange(target, 'GET', `/_/${secret}?${secret}`, { [secret]: secret });
    const authorization = `Bearer ${token}`;
    const last = await exchange(target, 'GET', `/logged/${secret}`, { authorization });
    await lineOf(last.headers['x-amz-request-id']);

    const said = readLines(gateway)
      .map((line) => JSON.stringify(line))
      .join('\n');
    const shared = link.url.split('/_/share/')[1].split('/')[0];
    const signature = /X-Amz-Signature=(\w+)/.exec(presigned)?.[1] ?? 'none';
    expect(signature).toMatch(/^[0-9a-f]{64}$/);
    for (const hidden of [secret, token, shared, signature, accessKeyId, secretAccessKey]) {
      expect(said).not.toContain(hidden);
    }
  });

  it('has one line for each request, whatever became of it', async () => {
    const body = patternOf(MiB);
    await send(target, { method: 'PUT', path: '/logged/large', body: patternOf(32 * MiB) });
    const before = (await settledLines()).length;
    const expected: [string | undefined, number][] = [];
    const expectMore = async (...more: [string | undefined, number][]): Promise<void> => {
      expected.push(...more);
      await vi.waitFor(() => expect(readLines(gateway)).toHaveLength(before + expected.length), {
        timeout: 20_000,
      });
    };
    const length = `content-length: ${body.length}`;
    const head = signedHead(target, { method: 'PUT', path: '/logged/cut', body }, [length]);

    // Cut in its body: its end, a reset, or silence.
    for (const cut of ['end', 'destroy', null] as const) {
      const wire = await Wire.open(target);
      wire.write(head);
      wire.write(body.subarray(0, 1000));
      if (cut) wire[cut]();
      await wire.closed();
      await expectMore(['RequestTimeout', 0]);
    }
    // No HTTP, too much of it, and no host.
    for (const [text, code, status] of [
      ['GARBAGE\r\n\r\n', 'BadRequest', 400],
      ['CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n', 'BadRequest', 400],
      [
        `GET / HTTP/1.1\r\nx: ${'x'.repeat(64 * 1024)}\r\n\r\n`,
        'RequestHeaderSectionTooLarge',
        400,
      ],
      ['GET /logged HTTP/1.1\r\nconnection: close\r\n\r\n', 'BadRequest', 400],
    ] as const) {
      const wire = await Wire.open(target);
      wire.write(text);
      const said = await wire.closed();
      expect(said).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      expect(said).toMatch(/x-amz-request-id: ([0-9A-F]{16})\r\n[\s\S]*<RequestId>\1</);
      await expectMore([code, status]);
    }
    // Waiting for an answer that is not read, until the client leaves, or too many wait.
    const asked = signedHead(target, { method: 'GET', path: '/logged/large' });
    for (const waiting of [2, pipelinedRequestsMax + 1]) {
      const socket = connect(Number(new URL(target.endpoint).port), '127.0.0.1');
      socket.on('error', () => {});
      socket.write(asked.repeat(1 + waiting));
      await once(socket, 'readable');
      if (waiting === 2) socket.destroy();
      const abandoned = Array<[undefined, number]>(waiting).fill([undefined, 0]);
      await expectMore(...abandoned, ['RequestTimeout', 200]);
      socket.destroy();
    }

    const lines = (await settledLines()).slice(before);
    const told = lines.slice(0, -1).map(({ error, status }) => [error, status]);
    expect(told.sort()).toEqual(expected.sort());
    expect(new Set(lines.map(({ requestId }) => requestId)).size).toBe(lines.length);
    expect(gateway.output()).not.toMatch(/Warning/);
  });

  it('answers what is no HTTP after what came before, or for its request', async () => {
    const post = (path: string, type: string) =>
      `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: ` +
      `${type}\r\ntransfer-encoding: chunked\r\n\r\n`;
    const put = { method: 'PUT', path: '/logged/key', body: 'content' };
    for (const [sent, text, statuses] of [
      [signedHead(target, put, ['content-length: 7']), 'contentGARBAGE\r\n', [200, 400]],
      [post('/_/v1/tokens', 'application/json'), 'GARBAGE\r\n', [400]],
      [post('/', 'application/x-www-form-urlencoded'), 'GARBAGE\r\n', [400]],
      [post('/_/v1/tokens', 'application/json'), '7\r\nc', []],
    ] as const) {
      const before = (await settledLines()).length;
      const wire = await Wire.open(target);
      wire.write(sent + text);
      if (statuses.length === 0) wire.end();
      const said = await wire.closed();
      expect(said.match(/HTTP\/1.1 (\d+)/g) ?? []).toEqual(statuses.map((it) => `HTTP/1.1 ${it}`));
      const told = (await settledLines()).slice(before, -1);
      expect(told.map(({ status }) => status)).toEqual(statuses.length === 0 ? [0] : statuses);
      // Whose fault it is.
      expect(told.map(({ level }) => level)).not.toContain('error');
    }
  });

  /** All lines until now, that of one more request at their end. */
  async function settledLines(): Promise<LogLine[]> {
    const { headers } = await exchange(target, 'GET', '/_/health');
    await lineOf(headers['x-amz-request-id']);
    return readLines(gateway);
  }

  it('names in all errors the request that is logged, by all ways', async () => {
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    const answers = [
      await exchange(target, 'GET', '/none/x'),
      await exchange(target, 'PATCH', '/none/x'),
      await exchange(target, 'OPTIONS', '/none/x', { origin: 'https://a' }),
      await exchange(target, 'POST', '/', form, 'Action=Nothing'),
      await exchange(target, 'GET', '/_/share/none/x'),
      await exchange(target, 'PUT', '/_/share/none/x'),
      await exchange(target, 'GET', '/_/v1/whoami'),
      await exchange(target, 'GET', '/_/v1/tenants/%zz'),
      await exchange(target, 'GET', '/_/nothing'),
      await exchange(target, 'PROPFIND', '/_/v1/whoami'),
      await exchange(target, 'GET', '/none/x', { expect: 'the-impossible' }),
    ];
    expect(answers.at(-1)?.status).toBe(417);
    for (const { status, headers, text } of answers) {
      const id = headers['x-amz-request-id'] ?? 'none';
      expect(status, text).toBeGreaterThanOrEqual(400);
      expect(text).toContain(id);
      expect(await lineOf(id)).toMatchObject({ status, error: expect.any(String) });
    }
    const preflight = await findLine(gateway, ({ way }) => way === 'preflight');
    expect(preflight.operation).toBe('Preflight');
  });
});

describe('a log that nobody reads', () => {
  it('keeps no request, and does not keep the gateway from its end', async ({ onTestFailed }) => {
    const dataDir = mkdtempSync(join(tmpdir(), 'bursar-stuck-'));
    const main = resolve('app/main.js');
    const args = [main, 'serve', '--data', dataDir, '--listen', '127.0.0.1:0'];
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: environmentWithoutSettings(),
    });
    let said = '';
    let complained = '';
    let answered = 0;
    child.stderr.on('data', (text: Buffer) => {
      complained += text;
    });
    onTestFailed(() => {
      const ended = child.exitCode ?? child.signalCode;
      process.stderr.write(`${answered} answers, ended ${ended}:\n${said}${complained}\n`);
      child.kill('SIGKILL');
    });
    const endpoint = await new Promise<string>((found) => {
      child.stdout.on('data', function look(text: Buffer) {
        said += text;
        const [, url] =
          /^Bursar serves (\S+)[\s\S]*tenant list(?: --credentials .*)?\n/m.exec(said) ?? [];
        if (url === undefined) return;
        child.stdout.off('data', look);
        child.stdout.pause();
        found(url);
      });
    });
    // More than the pipe and what reads from it take.
    for (let i = 0; i < 40; i++) {
      const asked = Array.from({ length: 10 }, () => fetch(`${endpoint}/none/${i}`));
      for (const answer of await Promise.all(asked)) {
        expect(answer.status).toBe(403);
        answered++;
      }
    }
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
    child.stdout.destroy();
    rmSync(dataDir, { recursive: true });
  });

  it('takes no more than its bound, counts what it drops, goes on when it is read', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-log-'));
    const fifo = join(folder, 'fifo');
    execFileSync('mkfifo', [fifo]);
    const fd = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK);
    const writer = new LogWriter(fd, { bytesMax: 100_000, delayMs: 1 });
    const line = `${'x'.repeat(999)}\n`;
    const write = (count: number): void => {
      for (let i = 0; i < count; i++) writer.write(line);
    };
    write(90);
    await setTimeout(20);
    write(500);
    // A pipe holds 64 KiB, and nobody reads. What is on its way to it does not count as waiting.
    await writer.flush(10);
    const kept = line.repeat(590 - writer.droppedLines);
    expect(kept.length).toBeGreaterThan(100_000);
    expect(kept.length).toBeLessThan(2 * 100_000 + 65_536);
    let text = '';
    const into = Buffer.alloc(65_536);
    await vi.waitFor(
      () => {
        text += into.toString('latin1', 0, readSync(fd, into, 0, into.length, null));
        expect(text.length).toBe(kept.length);
      },
      { timeout: 20_000, interval: 10 },
    );
    expect(text).toBe(kept);
    await writer.flush(10_000);
    closeSync(fd);
    rmSync(folder, { recursive: true });
  });

  it('at the end of the process takes lines as far as they go, without a hole', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-log-'));
    const [fifo, copy] = [join(folder, 'fifo'), join(folder, 'copy')];
    execFileSync('mkfifo', [fifo]);
    const fd = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK);
    const writer = new LogWriter(fd, { delayMs: 60_000 });
    const lines = Array.from({ length: 900 }, (_, i) => `${String(i).padStart(999, '.')}\n`);
    for (const line of lines) writer.write(line);
    // Reads while the writer writes, but slower.
    const reader = spawn('dd', [`if=${fifo}`, `of=${copy}`, 'bs=4096'], { stdio: 'ignore' });
    // No write is under way: the pipe is full, and what is left of a batch waits to be tried again.
    const waitsForPipe = (): boolean => !process.getActiveResourcesInfo().includes('FSReqCallback');
    await vi.waitFor(
      () => {
        expect(statSync(copy).size).toBeGreaterThan(0);
        expect(waitsForPipe()).toBe(true);
      },
      { interval: 1, timeout: 20_000 },
    );
    writer.flushSync();
    closeSync(fd);
    await once(reader, 'exit');
    const text = readFileSync(copy, 'latin1');
    expect(text).toBe(lines.join('').slice(0, text.length));
    expect(Math.floor(text.length / 1000) + writer.droppedLines).toBeGreaterThanOrEqual(900);
    rmSync(folder, { recursive: true });
  });

  it('at the end of the process begins a line behind one that may be cut short', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-log-'));
    const fifo = join(folder, 'fifo');
    execFileSync('mkfifo', [fifo]);
    const fd = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK);
    const writer = new LogWriter(fd, { delayMs: 60_000 });
    const lines = Array.from({ length: 120 }, (_, i) => `${String(i).padStart(999, '.')}\n`);
    for (const line of lines.slice(0, 30)) writer.write(line);
    await writer.flush(10_000);
    // More than a batch: its first part fills the pipe, and the event loop does not hear of it.
    for (const line of lines.slice(30)) writer.write(line);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
    const into = Buffer.alloc(200_000);
    const filled = readSync(fd, into, 0, into.length, null);
    const taken = lines[Math.floor(filled / 1000)]?.slice(0, filled % 1000);
    expect(taken).not.toBe('');
    writer.flushSync();
    const rest = readSync(fd, into, filled, into.length - filled, null);
    const text = into.toString('latin1', 0, filled + rest);
    const cut = text.split('\n').filter((line) => line.length > 0 && !lines.includes(`${line}\n`));
    expect(cut).toEqual([taken]);
    expect(text.endsWith(lines.at(-1) ?? '')).toBe(true);
    closeSync(fd);
    rmSync(folder, { recursive: true });
  });

  it('counts what a disk does not take', async () => {
    const fd = openSync('/dev/full', 'w');
    const writer = new LogWriter(fd, { delayMs: 1 });
    writer.write('one\n');
    writer.write('two\n');
    await writer.flush(10_000);
    expect(writer.droppedLines).toBe(2);
    closeSync(fd);
  });
});

describe('a slow request', () => {
  const observe = (options: { isOn?: boolean; level?: string; slowMs: number }): object[] => {
    const lines: object[] = [];
    const write = (line: string): void => void lines.push(JSON.parse(line));
    const logger = makeLogger(options.level ?? 'info', { write } as LogWriter);
    const log = new RequestLog({ isOn: true, ...options, logger });
    const clock = new StageClock();
    clock.enter('stream');
    const durationMs = clock.end() + 2000;
    const known = { id: 'R', way: 's3', method: 'GET', operation: null, trace: null, status: 200 };
    log.observe({ ...known, clock, durationMs } as unknown as ObservedRequest);
    return lines;
  };

  it('is told as one, with its stages, even where others are not told', () => {
    const slow = { level: 'warn', msg: 'slow request', stagesMs: { stream: expect.any(Number) } };
    for (const isOn of [true, false]) {
      expect(observe({ isOn, slowMs: 1000 })).toMatchObject([{ requestId: 'R', ...slow }]);
    }
    expect(observe({ level: 'warn', slowMs: 1000 })).toMatchObject([slow]);
  });

  it('is none where it took less, and is told as others are, or not', () => {
    expect(observe({ slowMs: 3000 })).toMatchObject([{ level: 'info', msg: 'request' }]);
    expect(observe({ slowMs: 3000, isOn: false })).toEqual([]);
    expect(observe({ slowMs: 3000, level: 'warn' })).toEqual([]);
  });
});
