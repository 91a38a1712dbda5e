// s5cmd, on the AWS SDK for Go, version 1, with hundreds of requests under way. It is configured as
// documented.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { digestTree, seededBytes, writeTree } from '../tooling/files.ts';
import { clientEnvironment, describeWithTool, runTool, s5cmd } from '../tooling/tools.ts';
import { documentedLines } from './documented.ts';
import { describeOnLocalStore } from './stores.ts';

const timeoutMs = 120_000;
const MiB = 1024 * 1024;

const tree = {
  'plain.txt': 'plain',
  'dir/with space+plus%20percent.txt': 'escaped',
  'dir/ünï©ødé-文字.txt': 'unicode',
  'dir/large.bin': seededBytes(95, 12 * MiB),
  ...Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`many/${n}`, `content ${n}`])),
};

describeWithTool(s5cmd, 's5cmd', (path) => {
  describeOnLocalStore((targetOf) => {
    let dir: string;

    const run = (...args: string[]) => {
      const lines = documentedLines('s5cmd', targetOf());
      const endpoint = /S3_ENDPOINT_URL=(\S+)/.exec(lines)?.[1];
      const env = { ...clientEnvironment(targetOf().keys), S3_ENDPOINT_URL: endpoint };
      return runTool(path, args, env);
    };

    beforeAll(() => {
      dir = mkdtempSync(join(tmpdir(), 'bursar-s5cmd-'));
      writeTree(join(dir, 'tree'), tree);
    });

    afterAll(() => rmSync(dir, { recursive: true, force: true }));

    it('syncs a large tree up and down, and removes what is gone', {
      timeout: timeoutMs,
    }, async () => {
      await run('mb', 's3://s5cmd-sync');
      await run('sync', `${join(dir, 'tree')}/`, 's3://s5cmd-sync/tree/');
      // Times in listings are whole seconds: a file of the same second seems newer.
      const again = ['sync', '--size-only', `${join(dir, 'tree')}/`, 's3://s5cmd-sync/tree/'];
      expect(await run(...again)).toBe('');
      await run('cp', '--part-size', '5', 's3://s5cmd-sync/tree/*', `${join(dir, 'down')}/`);
      expect(digestTree(join(dir, 'down'))).toEqual(digestTree(join(dir, 'tree')));
      await run('sync', '--delete', `${join(dir, 'tree/dir')}/`, 's3://s5cmd-sync/tree/');
      expect((await run('ls', 's3://s5cmd-sync/tree/*')).trimEnd().split('\n')).toHaveLength(3);
      await run('mv', 's3://s5cmd-sync/tree/large.bin', 's3://s5cmd-sync/moved.bin');
      await run('rm', 's3://s5cmd-sync/*');
      await run('rb', 's3://s5cmd-sync');
    });

    it('lists, reads and removes versions', { timeout: timeoutMs }, async () => {
      await run('mb', 's3://s5cmd-versions');
      await run('bucket-version', '--set', 'Enabled', 's3://s5cmd-versions');
      for (const name of ['one', 'two']) {
        writeTree(dir, { [name]: name });
        await run('cp', join(dir, name), 's3://s5cmd-versions/k');
      }
      await run('rm', 's3://s5cmd-versions/k');
      const listed = await run('ls', '--all-versions', 's3://s5cmd-versions/k');
      const ids = [...listed.matchAll(/ 3 +k +(\S+)$/gm)].map(([, id = '']) => id);
      expect(listed.trimEnd().split('\n')).toHaveLength(3);
      const read = ids.map((id) => run('cat', '--version-id', id, 's3://s5cmd-versions/k'));
      expect(await Promise.all(read)).toEqual(['two', 'one']);
      await run('rm', '--all-versions', 's3://s5cmd-versions/*');
      await run('rb', 's3://s5cmd-versions');
    });
  });
});
