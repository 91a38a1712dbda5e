// What users of the AWS CLI ask for with `aws s3api`, and URLs that it signs. Each call takes the
// CLI half a second to start, so a test makes the few that its promise needs.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { digestTree, seededBytes, writeTree } from '../tooling/files.ts';
import { awsCli, clientEnvironment, describeWithTool, runTool } from '../tooling/tools.ts';
import { documentedLines } from './documented.ts';
import { describeOnLocalStore } from './stores.ts';

const timeoutMs = 240_000;
const MiB = 1024 * 1024;

describeWithTool(awsCli, 'AWS CLI, s3api', (path) => {
  describeOnLocalStore((targetOf) => {
    let dir: string;
    let environment: NodeJS.ProcessEnv;

    const aws = (...args: string[]) => runTool(path, args, environment);
    /** One call of `aws s3api`; gives its answer, where it prints one. */
    async function call(operation: string, bucket: string, ...more: string[]) {
      const text = await aws('s3api', operation, '--bucket', bucket, ...more);
      return text === '' ? undefined : JSON.parse(text);
    }
    const file = (name: string, content: string | Uint8Array): string => {
      writeTree(dir, { [name]: content });
      return join(dir, name);
    };

    beforeAll(() => {
      dir = mkdtempSync(join(tmpdir(), 'bursar-s3api-'));
      const target = targetOf();
      const config = file('config', documentedLines('AWS CLI', target));
      const environmentOfTests = clientEnvironment(target.keys);
      environment = { ...environmentOfTests, AWS_CONFIG_FILE: config, AWS_PROFILE: 'bursar' };
    });

    afterAll(() => rmSync(dir, { recursive: true, force: true }));

    it('keeps versions, and undoes a deletion by deleting its marker', {
      timeout: timeoutMs,
    }, async () => {
      await aws('s3', 'mb', 's3://api-versions');
      const enabled = 'Status=Enabled';
      await call('put-bucket-versioning', 'api-versions', '--versioning-configuration', enabled);
      expect(await call('get-bucket-versioning', 'api-versions')).toEqual({ Status: 'Enabled' });
      const k = ['--key', 'a b/k'];
      const put = ['api-versions', ...k, '--body'] as const;
      const first = await call('put-object', ...put, file('1', 'one'));
      const second = await call('put-object', ...put, file('2', 'two'));
      const marker = await call('delete-object', 'api-versions', ...k);
      expect(marker).toMatchObject({ DeleteMarker: true });
      const listed = await call('list-object-versions', 'api-versions');
      expect(listed.Versions).toMatchObject([
        { VersionId: second.VersionId, IsLatest: false },
        { VersionId: first.VersionId, IsLatest: false },
      ]);
      expect(listed.DeleteMarkers).toMatchObject([{ VersionId: marker.VersionId, IsLatest: true }]);
      const one = ['--version-id', first.VersionId, join(dir, 'got')];
      await call('get-object', 'api-versions', ...k, ...one);
      expect(readFileSync(join(dir, 'got'), 'utf8')).toBe('one');
      await call('delete-object', 'api-versions', ...k, '--version-id', marker.VersionId);
      expect(await aws('s3', 'cp', 's3://api-versions/a b/k', '-')).toBe('two');
    });

    it('tags objects and buckets', { timeout: timeoutMs }, async () => {
      await aws('s3', 'mb', 's3://api-tags');
      const k = ['--key', 'k'];
      await call('put-object', 'api-tags', ...k, '--tagging', 'kind=log&a%20b=%2B');
      const { TagSet } = await call('get-object-tagging', 'api-tags', ...k);
      expect(TagSet).toHaveLength(2);
      expect(TagSet).toContainEqual({ Key: 'a b', Value: '+' });
      const kept = { TagSet: [{ Key: 'kind', Value: 'kept' }] };
      await call('put-object-tagging', 'api-tags', ...k, '--tagging', JSON.stringify(kept));
      expect(await call('get-object-tagging', 'api-tags', ...k)).toEqual(kept);
      await call('delete-object-tagging', 'api-tags', ...k);
      await call('put-bucket-tagging', 'api-tags', '--tagging', JSON.stringify(kept));
      expect(await call('get-bucket-tagging', 'api-tags')).toEqual(kept);
    });

    it('is told the attributes of an object in parts', { timeout: timeoutMs }, async () => {
      await aws('s3', 'mb', 's3://api-parts');
      const large = file('large', seededBytes(31, 9 * MiB));
      await aws('s3', 'cp', '--no-progress', large, 's3://api-parts/k');
      const wanted = ['ETag', 'ObjectParts', 'StorageClass', 'ObjectSize'];
      const asked = ['--key', 'k', '--object-attributes', ...wanted];
      expect(await call('get-object-attributes', 'api-parts', ...asked)).toMatchObject({
        ETag: expect.stringMatching(/^[0-9a-f]{32}-2$/),
        ObjectParts: { TotalPartsCount: 2 },
        StorageClass: 'STANDARD',
        ObjectSize: 9 * MiB,
      });
      const second = ['--key', 'k', '--part-number', '2', join(dir, 'part')];
      expect(await call('get-object', 'api-parts', ...second)).toMatchObject({
        ContentLength: MiB,
        PartsCount: 2,
      });
      expect(readFileSync(join(dir, 'part')).equals(readFileSync(large).subarray(8 * MiB))).toBe(
        true,
      );
    });

    it('cannot delete what is locked, but by a bypass', { timeout: timeoutMs }, async () => {
      await call('create-bucket', 'api-lock', '--object-lock-enabled-for-bucket');
      const rule = { DefaultRetention: { Mode: 'GOVERNANCE', Days: 1 } };
      const lock = { ObjectLockEnabled: 'Enabled', Rule: rule };
      const given = ['--object-lock-configuration', JSON.stringify(lock)];
      await call('put-object-lock-configuration', 'api-lock', ...given);
      expect(await call('get-object-lock-configuration', 'api-lock')).toEqual({
        ObjectLockConfiguration: lock,
      });
      const { VersionId } = await call('put-object', 'api-lock', '--key', 'k');
      const version = ['--key', 'k', '--version-id', VersionId];
      const { Retention } = await call('get-object-retention', 'api-lock', ...version);
      expect(Retention.Mode).toBe('GOVERNANCE');
      const hold = (status: string) =>
        call('put-object-legal-hold', 'api-lock', ...version, '--legal-hold', `Status=${status}`);
      const bypass = ['delete-object', 'api-lock', ...version, '--bypass-governance-retention'];
      await expect(call('delete-object', 'api-lock', ...version)).rejects.toThrow(/AccessDenied/);
      await hold('ON');
      await expect(call(...(bypass as [string, string]))).rejects.toThrow(/AccessDenied/);
      await hold('OFF');
      await call(...(bypass as [string, string]));
      await aws('s3', 'rb', 's3://api-lock');
    });

    it('puts and gets lifecycle rules and CORS rules', { timeout: timeoutMs }, async () => {
      await aws('s3', 'mb', 's3://api-rules');
      const life = {
        Rules: [
          {
            Expiration: { Days: 30 },
            ID: 'old logs',
            Filter: { Prefix: 'logs/' },
            Status: 'Enabled',
            AbortIncompleteMultipartUpload: { DaysAfterInitiation: 3 },
          },
        ],
      };
      const rules = ['--lifecycle-configuration', JSON.stringify(life)];
      await call('put-bucket-lifecycle-configuration', 'api-rules', ...rules);
      expect(await call('get-bucket-lifecycle-configuration', 'api-rules')).toMatchObject(life);
      const cors = {
        CORSRules: [{ AllowedMethods: ['GET'], AllowedOrigins: ['*'], MaxAgeSeconds: 60 }],
      };
      await call('put-bucket-cors', 'api-rules', '--cors-configuration', JSON.stringify(cors));
      expect(await call('get-bucket-cors', 'api-rules')).toEqual(cors);
      await call('delete-bucket-cors', 'api-rules');
      await expect(call('get-bucket-cors', 'api-rules')).rejects.toThrow(/NoSuchCORSConfiguration/);
    });

    it('signs URLs that anybody can read', { timeout: timeoutMs }, async () => {
      await aws('s3', 'mb', 's3://api-presign');
      await aws('s3', 'cp', file('shared', 'for anybody'), 's3://api-presign/a b+ü');
      const url = await aws('s3', 'presign', 's3://api-presign/a b+ü', '--expires-in', '60');
      const answer = await fetch(url.trimEnd());
      expect([answer.status, await answer.text()]).toEqual([200, 'for anybody']);
    });

    it('moves a tree from bucket to bucket, and syncs exactly what is there', {
      timeout: timeoutMs,
    }, async () => {
      const tree = { a: '1', 'b c/d+e': '2', 'b c/ü': '3' };
      writeTree(join(dir, 'tree'), tree);
      for (const name of ['from', 'to']) await aws('s3', 'mb', `s3://api-${name}`);
      await aws('s3', 'mv', '--recursive', join(dir, 'tree'), 's3://api-from/tree');
      expect(digestTree(join(dir, 'tree'))).toEqual({});
      await aws('s3', 'mv', '--recursive', 's3://api-from/tree', 's3://api-to/moved');
      writeFileSync(join(dir, 'stray'), 'stray');
      await aws('s3', 'cp', join(dir, 'stray'), 's3://api-from/stray');
      await aws('s3', 'sync', '--delete', 's3://api-to/moved', 's3://api-from');
      await aws('s3', 'sync', '--exclude', 'b c/ü', 's3://api-from', join(dir, 'down'));
      writeTree(join(dir, 'wanted'), { a: '1', 'b c/d+e': '2' });
      expect(digestTree(join(dir, 'down'))).toEqual(digestTree(join(dir, 'wanted')));
    });
  });
});
