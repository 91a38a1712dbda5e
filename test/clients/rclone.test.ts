// rclone, configured by connection string only, against a served gateway.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { digestTree, seededBytes, sha256Hex, writeTree } from '../tooling/files.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { clientEnvironment, describeWithTool, rclone, runTool } from '../tooling/tools.ts';

const timeoutMs = 240_000;
const MiB = 1024 * 1024;

const tree = {
  'plain.txt': 'plain',
  'empty.bin': '',
  'dir/with space+plus%20percent.txt': 'escaped',
  'dir/ünï©ødé-文字.txt': 'unicode',
  'dir/deeper/small.bin': seededBytes(11, 4096),
  'dir/deeper/large.bin': seededBytes(12, 300 * 1024),
};

describeWithTool(rclone, 'rclone', (path) => {
  let gateway: ServedGateway;
  let dir: string;

  const run = (...args: string[]) => {
    const env = { ...clientEnvironment(gateway), RCLONE_CONFIG: '/dev/null' };
    return runTool(path, ['--retries', '1', ...args], env);
  };
  /** A path of the gateway in rclone's words. */
  const at = (target: string) =>
    `:s3,provider=Other,env_auth=true,region=us-east-1,endpoint="${gateway.endpoint}":${target}`;

  beforeAll(async () => {
    gateway = await startServedGateway();
    dir = mkdtempSync(join(tmpdir(), 'bursar-rclone-'));
    writeTree(join(dir, 'tree'), tree);
  }, timeoutMs);

  afterAll(async () => {
    rmSync(dir, { recursive: true, force: true });
    await gateway?.stop();
  }, timeoutMs);

  it('syncs a tree up and down, and check agrees', { timeout: timeoutMs }, async () => {
    await run('mkdir', at('rclone-sync'));
    await run('sync', join(dir, 'tree'), at('rclone-sync/copy'));
    await run('check', join(dir, 'tree'), at('rclone-sync/copy'));
    await run('check', '--download', join(dir, 'tree'), at('rclone-sync/copy'));
    await run('sync', at('rclone-sync/copy'), join(dir, 'tree-down'));
    expect(digestTree(join(dir, 'tree-down'))).toEqual(digestTree(join(dir, 'tree')));
  });

  it('check finds a difference, and sync repairs it', { timeout: timeoutMs }, async () => {
    await run('copy', join(dir, 'tree'), at('rclone-check/copy'));
    writeFileSync(join(dir, 'other.txt'), 'PLAIN');
    await run('copyto', join(dir, 'other.txt'), at('rclone-check/copy/plain.txt'));
    await run('copyto', join(dir, 'other.txt'), at('rclone-check/copy/extra.txt'));
    const check = run('check', join(dir, 'tree'), at('rclone-check/copy'));
    await expect(check).rejects.toThrow(/2 differences found/);
    await run('sync', join(dir, 'tree'), at('rclone-check/copy'));
    await run('check', join(dir, 'tree'), at('rclone-check/copy'));
  });

  it('keeps modification times, lists and deletes', { timeout: timeoutMs }, async () => {
    await run('copy', join(dir, 'tree'), at('rclone-list'));
    const listed = JSON.parse(await run('lsjson', '--recursive', at('rclone-list')));
    const files = listed.filter((entry: { IsDir: boolean }) => !entry.IsDir);
    expect(files.map((entry: { Path: string }) => entry.Path).sort()).toEqual(
      Object.keys(tree).sort(),
    );
    const local = JSON.parse(await run('lsjson', join(dir, 'tree/plain.txt')))[0];
    const remote = JSON.parse(await run('lsjson', at('rclone-list/plain.txt')))[0];
    expect(Date.parse(remote.ModTime)).toBe(Date.parse(local.ModTime));
    await run('deletefile', at('rclone-list/plain.txt'));
    expect(await run('lsf', at('rclone-list'))).toBe('dir/\nempty.bin\n');
    await run('purge', at('rclone-list'));
    expect(await run('lsf', at(''))).not.toMatch(/rclone-list/);
  });

  it('brings a file up and down in parts unchanged', { timeout: timeoutMs }, async () => {
    const content = seededBytes(13, 11 * MiB + 5);
    writeFileSync(join(dir, 'large.bin'), content);
    const inParts = ['--s3-upload-cutoff', '5M', '--s3-chunk-size', '5M'];
    await run('copyto', ...inParts, join(dir, 'large.bin'), at('rclone-parts/large.bin'));
    await run('copyto', at('rclone-parts/large.bin'), join(dir, 'parts/large.bin'));
    expect(digestTree(join(dir, 'parts'))).toEqual({ 'large.bin': sha256Hex(content) });
    await run('copyto', at('rclone-parts/large.bin'), at('rclone-parts/copied.bin'));
    await run('check', '--download', '--one-way', join(dir, 'parts'), at('rclone-parts'));
    expect(await run('lsf', at('rclone-parts'))).toBe('copied.bin\nlarge.bin\n');
  });
});
