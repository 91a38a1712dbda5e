// `bursar log export` as its users run it: into folders and buckets, killed, and given logs that
// are not what they were.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { HeadObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { renderVerifier, signNote } from '#bursar/audit/log/note.js';
import { verifyLog } from '#bursar/audit/verify/log.js';
import { folderSource } from '#bursar/audit/verify/log-source.js';
import { S3Files } from '#bursar/tiering/stores/s3/s3-files.js';
import {
  entriesOf,
  type Files,
  makeLog,
  serveStatically,
  signerOf,
} from '../audit/log/made-log.ts';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';
import { Workplace } from './command.ts';

const signer = signerOf('log.example/exported');
const trust = { keys: [signer.key] };
const entries = entriesOf(1200);
/** Each run of the command takes its time where others run, too. */
const timeout = 60_000;

function write(dir: string, files: Files): void {
  for (const [path, bytes] of files) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), bytes);
  }
}

let work: Workplace;
let from: string;
beforeEach(() => {
  work = new Workplace();
  from = join(work.folder, 'from');
});
afterEach(() => work.remove());

describe('bursar log export', { timeout }, () => {
  it('copies a log to a folder, and says what it has done', async () => {
    write(from, await makeLog(entries.slice(0, 300), signer));
    const first = await work.run(['log', 'export', 'out', '--from', from]);
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(first.stdout).toBe(
      'log.example/exported: 300 entries; 7 files (35.4 KiB) written to out\n',
    );
    write(from, await makeLog(entries, signer));
    const second = await work.run(['log', 'export', 'out', '--from', from, '--json']);
    expect(JSON.parse(second.stdout)).toMatchObject({ size: 1200, sizeBefore: 300, files: 10 });
    const out = join(work.folder, 'out');
    expect(await verifyLog(folderSource(out), { trust })).toMatchObject({ ok: true, size: 1200 });
    const third = await work.run(['log', 'export', 'out', '--from', from]);
    expect(third.stdout).toContain('1,200 entries, 0 of them new; 0 files (0 B) written');
  });

  it('goes on after kill -9 at any file, and leaves nothing of the killed one', async () => {
    const log = await makeLog(entries, signer);
    const small = await makeLog(entries.slice(0, 300), signer);
    for (const deadly of ['tile/0/004.p/176', 'tile/entries/002', 'tile/entries/004.p/176']) {
      let isLarge = false;
      let isDeadly = false;
      let kill = (): void => {};
      const server = await serveStatically((path) => {
        if (isDeadly && path === deadly) kill();
        return (isLarge ? log : small).get(path);
      });
      const args = ['log', 'export', `out-${deadly.replaceAll('/', '-')}`, '--from', server.url];
      expect(await work.run(args)).toMatchObject({ code: 0 });
      [isLarge, isDeadly] = [true, true];
      const main = resolve('app/main.js');
      const child = spawn(process.execPath, [main, ...args], {
        cwd: work.folder,
        env: bareEnvironment(),
        stdio: 'ignore',
      });
      kill = () => child.kill('SIGKILL');
      // It is asked for whatever happens, so it was killed.
      expect(await once(child, 'exit')).toEqual([null, 'SIGKILL']);
      const out = join(work.folder, args[2] as string);
      const killed = await verifyLog(folderSource(out), { trust });
      expect(killed).toMatchObject({ ok: true, size: 300 });
      isDeadly = false;
      expect(await work.run(args)).toMatchObject({ code: 0 });
      expect(await verifyLog(folderSource(out), { trust })).toMatchObject({ ok: true, size: 1200 });
      expect(readdirSync(out).sort()).toEqual(['checkpoint', 'key', 'tile']);
      await server.close();
    }
  });

  it('refuses a log that was rolled back or is damaged, and exits with 1', async () => {
    write(from, await makeLog(entries, signer));
    await work.run(['log', 'export', 'out', '--from', from]);
    write(from, await makeLog(entries.slice(0, 1000), signer));
    const shorter = await work.run(['log', 'export', 'out', '--from', from]);
    expect(shorter).toMatchObject({ code: 1, stdout: '' });
    expect(shorter.stderr).toBe(
      'bursar: the log was rolled back: it has 1000 entries, the export 1200\n',
    );
    write(from, new Map([['tile/0/001', Buffer.alloc(8192)]]));
    const damaged = await work.run(['log', 'export', 'other', '--from', from]);
    expect(damaged).toMatchObject({
      code: 1,
      stderr: 'bursar: tile/0/001 is not what the checkpoint is of\n',
    });
    expect(readdirSync(join(work.folder, 'other'))).not.toContain('checkpoint');
  });

  it('believes the keys of before, or those that are given, and no others', async () => {
    const [old, next] = [signer, signerOf(signer.key.name, 'the next key')];
    const log = await makeLog(entries.slice(0, 10), old);
    write(from, log);
    expect(await work.run(['log', 'export', 'out', '--from', from])).toMatchObject({ code: 0 });
    const text = (await makeLog(entries.slice(0, 20), old)).get('checkpoint')?.toString() ?? '';
    const body = text.slice(0, text.indexOf('\n\n') + 1);
    const keyFile = Buffer.from(`${renderVerifier(next.key)}\n${renderVerifier(old.key)}\n`);
    // Signed with the next key alone: nobody has vouched for that.
    write(from, await makeLog(entries.slice(0, 20), next));
    const refused = await work.run(['log', 'export', 'out', '--from', from]);
    expect(refused).toMatchObject({ code: 1 });
    expect(refused.stderr).toContain('not signed with any key');
    const given = ['--key', renderVerifier(next.key)];
    expect(await work.run(['log', 'export', 'out', '--from', from, ...given])).toMatchObject({
      code: 0,
    });
    // While both sign, the next one is taken over.
    write(from, log);
    await work.run(['log', 'export', 'overlap', '--from', from]);
    write(from, await makeLog(entries.slice(0, 20), old));
    const both = Buffer.from(signNote(body, [next, old]));
    write(
      from,
      new Map([
        ['checkpoint', both],
        ['key', keyFile],
      ]),
    );
    const args = ['log', 'export', 'overlap', '--from', from];
    expect(await work.run(args)).toMatchObject({ code: 0 });
    expect(readFileSync(join(work.folder, 'overlap/key'))).toEqual(keyFile);
    write(from, await makeLog(entries.slice(0, 30), next));
    expect(await work.run(args)).toMatchObject({ code: 0 });
  });

  it('says what is wrong with what it is asked', async () => {
    const cases: [string[], number, RegExp][] = [
      [['out', '--from', from], 1, /the log does not say its key/],
      [['out', '--from', 'http://127.0.0.1:1/log'], 1, /cannot read http:\/\/127\.0\.0\.1:1\/log/],
      [['out', '--from', from, '--s3-region', 'eu-west-1'], 2, /s3:\/\/BUCKET/],
      [['s3://', '--from', from], 1, /s3:\/\//],
      [['out', '--from', from, '--key', 'nowhere'], 2, /--key: .*nowhere/],
      [['out'], 2, /no credentials/],
    ];
    for (const [args, code, message] of cases) {
      const outcome = await work.run(['log', 'export', ...args]);
      expect(outcome.stderr).toMatch(message);
      expect(outcome.code).toBe(code);
    }
  });
});

describeWithTool(versitygw, 'bursar log export to a bucket', (path) => {
  let backend: S3Backend;
  beforeEach(async () => {
    backend = await startVersitygw(path);
    backend.makeBucket('public-log');
  });
  afterEach(() => backend.stop());

  it('has its files served as the specification says, and goes on', { timeout }, async () => {
    const { endpoint, region, credentials } = backend;
    const environment = {
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
      NO_PROXY: '*',
    };
    const url = 's3://public-log/our/log';
    const flags = ['--s3-endpoint', endpoint, '--s3-region', region, '--s3-path-style'];
    const files = await S3Files.open({ url, endpoint, region, pathStyle: true, credentials });
    for (const [size, written] of [
      [300, 7],
      [1200, 10],
      [1200, 0],
    ] as const) {
      write(from, await makeLog(entries.slice(0, size), signer));
      const args = ['log', 'export', url, '--from', from, '--json', ...flags];
      const outcome = await work.run(args, environment);
      expect(outcome.stderr).toBe('');
      expect(JSON.parse(outcome.stdout)).toMatchObject({ size, files: written });
      const source = { read: (name: string) => files.get(name) };
      expect(await verifyLog(source, { trust })).toMatchObject({ ok: true, size });
    }
    await files.close();
    const client = new S3Client({ endpoint, region, credentials, forcePathStyle: true });
    const head = async (name: string) => {
      const Key = `our/log/${name}`;
      const { ContentType, CacheControl } = await client.send(
        new HeadObjectCommand({ Bucket: 'public-log', Key }),
      );
      return [ContentType, CacheControl];
    };
    for (const name of ['tile/0/000', 'tile/entries/004.p/176']) {
      const immutable = 'public, max-age=31536000, immutable';
      expect(await head(name)).toEqual(['application/octet-stream', immutable]);
    }
    for (const name of ['checkpoint', 'key']) {
      expect(await head(name)).toEqual(['text/plain; charset=utf-8', 'no-cache']);
    }
    client.destroy();
  });

  it('that is not there, or not ours, is refused with the reason of the server', {
    timeout,
  }, async () => {
    write(from, await makeLog(entries.slice(0, 3), signer));
    const { endpoint, credentials } = backend;
    const flags = ['--s3-endpoint', endpoint, '--s3-region', 'us-east-1', '--s3-path-style'];
    const keys = {
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
      NO_PROXY: '*',
    };
    const none = ['log', 'export', 's3://nowhere/log', '--from', from, ...flags];
    const missing = await work.run(none, keys);
    expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining('NoSuchBucket') });
    const ours = ['log', 'export', 's3://public-log/log', '--from', from, ...flags];
    const denied = await work.run(ours, { ...keys, AWS_SECRET_ACCESS_KEY: 'another' });
    expect(denied).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('SignatureDoesNotMatch'),
    });
  });
});
