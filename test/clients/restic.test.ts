// restic: backups in a bucket, pruned, checked and restored.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { digestTree, seededBytes, writeTree } from '../tooling/files.ts';
import { clientEnvironment, describeWithTool, restic, runTool } from '../tooling/tools.ts';
import { describeOnBothStores } from './stores.ts';

const timeoutMs = 240_000;
const MiB = 1024 * 1024;

const tree = {
  'plain.txt': 'plain',
  'empty.bin': '',
  'dir/ünï©ødé-文字.txt': 'unicode',
  'dir/changes.bin': seededBytes(81, 3 * MiB),
  'dir/stays.bin': seededBytes(82, 20 * MiB),
};

describeWithTool(restic, 'restic', (path) => {
  describeOnBothStores((targetOf) => {
    let dir: string;

    const run = (...args: string[]) => {
      const { endpoint, keys } = targetOf();
      return runTool(path, ['--cache-dir', join(dir, 'cache'), ...args], {
        ...clientEnvironment(keys),
        RESTIC_REPOSITORY: `s3:${endpoint}/restic/in/here`,
        RESTIC_PASSWORD: 'a password',
      });
    };

    beforeAll(() => {
      dir = mkdtempSync(join(tmpdir(), 'bursar-restic-'));
      writeTree(join(dir, 'tree'), tree);
    });

    afterAll(() => rmSync(dir, { recursive: true, force: true }));

    it('backs up, forgets and prunes, finds all data whole, and restores it', {
      timeout: timeoutMs,
    }, async () => {
      await run('init');
      await run('backup', join(dir, 'tree'));
      writeFileSync(join(dir, 'tree/dir/changes.bin'), seededBytes(83, 3 * MiB));
      rmSync(join(dir, 'tree/plain.txt'));
      await run('backup', join(dir, 'tree'));
      const forget = ['forget', '--keep-last', '1', '--prune', '--max-unused', '0'];
      const [told = ''] = (await run(...forget, '--json')).split('\n');
      expect(JSON.parse(told)).toMatchObject([{ keep: [{}], remove: [{}] }]);
      expect(await run('check', '--read-data')).toMatch(/no errors were found/);
      await run('restore', `latest:${join(dir, 'tree')}`, '--target', join(dir, 'restored'));
      expect(digestTree(join(dir, 'restored'))).toEqual(digestTree(join(dir, 'tree')));
    });
  });
});
