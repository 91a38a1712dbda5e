// The page of first steps, as a user would follow it: every file is written where the page says,
// every block is run, on a free port and with the operator's keys.
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { awsCli, boto3Python, describeWithTool, rclone } from '../tooling/tools.ts';
import { blocksOf, readPage, root, sectionOf } from './markdown.ts';

const timeoutMs = 120_000;

describeWithTool(awsCli, 'getting started', (aws) => {
  describeWithTool(boto3Python, 'with Python', (python) => {
    describeWithTool(rclone, 'and rclone', (rclonePath) => {
      let gateway: ServedGateway;
      let home: string;

      beforeAll(async () => {
        gateway = await startServedGateway();
        home = mkdtempSync(join(tmpdir(), 'bursar-getting-started-'));
        const main = join(root, 'app/main.js');
        const launchers = {
          aws: `'${aws}'`,
          python3: `'${python}'`,
          rclone: `'${rclonePath}'`,
          // `npx bursar`, in a built clone.
          npx: `shift\n'${process.execPath}' '${main}'`,
        };
        for (const [name, command] of Object.entries(launchers)) {
          // A tool that is a script starts what it starts elsewhere, not this launcher again.
          write(`bin/${name}`, `#!/bin/sh\nPATH='${process.env.PATH}'\n${command} "$@"\n`);
          chmodSync(join(home, 'bin', name), 0o755);
        }
        write('hello.txt', 'hello');
        write('data/one', '1');
      }, timeoutMs);

      afterAll(async () => {
        if (home) rmSync(home, { recursive: true, force: true });
        await gateway?.stop();
      }, timeoutMs);

      function write(path: string, content: string): void {
        mkdirSync(dirname(join(home, path)), { recursive: true });
        writeFileSync(join(home, path), content);
      }

      /** The blocks of a section, with this gateway's address and keys for the page's. */
      function blocks(section: string): string[] {
        const page = readPage('docs/users/getting-started.md').text;
        return blocksOf(sectionOf(page, section)).map(({ code }) =>
          code
            .replaceAll('127.0.0.1:9000', new URL(gateway.endpoint).host)
            .replaceAll('BURXXXXXXXXXXXXXXXXX', gateway.accessKeyId)
            .replaceAll('the-secret', gateway.secretAccessKey)
            .replaceAll('cms/alice', 'default/admin'),
        );
      }

      function run(program: string, args: string[]): Promise<string> {
        const PATH = `${join(home, 'bin')}:${process.env.PATH}`;
        const env = { PATH, HOME: home, AWS_PROFILE: 'bursar', AWS_PAGER: '', NO_PROXY: '*' };
        return new Promise((resolve, reject) => {
          execFile(program, args, { cwd: home, env, timeout: 60_000 }, (error, stdout, stderr) =>
            error ? reject(new Error(`${error.message}\n${stderr}`)) : resolve(stdout),
          );
        });
      }
      const bash = (script: string) => run('bash', ['-e', '-c', script]);

      it('makes a bucket, fills it and shares an object by the AWS CLI', {
        timeout: timeoutMs,
      }, async () => {
        const [credentials = '', config = '', script = ''] = blocks('AWS CLI');
        write('.aws/credentials', credentials);
        write('.aws/config', config);
        const url = (await bash(script)).trimEnd().split('\n').at(-1) ?? '';
        expect(await (await fetch(url)).text()).toBe('hello');
      });

      it('goes on with boto3, with the profile and without', { timeout: timeoutMs }, async () => {
        const [withProfile = '', without = ''] = blocks('boto3');
        const printed = (await run('python3', ['-c', withProfile])).trimEnd().split('\n');
        expect(printed[0]).toBe("b'hello'");
        expect(await (await fetch(printed[1] ?? '')).text()).toBe('hello');
        const read = 'print(s3.get_object(Bucket="first", Key="hello.txt")["Metadata"])';
        expect(await run('python3', ['-c', `${without}${read}`])).toBe("{'run': '42'}\n");
      });

      it('syncs with rclone', { timeout: timeoutMs }, async () => {
        const [config = '', script = ''] = blocks('rclone');
        write('.config/rclone/rclone.conf', config);
        await bash(`${script}rclone lsf bursar:first/data | grep -x one`);
      });

      it('reads, writes, lists and deletes with curl', { timeout: timeoutMs }, async () => {
        const [script = ''] = blocks('curl');
        expect(await bash(script)).toMatch(/^hello<\?xml.*<Key>hello\.txt<\/Key>/s);
        await expect(bash(script.replace('-T hello.txt', '-s'))).rejects.toThrow(/404/);
      });

      it('shows one’s own keys, usage and records', { timeout: timeoutMs }, async () => {
        const [script = ''] = blocks('Your own keys, usage and records');
        const shown = await bash(script);
        expect(shown).toMatch(/default\/admin/);
        expect(shown).toMatch(/s3:DeleteObject +204 +\w+ +first/);
      });
    });
  });
});
