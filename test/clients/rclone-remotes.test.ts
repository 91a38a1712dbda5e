// What rclone does beyond carrying files: both ways at once, encrypted, and with versions. The
// remote is configured as documented.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { digestTree, seededBytes, writeTree } from '../tooling/files.ts';
import { clientEnvironment, describeWithTool, rclone, runTool } from '../tooling/tools.ts';
import { documentedLines } from './documented.ts';
import { describeOnBothStores } from './stores.ts';

const timeoutMs = 240_000;
const MiB = 1024 * 1024;

const tree = {
  plain: 'plain',
  'dir/with space+plus%20percent.txt': 'escaped',
  'dir/ünï©ødé-文字.txt': 'unicode',
  'dir/large.bin': seededBytes(61, 300 * 1024),
};

describeWithTool(rclone, 'rclone', (path) => {
  describeOnBothStores((targetOf) => {
    let dir: string;

    const run = (...args: string[]) => {
      const env = { ...clientEnvironment(targetOf().keys), RCLONE_CONFIG: join(dir, 'conf') };
      return runTool(path, ['--retries', '1', ...args], env);
    };

    beforeAll(async () => {
      dir = mkdtempSync(join(tmpdir(), 'bursar-rclone-'));
      writeTree(join(dir, 'tree'), tree);
      const password = await runTool(path, ['obscure', 'a password'], process.env);
      const crypt = `type = crypt\nremote = bursar:rclone-crypt/in here\npassword = ${password}\n`;
      const lines = documentedLines('rclone', targetOf());
      writeFileSync(join(dir, 'conf'), `${lines}[secret]\n${crypt}`);
    });

    afterAll(() => rmSync(dir, { recursive: true, force: true }));

    it('bisync carries changes of both sides to the other', { timeout: timeoutMs }, async () => {
      const [here, there] = [join(dir, 'bisync'), 'bursar:rclone-bisync/tree'];
      writeTree(here, tree);
      await run('mkdir', there);
      const bisync = ['bisync', here, there, '--workdir', join(dir, 'bisync-state')];
      await run(...bisync, '--resync');
      writeTree(here, { 'dir/new here': 'new here', plain: 'changed here' });
      writeTree(dir, { there: 'new there' });
      await run('copyto', join(dir, 'there'), `${there}/dir/new there`);
      await run('deletefile', `${there}/dir/large.bin`);
      await run(...bisync);
      await run('check', '--download', here, there);
      expect(Object.keys(digestTree(here))).toEqual([
        'dir/new here',
        'dir/new there',
        'dir/with space+plus%20percent.txt',
        'dir/ünï©ødé-文字.txt',
        'plain',
      ]);
    });

    it('keeps an encrypted tree that cryptcheck finds whole', { timeout: timeoutMs }, async () => {
      await run('copy', join(dir, 'tree'), 'secret:');
      await run('cryptcheck', join(dir, 'tree'), 'secret:');
      expect(await run('lsf', '--recursive', 'bursar:rclone-crypt')).not.toMatch(/plain/);
      await run('copy', 'secret:', join(dir, 'decrypted'));
      expect(digestTree(join(dir, 'decrypted'))).toEqual(digestTree(join(dir, 'tree')));
      writeFileSync(join(dir, 'PLAIN'), 'PLAIN');
      await run('copyto', join(dir, 'PLAIN'), 'secret:plain');
      const check = run('cryptcheck', join(dir, 'tree'), 'secret:');
      await expect(check).rejects.toThrow(/1 differences found/);
    });

    it('shows and reads old versions, and cleans them up', { timeout: timeoutMs }, async () => {
      await run('mkdir', 'bursar:rclone-versions');
      await run('backend', 'versioning', 'bursar:rclone-versions', 'Enabled');
      for (const text of ['first', 'second']) {
        writeFileSync(join(dir, 'file.txt'), text);
        await run(
          'copyto',
          '--ignore-times',
          join(dir, 'file.txt'),
          'bursar:rclone-versions/k.txt',
        );
      }
      const list = ['lsf', '--s3-versions', 'bursar:rclone-versions'];
      const listed = (await run(...list)).trimEnd().split('\n');
      expect(listed).toHaveLength(2);
      const old = listed.find((name) => /^k-v[\d-]+\.txt$/.test(name));
      expect(await run('cat', '--s3-versions', `bursar:rclone-versions/${old}`)).toBe('first');
      await run('deletefile', 'bursar:rclone-versions/k.txt');
      expect(await run('lsf', 'bursar:rclone-versions')).toBe('');
      await run('backend', 'cleanup-hidden', 'bursar:rclone-versions');
      expect(await run(...list)).toBe('');
    });

    it('streams, touches, moves, and links what others can fetch', {
      timeout: timeoutMs,
    }, async () => {
      const content = seededBytes(62, 11 * MiB);
      writeFileSync(join(dir, 'stream.bin'), content);
      await run('copyto', '--s3-chunk-size', '5M', join(dir, 'stream.bin'), 'bursar:rclone-odd/k');
      await run('touch', '--timestamp', '2020-02-03T04:05:06', 'bursar:rclone-odd/k');
      await run('moveto', 'bursar:rclone-odd/k', 'bursar:rclone-odd/dir/moved');
      expect(await run('lsf', '--format', 'tsp', '-R', '--files-only', 'bursar:rclone-odd')).toBe(
        `2020-02-03 04:05:06;${11 * MiB};dir/moved\n`,
      );
      const tail = await run('cat', '--tail', '5', 'bursar:rclone-odd/dir/moved');
      expect(tail).toBe(String(content.subarray(-5)));
      const answer = await fetch((await run('link', 'bursar:rclone-odd/dir/moved')).trimEnd());
      expect(answer.status).toBe(200);
      expect(Buffer.from(await answer.arrayBuffer()).equals(content)).toBe(true);
    });
  });
});
