// Lifecycle rules in a served gateway whose days last a second, on the local store and on an S3
// store.

import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import {
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteBucketCommand,
  GetObjectCommand,
  type LifecycleRule,
  ListMultipartUploadsCommand,
  ListObjectVersionsCommand,
  PutBucketLifecycleConfigurationCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
  PutObjectTaggingCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { startBackedGateway } from '../fault/backed-gateway.ts';
import { callNative, clientOf, refusalOf, type Target } from '../protocol/target.ts';
import { listFiles } from '../tooling/files.ts';
import { readMetrics, type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

interface Served {
  gateway: ServedGateway;
  /** Where extents lie. */
  extentsDir: string;
  stop(): Promise<void>;
}

const args = ['--lifecycle-day', '1s', '--sweep-interval', '200ms', '--sweep-grace', '0ms'];
const enabled = { Status: 'Enabled', Filter: { Prefix: '' } } as const;
const large = Buffer.alloc(100_000, 'x');
const patience = { timeout: 15_000, interval: 200 };

function describeRules(name: string, serve: () => Promise<Served>): void {
  describe(name, () => {
    let served: Served;
    let target: Target;
    let client: S3Client;

    beforeAll(async () => {
      served = await serve();
      const { endpoint, accessKeyId, secretAccessKey } = served.gateway;
      const keys = { accessKeyId, secretAccessKey };
      target = { endpoint, keys, strayNames: () => [], stop: served.stop };
      client = clientOf(target);
    });
    afterAll(() => served?.stop());

    const make = async (Bucket: string, Status?: 'Enabled' | 'Suspended') => {
      await client.send(new CreateBucketCommand({ Bucket }));
      if (!Status) return;
      const VersioningConfiguration = { Status };
      await client.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
    };
    const put = (Bucket: string, Key: string, Body: Buffer | string = 'x') =>
      client.send(new PutObjectCommand({ Bucket, Key, Body }));
    const setRules = (Bucket: string, ...Rules: LifecycleRule[]) => {
      const LifecycleConfiguration = { Rules };
      const asked = { Bucket, LifecycleConfiguration };
      return client.send(new PutBucketLifecycleConfigurationCommand(asked));
    };
    /** Keys of versions and of markers, with what is shown of each. */
    const list = async (Bucket: string): Promise<string[]> => {
      const listed = await client.send(new ListObjectVersionsCommand({ Bucket }));
      const markers = listed.DeleteMarkers?.map(({ Key }) => `${Key} (marker)`) ?? [];
      return [...(listed.Versions?.map(({ Key }) => `${Key}`) ?? []), ...markers];
    };
    const recordsOf = async (bucket: string) => {
      const query = [['bucket', bucket] as const, ['limit', '1000'] as const];
      const page = await callNative(target, 'GET', '/_/v1/records', undefined, query);
      return (page.records as Record<string, unknown>[]).filter(
        ({ source }) => source === 'bursar serve',
      );
    };

    /** What is told to who follows the bucket, but for what was put. */
    const eventsOf = async (bucket: string): Promise<string[]> => {
      const path = '/_/v1/tenants/default/changes';
      const { Records } = await callNative(target, 'GET', path, undefined, [['bucket', bucket]]);
      const names = Records.map((one: { eventName: string }) => one.eventName);
      return names.filter((name: string) => name !== 'ObjectCreated:Put');
    };

    it('objects that are old enough are gone, their bytes too, and others stay', async () => {
      await make('plain');
      await put('plain', 'old/small');
      await put('plain', 'old/large', large);
      await put('plain', 'kept/small');
      await setRules('plain', {
        ...{ ID: 'r', Status: 'Enabled', Filter: { Prefix: 'old/' }, Expiration: { Days: 1 } },
      });
      await expect.poll(() => list('plain'), patience).toEqual(['kept/small']);
      await put('plain', 'old/again');
      expect(await list('plain')).toContain('old/again');
      await expect.poll(() => list('plain'), patience).toEqual(['kept/small']);
      const ended = (await recordsOf('plain')).filter(({ action }) => action === 's3:ExpireObject');
      expect(ended.map(({ key }) => key).sort()).toEqual(['old/again', 'old/large', 'old/small']);
      expect(ended[0]).toMatchObject({
        ...{ principal: 'admin', bucketOwner: 'admin', evidence: 'none', status: 204 },
        ...{ change: { rule: 'r' } },
      });
      expect(await eventsOf('plain')).toEqual(Array(3).fill('LifecycleExpiration:Delete'));
    });

    it('objects with versioning get a marker, and only older versions go for good', async () => {
      await make('versioned', 'Enabled');
      for (const body of ['1', '2']) await put('versioned', 'a', body);
      await setRules('versioned', { ...enabled, ID: 'r', Expiration: { Days: 1 } });
      const hidden = ['a', 'a', 'a (marker)'];
      await expect.poll(() => list('versioned'), patience).toEqual(hidden);
      const read = client.send(new GetObjectCommand({ Bucket: 'versioned', Key: 'a' }));
      expect(await refusalOf(read)).toEqual({ code: 'NoSuchKey', status: 404 });
      await setRules('versioned', {
        ...{ ...enabled, ID: 'all', NoncurrentVersionExpiration: { NoncurrentDays: 1 } },
        Expiration: { ExpiredObjectDeleteMarker: true },
      });
      await expect.poll(() => list('versioned'), patience).toEqual([]);
      expect(await eventsOf('versioned')).toEqual([
        'LifecycleExpiration:DeleteMarkerCreated',
        ...Array(3).fill('LifecycleExpiration:Delete'),
      ]);
      await client.send(new DeleteBucketCommand({ Bucket: 'versioned' }));
      // Storage is charged at each full hour.
      const ended = (await recordsOf('versioned'))
        .map(({ action }) => action)
        .filter((action) => action !== 'bursar:ChargeStorage');
      expect(ended).toEqual(['s3:CreateDeleteMarker', ...Array(3).fill('s3:ExpireObject')]);
    });

    it('what is suspended keeps no null version under its null marker', async () => {
      await make('suspended', 'Enabled');
      await put('suspended', 'a');
      const VersioningConfiguration = { Status: 'Suspended' } as const;
      const asked = { Bucket: 'suspended', VersioningConfiguration };
      await client.send(new PutBucketVersioningCommand(asked));
      await put('suspended', 'b');
      await setRules('suspended', { ...enabled, ID: 'r', Expiration: { Days: 1 } });
      const left = ['a', 'a (marker)'];
      // The marker of b was alone, so it went as well.
      await expect.poll(() => list('suspended'), patience).toEqual(left);
    });

    it('an upload that nobody completes is aborted, and its bytes are let go of', async () => {
      await make('uploads');
      const at = { Bucket: 'uploads', Key: 'a' };
      const { UploadId } = await client.send(new CreateMultipartUploadCommand(at));
      const part = { ...at, UploadId, PartNumber: 1 };
      await client.send(new UploadPartCommand({ ...part, Body: large }));
      await setRules('uploads', {
        ...{ ...enabled, ID: 'r', AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 } },
      });
      const begun = async () =>
        (await client.send(new ListMultipartUploadsCommand({ Bucket: 'uploads' }))).Uploads ?? [];
      await expect.poll(begun, patience).toEqual([]);
      const again = client.send(new UploadPartCommand({ ...part, Body: 'x' }));
      expect(await refusalOf(again)).toEqual({ code: 'NoSuchUpload', status: 404 });
      expect(await recordsOf('uploads')).toMatchObject([
        { action: 's3:DeleteUpload', target: `uploads/${UploadId}` },
      ]);
    });

    it('tags decide when the time has come, not when the object was written', async () => {
      await make('tagged');
      for (const Key of ['scratch', 'kept']) {
        const asked = { Bucket: 'tagged', Key, Body: 'x', Tagging: 'kind=scratch' };
        await client.send(new PutObjectCommand(asked));
      }
      const Tagging = { TagSet: [{ Key: 'kind', Value: 'kept' }] };
      await client.send(new PutObjectTaggingCommand({ Bucket: 'tagged', Key: 'kept', Tagging }));
      const Filter = { Tag: { Key: 'kind', Value: 'scratch' } };
      await setRules('tagged', { ID: 'r', Status: 'Enabled', Filter, Expiration: { Days: 1 } });
      await expect.poll(() => list('tagged'), patience).toEqual(['kept']);
    });

    it('nothing that ended leaves bytes or work behind, and the metrics count it', async () => {
      // All that is left is small, and on an S3 store an extent of its own.
      const extents = () => (existsSync(served.extentsDir) ? listFiles(served.extentsDir) : []);
      const largeOnes = () => extents().filter((file) => statSync(file).size >= large.length);
      await expect.poll(largeOnes, patience).toEqual([]);
      const outbox = async () => {
        const file = join(served.gateway.dataDir, 'bursar.db');
        const db = openDatabase(file, { readonly: true, cacheKib: 1024 });
        const rows = await db.tx.all('SELECT 1 FROM outbox');
        db.close();
        return rows.length;
      };
      await expect.poll(outbox, patience).toBe(0);
      const text = await readMetrics(target);
      for (const kind of ['current', 'noncurrent', 'uploads']) {
        expect(text).toMatch(new RegExp(`bursar_lifecycle_ends_total\\{kind="${kind}"\\} [1-9]`));
      }
    });
  });
}

describeRules('with lifecycle rules, on the local store', async () => {
  const gateway = await startServedGateway({ args });
  const extentsDir = join(gateway.dataDir, 'extents');
  return { gateway, extentsDir, stop: gateway.stop };
});

describeWithTool(versitygw, 'with versitygw behind the gateway', (path) => {
  describeRules('with lifecycle rules, on an S3 store', async () => {
    const backed = await startBackedGateway({ path, args });
    const { gateway, storeDir, stop } = backed;
    return { gateway, extentsDir: join(storeDir, 'extents'), stop };
  });
});
