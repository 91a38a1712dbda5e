// Snapshots as unmodified clients read them, through mounts: as buckets, with what they had, while
// the bucket that is really meant goes on.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { callNative, newPrincipal, type Target } from '../protocol/target.ts';
import { digestTree, seededBytes, writeTree } from '../tooling/files.ts';
import {
  awsCli,
  boto3Python,
  clientEnvironment,
  dataPython,
  describeWithTool,
  rclone,
  runTool,
} from '../tooling/tools.ts';
import { type ClientTarget, describeOnLocalStore, describeOnS3Store } from './stores.ts';

const timeoutMs = 240_000;

const tree = {
  'plain.txt': 'plain',
  'empty.bin': '',
  'dir/with space+plus%20percent.txt': 'escaped',
  'dir/ünï©ødé-文字.txt': 'unicode',
  'dir/deeper/large.bin': seededBytes(2, 300 * 1024),
};

/** What the bucket `bucket` of the default tenant is now, as `name` and by a mount of that name. */
async function freeze(
  target: ClientTarget,
  { bucket, name, prefix = '' }: { bucket: string; name: string; prefix?: string },
): Promise<void> {
  const of = '/_/v1/tenants/default';
  const to = { bucketTenant: 'default', bucket, at: name };
  await callNative(target as Target, 'PUT', `${of}/buckets/${bucket}/snapshots/${name}`, {
    prefix,
  });
  await callNative(target as Target, 'PUT', `${of}/mounts/${name}`, to);
}

const scriptAt = (name: string) => join(import.meta.dirname, name);

/** `slow`: also by clients that take long to start. */
function readByClients(targetOf: () => ClientTarget, slow: boolean): void {
  let dir: string;
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'bursar-snapshots-'));
    writeTree(join(dir, 'tree'), tree);
    writeTree(join(dir, 'other'), { ...tree, 'plain.txt': 'other', 'dir/new.txt': 'new' });
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  const wanted = () => digestTree(join(dir, 'tree'));
  const below = (folder: string) =>
    Object.fromEntries(
      Object.entries(wanted()).flatMap(([name, digest]) =>
        name.startsWith(folder) ? [[name.slice(folder.length), digest]] : [],
      ),
    );

  describeWithTool(rclone, 'rclone', (path) => {
    it('checks, syncs and mends by it', { timeout: timeoutMs }, async () => {
      const { endpoint, keys } = targetOf();
      const run = (...args: string[]) => {
        const env = { ...clientEnvironment(keys), RCLONE_CONFIG: '/dev/null' };
        return runTool(path, ['--retries', '1', ...args], env);
      };
      const at = (place: string) =>
        `:s3,provider=Other,env_auth=true,region=us-east-1,endpoint="${endpoint}":${place}`;
      await run('sync', join(dir, 'tree'), at('rclone-raw'));
      await freeze(targetOf(), { bucket: 'rclone-raw', name: 'rclone-then' });
      writeFileSync(join(dir, 'new.txt'), 'another');
      await run('copyto', join(dir, 'new.txt'), at('rclone-raw/plain.txt'));
      await run('delete', at('rclone-raw/dir'));
      await run('check', '--download', join(dir, 'tree'), at('rclone-then'));
      await run('sync', at('rclone-then'), join(dir, 'rclone-down'));
      expect(digestTree(join(dir, 'rclone-down'))).toEqual(wanted());
      await expect(run('check', at('rclone-then'), at('rclone-raw'))).rejects.toThrow();
      await run('sync', at('rclone-then'), at('rclone-raw'));
      await run('check', '--download', join(dir, 'tree'), at('rclone-raw'));
    });
  });

  describeWithTool(boto3Python, 'boto3', (path) => {
    it('reads versions, tags, ranges, parts and attributes as they were', {
      timeout: timeoutMs,
    }, async () => {
      const { endpoint, keys } = targetOf();
      const run = (deed: string) => {
        const args = [scriptAt('mounted-objects.py'), endpoint, deed, 'boto3-raw', 'boto3-then'];
        return runTool(path, args, clientEnvironment(keys));
      };
      await run('write');
      await freeze(targetOf(), { bucket: 'boto3-raw', name: 'boto3-then' });
      await run('read');
      await run('change');
      await run('read');
    });
  });

  if (!slow) return;

  describeWithTool(awsCli, 'AWS CLI', (path) => {
    const awsAs = (keys: ClientTarget['keys'], ...args: string[]) =>
      runTool(path, ['--endpoint-url', targetOf().endpoint, ...args], clientEnvironment(keys));
    const aws = (...args: string[]) => awsAs(targetOf().keys, ...args);

    beforeAll(async () => {
      await aws('s3', 'mb', 's3://cli-raw');
      await aws('s3', 'sync', join(dir, 'tree'), 's3://cli-raw');
      await freeze(targetOf(), { bucket: 'cli-raw', name: 'cli-then' });
      await freeze(targetOf(), { bucket: 'cli-raw', name: 'cli-dir', prefix: 'dir/' });
      await aws('s3', 'sync', join(dir, 'other'), 's3://cli-raw');
      await aws('s3', 'rm', '--recursive', 's3://cli-raw/dir/deeper');
      await aws('s3', 'mv', 's3://cli-raw/empty.bin', 's3://cli-raw/moved.bin');
    }, timeoutMs);

    it('lists, syncs and copies what was', { timeout: timeoutMs }, async () => {
      expect(await aws('s3', 'ls')).toMatch(/ cli-then$/m);
      expect(await aws('s3', 'ls', 's3://cli-then/dir/')).toMatch(/PRE deeper\/$/m);
      const listed = await aws('s3', 'ls', '--recursive', 's3://cli-then');
      expect(listed.trimEnd().split('\n')).toHaveLength(Object.keys(tree).length);
      await aws('s3', 'sync', 's3://cli-then', join(dir, 'cli-down'));
      expect(digestTree(join(dir, 'cli-down'))).toEqual(wanted());
    });

    it('brings all of it back, beside what came since', { timeout: timeoutMs }, async () => {
      await aws('s3', 'sync', '--exact-timestamps', 's3://cli-then/dir', 's3://cli-raw/dir');
      await aws('s3', 'sync', 's3://cli-raw/dir', join(dir, 'cli-dir'));
      const { 'new.txt': added, ...back } = digestTree(join(dir, 'cli-dir'));
      expect([added === undefined, back]).toEqual([false, below('dir/')]);
    });

    it('has of a prefix what is below it', { timeout: timeoutMs }, async () => {
      await aws('s3', 'sync', 's3://cli-dir', join(dir, 'cli-prefix'));
      expect(digestTree(join(dir, 'cli-prefix', 'dir'))).toEqual(below('dir/'));
      const outside = aws('s3', 'cp', 's3://cli-dir/plain.txt', '-');
      await expect(outside).rejects.toThrow(/404|NoSuchKey/);
    });

    it('writes nothing there', { timeout: timeoutMs }, async () => {
      const file = join(dir, 'tree/plain.txt');
      const put = aws('s3', 'cp', file, 's3://cli-then/plain.txt');
      await expect(put).rejects.toThrow('MethodNotAllowed');
      await expect(aws('s3', 'rm', 's3://cli-then/plain.txt')).rejects.toThrow('MethodNotAllowed');
    });

    it('is read in another tenant where a grant on a prefix lets it', {
      timeout: timeoutMs,
    }, async () => {
      const target = targetOf() as Target;
      await callNative(target, 'POST', '/_/v1/tenants', { name: 'atlas' });
      const eve = await newPrincipal(target, { tenant: 'atlas', name: 'eve' });
      const to = { bucketTenant: 'default', bucket: 'cli-raw', at: 'cli-then' };
      await callNative(target, 'PUT', '/_/v1/tenants/atlas/mounts/theirs', to);
      await callNative(target, 'PUT', '/_/v1/tenants/default/grants/eve', {
        ...{ effect: 'allow', actions: ['s3:GetObjectVersion', 's3:ListBucketVersions'] },
        ...{ subjects: ['principal:atlas/eve'], bucket: 'cli-raw', prefix: 'dir' },
      });
      await awsAs(eve, 's3', 'sync', 's3://theirs/dir', join(dir, 'theirs'));
      expect(digestTree(join(dir, 'theirs'))).toEqual(below('dir/'));
      const outside = awsAs(eve, 's3', 'cp', 's3://theirs/plain.txt', '-');
      await expect(outside).rejects.toThrow(/403|AccessDenied/);
      await expect(awsAs(eve, 's3', 'ls', 's3://theirs')).rejects.toThrow('AccessDenied');
    });
  });

  describeWithTool(dataPython, 'pyarrow and pandas', (path) => {
    it('read a table that is frozen, while it is written anew', {
      timeout: timeoutMs,
    }, async () => {
      const { endpoint, keys } = targetOf();
      const run = (deed: string, bucket: string) => {
        const args = [scriptAt('mounted-table.py'), endpoint, deed, bucket];
        return runTool(path, args, clientEnvironment(keys));
      };
      await run('write', 'table-raw');
      await freeze(targetOf(), { bucket: 'table-raw', name: 'table-then' });
      await Promise.all([run('overwrite', 'table-raw'), run('read', 'table-then')]);
    });
  });
}

describeOnLocalStore((targetOf) => readByClients(targetOf, true));
// What reads is the same there but for the bytes. BURSAR_FULL=1 has all clients do it.
describeOnS3Store((targetOf) => readByClients(targetOf, process.env.BURSAR_FULL === '1'));
