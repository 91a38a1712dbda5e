// s3cmd, which signs and parses by itself. It is configured as documented.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { digestTree, seededBytes, sha256Hex, writeTree } from '../tooling/files.ts';
import { clientEnvironment, describeWithTool, runTool, s3cmd } from '../tooling/tools.ts';
import { documentedLines } from './documented.ts';
import { describeOnLocalStore } from './stores.ts';

const timeoutMs = 240_000;
const MiB = 1024 * 1024;

const tree = {
  'plain.txt': 'plain',
  'dir/with space+plus%20percent.txt': 'escaped',
  'dir/ünï©ødé-文字.txt': 'unicode',
  'dir/deeper/large.bin': seededBytes(71, 300 * 1024),
};

describeWithTool(s3cmd, 's3cmd', (path) => {
  describeOnLocalStore((targetOf) => {
    let dir: string;

    const run = (...args: string[]) =>
      runTool(path, ['--config', join(dir, 'config'), ...args], clientEnvironment(targetOf().keys));

    beforeAll(() => {
      dir = mkdtempSync(join(tmpdir(), 'bursar-s3cmd-'));
      writeFileSync(join(dir, 'config'), documentedLines('s3cmd', targetOf()));
      writeTree(join(dir, 'tree'), tree);
    });

    afterAll(() => rmSync(dir, { recursive: true, force: true }));

    it('syncs a tree up and down, and removes what is gone', { timeout: timeoutMs }, async () => {
      await run('mb', 's3://s3cmd-sync');
      await run('sync', `${join(dir, 'tree')}/`, 's3://s3cmd-sync/tree/');
      expect(await run('sync', `${join(dir, 'tree')}/`, 's3://s3cmd-sync/tree/')).toBe('');
      await run('sync', 's3://s3cmd-sync/tree/', `${join(dir, 'down')}/`);
      expect(digestTree(join(dir, 'down'))).toEqual(digestTree(join(dir, 'tree')));
      await run('sync', '--delete-removed', `${join(dir, 'tree/dir')}/`, 's3://s3cmd-sync/tree/');
      expect((await run('ls', '--recursive', 's3://s3cmd-sync')).match(/s3:.*/g)).toEqual([
        's3://s3cmd-sync/tree/deeper/large.bin',
        's3://s3cmd-sync/tree/with space+plus%20percent.txt',
        's3://s3cmd-sync/tree/ünï©ødé-文字.txt',
      ]);
      await run('rb', '--recursive', '--force', 's3://s3cmd-sync');
      expect(await run('ls')).not.toMatch(/s3cmd-sync/);
    });

    it('puts in parts, copies, moves, and says what it knows', { timeout: timeoutMs }, async () => {
      const content = seededBytes(72, 12 * MiB + 1);
      writeFileSync(join(dir, 'large.bin'), content);
      await run('mb', 's3://s3cmd-parts');
      const put = ['put', '--multipart-chunk-size-mb=5', '--add-header=x-amz-meta-colour:blue'];
      await run(...put, join(dir, 'large.bin'), 's3://s3cmd-parts/large.bin');
      await run('cp', 's3://s3cmd-parts/large.bin', 's3://s3cmd-parts/dir/copied.bin');
      await run('mv', 's3://s3cmd-parts/dir/copied.bin', 's3://s3cmd-parts/moved.bin');
      await run('get', 's3://s3cmd-parts/moved.bin', join(dir, 'parts.bin'));
      expect(digestTree(dir)['parts.bin']).toBe(sha256Hex(content));
      expect(await run('info', 's3://s3cmd-parts/moved.bin')).toMatch(/x-amz-meta-colour: blue/);
      expect(await run('du', 's3://s3cmd-parts')).toMatch(new RegExp(`^ *${2 * content.length} `));
      expect(await run('multipart', 's3://s3cmd-parts')).not.toMatch(/large/);
    });

    it('says all that is set on a bucket', { timeout: timeoutMs }, async () => {
      await run('mb', 's3://s3cmd-info');
      await run('setversioning', 's3://s3cmd-info', 'enable');
      await run('expire', '--expiry-days=3', '--expiry-prefix=logs/', 's3://s3cmd-info');
      const rule =
        '<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin></CORSRule>';
      writeTree(dir, { 'cors.xml': `<CORSConfiguration>${rule}</CORSConfiguration>` });
      await run('setcors', join(dir, 'cors.xml'), 's3://s3cmd-info');
      await run('settagging', 's3://s3cmd-info', 'team=a&kind=b');
      const told = await run('info', 's3://s3cmd-info');
      expect(told).toMatch(/Location: +us-east-1/);
      expect(told).toMatch(/Versioning:.*[Ee]nabled/);
      expect(told).toMatch(/Expiration.*logs\//);
      expect(told).toMatch(/CORS:.*AllowedOrigin>\*/s);
      expect(await run('gettagging', 's3://s3cmd-info')).toMatch(/team:\s+a/);
      await run('delcors', 's3://s3cmd-info');
      await run('dellifecycle', 's3://s3cmd-info');
      expect(await run('info', 's3://s3cmd-info')).toMatch(/CORS: +none/);
    });
  });
});
