// The AWS CLI, as its users have it, against a served gateway.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { digestTree, seededBytes, sha256Hex, writeTree } from '../tooling/files.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { awsCli, clientEnvironment, describeWithTool, runTool } from '../tooling/tools.ts';

const timeoutMs = 240_000;
const MiB = 1024 * 1024;

/** Names that clients get wrong: spaces, plus, percent, Unicode, and a folder within a folder. */
const tree = {
  'plain.txt': 'plain',
  'empty.bin': '',
  'dir/with space+plus%20percent.txt': 'escaped',
  'dir/ünï©ødé-文字.txt': 'unicode',
  'dir/deeper/still/small.bin': seededBytes(1, 4096),
  'dir/deeper/large.bin': seededBytes(2, 300 * 1024),
};

describeWithTool(awsCli, 'AWS CLI', (path) => {
  let gateway: ServedGateway;
  let dir: string;

  const aws = (...args: string[]) =>
    runTool(path, ['--endpoint-url', gateway.endpoint, ...args], clientEnvironment(gateway));

  beforeAll(async () => {
    gateway = await startServedGateway();
    dir = mkdtempSync(join(tmpdir(), 'bursar-aws-cli-'));
    writeTree(join(dir, 'tree'), tree);
  }, timeoutMs);

  afterAll(async () => {
    rmSync(dir, { recursive: true, force: true });
    await gateway?.stop();
  }, timeoutMs);

  it('brings a small file up and down unchanged, and lists it', {
    timeout: timeoutMs,
  }, async () => {
    await aws('s3', 'mb', 's3://cli-small');
    const content = seededBytes(3, 70_000);
    writeFileSync(join(dir, 'small.bin'), content);
    await aws('s3', 'cp', join(dir, 'small.bin'), 's3://cli-small/a b/small.bin');
    await aws('s3', 'cp', 's3://cli-small/a b/small.bin', join(dir, 'down', 'small.bin'));
    expect(digestTree(join(dir, 'down'))).toEqual({ 'small.bin': sha256Hex(content) });
    expect(await aws('s3', 'ls')).toMatch(/ cli-small$/m);
    expect(await aws('s3', 'ls', 's3://cli-small')).toMatch(/PRE a b\/$/m);
    expect(await aws('s3', 'ls', 's3://cli-small/a b/')).toMatch(/ 70000 small\.bin$/m);
  });

  it('syncs a tree up and down, and a second sync moves nothing', {
    timeout: timeoutMs,
  }, async () => {
    await aws('s3', 'mb', 's3://cli-sync');
    await aws('s3', 'sync', join(dir, 'tree'), 's3://cli-sync/copy');
    expect(await aws('s3', 'sync', join(dir, 'tree'), 's3://cli-sync/copy')).toBe('');
    await aws('s3', 'sync', 's3://cli-sync/copy', join(dir, 'tree-down'));
    expect(digestTree(join(dir, 'tree-down'))).toEqual(digestTree(join(dir, 'tree')));
  });

  it('sync --delete and rm --recursive leave exactly what they should', {
    timeout: timeoutMs,
  }, async () => {
    await aws('s3', 'mb', 's3://cli-rm');
    await aws('s3', 'sync', join(dir, 'tree'), 's3://cli-rm/tree');
    await aws('s3', 'sync', '--delete', join(dir, 'tree/dir'), 's3://cli-rm/tree');
    const after = await aws('s3', 'ls', '--recursive', 's3://cli-rm');
    expect(after.trimEnd().split('\n')).toHaveLength(4);
    await aws('s3', 'rm', '--recursive', 's3://cli-rm/tree/deeper');
    expect(await aws('s3', 'ls', '--recursive', 's3://cli-rm')).not.toMatch(/deeper/);
    await aws('s3', 'rm', '--recursive', 's3://cli-rm');
    await aws('s3', 'rb', 's3://cli-rm');
    expect(await aws('s3', 'ls')).not.toMatch(/cli-rm/);
  });

  it('brings 20 MiB up and down in parts unchanged', { timeout: timeoutMs }, async () => {
    await aws('s3', 'mb', 's3://cli-parts');
    const content = seededBytes(4, 20 * MiB);
    writeFileSync(join(dir, 'large.bin'), content);
    await aws('s3', 'cp', '--no-progress', join(dir, 'large.bin'), 's3://cli-parts/large.bin');
    const head = JSON.parse(
      await aws('s3api', 'head-object', '--bucket', 'cli-parts', '--key', 'large.bin'),
    );
    expect(head).toMatchObject({ ContentLength: 20 * MiB, ETag: expect.stringMatching(/-3"$/) });
    await aws(
      's3',
      'cp',
      '--no-progress',
      's3://cli-parts/large.bin',
      join(dir, 'parts/large.bin'),
    );
    expect(digestTree(join(dir, 'parts'))).toEqual({ 'large.bin': sha256Hex(content) });
    await aws('s3', 'cp', 's3://cli-parts/large.bin', 's3://cli-parts/copied.bin');
    await aws('s3', 'mv', 's3://cli-parts/copied.bin', join(dir, 'moved/copied.bin'));
    expect(digestTree(join(dir, 'moved'))).toEqual({ 'copied.bin': sha256Hex(content) });
    expect(await aws('s3', 'ls', 's3://cli-parts')).not.toMatch(/copied/);
  });

  it('brings a file up in parts and down with a key of its own', {
    timeout: timeoutMs,
  }, async () => {
    await aws('s3', 'mb', 's3://cli-keys');
    const content = seededBytes(7, 9 * MiB);
    writeFileSync(join(dir, 'sealed.bin'), content);
    writeFileSync(join(dir, 'object.key'), seededBytes(8, 32));
    const withKey = ['--sse-c', 'AES256', '--sse-c-key', `fileb://${join(dir, 'object.key')}`];
    await aws('s3', 'cp', join(dir, 'sealed.bin'), 's3://cli-keys/k', ...withKey);
    await aws('s3', 'cp', 's3://cli-keys/k', join(dir, 'opened', 'k'), ...withKey);
    expect(digestTree(join(dir, 'opened'))).toEqual({ k: sha256Hex(content) });
  });

  it('is told plainly what is wrong', { timeout: timeoutMs }, async () => {
    const missing = aws('s3api', 'get-object', '--bucket', 'cli-none', '--key', 'k', '/dev/null');
    await expect(missing).rejects.toThrow(/NoSuchBucket/);
    const wrongKey = runTool(path, ['--endpoint-url', gateway.endpoint, 's3', 'ls'], {
      ...clientEnvironment(gateway),
      AWS_SECRET_ACCESS_KEY: 'not-the-secret',
    });
    await expect(wrongKey).rejects.toThrow(/SignatureDoesNotMatch/);
  });
});
