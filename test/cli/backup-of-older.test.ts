// The folder of an older release is backed up as it is, as an admin does before an upgrade, and is
// brought up to date where it is restored.
import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it, vi } from 'vitest';
import { S3Client } from '../fault/s3-client.ts';
import { operator, packed010, type What } from '../fixtures/contents-0.1.0.ts';
import { unpackFolder } from '../fixtures/packed-folder.ts';
import { Workplace } from './command.ts';

vi.setConfig({ testTimeout: 120_000 });

const place = new Workplace();
const at = (name: string) => join(place.folder, name);
afterAll(() => place.remove());

it('a backup of a folder of release 0.1.0 is restored as one of this release', async () => {
  unpackFolder(packed010, place.folder);
  mkdirSync(at('data/extents/temporary'), { recursive: true });
  const what = JSON.parse(readFileSync(at('kept/what.json'), 'utf8')) as What;
  const made = await place.run(['backup', 'create', at('place'), '--data', at('data'), '--json']);
  expect(made.code, made.stderr).toBe(0);
  expect(JSON.parse(made.stdout)).toMatchObject({ schema: 3 });
  const verified = await place.run(['backup', 'verify', at('place'), '--data', at('data')]);
  expect(verified.code, verified.stderr).toBe(0);

  mkdirSync(at('back'));
  const keys = ['--data', at('back'), '--json'];
  const keyless = await place.run(['restore', at('place'), ...keys]);
  expect(keyless.stderr).toContain('has no root keys');
  cpSync(at('data/keys'), at('back/keys'), { recursive: true });
  const restored = await place.run(['restore', at('place'), ...keys]);
  expect(restored.code, restored.stderr).toBe(0);
  const served = await place.serve(['--data', at('back')], {
    BURSAR_ROOT_ACCESS_KEY: operator.accessKeyId,
    BURSAR_ROOT_SECRET_KEY: operator.secretAccessKey,
  });
  const client = new S3Client({ endpoint: served.endpoint, ...what.keys.alice });
  const [name = '', content = ''] = Object.entries(what.objects)[0] ?? [];
  const { status, body } = await client.send('GET', `/${name}`);
  expect([status, body.toString('base64')]).toEqual([200, content]);
  client.close();
  expect(await served.stop()).toBe(0);
});
