// A gateway whose key file is protected by a KMS, against a real server of another make.
import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CreateKeyCommand, KMSClient } from '@aws-sdk/client-kms';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { type KmsServer, kmsCredentials, startKms } from '../tooling/kms-server.ts';
import { describeWithTool, motoPython } from '../tooling/tools.ts';
import { Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 90_000 });

describeWithTool(motoPython, 'a key file protected by KMS', (python) => {
  let server: KmsServer;
  let keyArn: string;
  let place: Workplace;
  /** What a gateway left that was configured with it. */
  let left: Workplace;

  beforeAll(async () => {
    server = await startKms(python);
    const { endpoint, region } = server;
    const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } =
      kmsCredentials;
    const credentials = { accessKeyId, secretAccessKey };
    const client = new KMSClient({ endpoint, region, credentials });
    const { KeyMetadata } = await client.send(new CreateKeyCommand({}));
    keyArn = String(KeyMetadata?.Arn);
    client.destroy();
    left = new Workplace();
    const served = await left.serve(flags(), kmsCredentials);
    const rotated = await left.run(['keys', 'rotate', '--json']);
    expect(JSON.parse(rotated.stdout)).toMatchObject({ epoch: 2, wrappedBy: keyArn });
    expect(await served.stop()).toBe(0);
  });

  afterAll(async () => {
    await left?.remove();
    await server?.stop();
  });

  beforeEach(() => {
    place = new Workplace();
  });

  afterEach(() => place.remove());

  const flags = (endpoint = server.endpoint) => [
    ...['--kms-key', keyArn, '--kms-region', server.region, '--kms-endpoint', endpoint],
  ];
  const keyFile = () => readFileSync(join(place.data, 'keys', 'root-keys.json'), 'utf8');

  it('holds no key that opens anything, and serves again after a start', async () => {
    cpSync(left.data, place.data, { recursive: true });
    const { keys } = JSON.parse(keyFile()) as { keys: Record<string, unknown>[] };
    expect(keys.map(({ key }) => key)).toEqual([undefined, undefined]);
    await place.serve(flags(), kmsCredentials);
    expect((await place.run(['keys', 'list'])).stdout.split(keyArn)).toHaveLength(3);
  });

  it('wraps what is new when it is configured later', async () => {
    await (await place.serve()).stop();
    await place.serve(flags(), kmsCredentials);
    await place.run(['keys', 'rotate']);
    const { stdout } = await place.run(['keys', 'list', '--json']);
    expect(JSON.parse(stdout)).toMatchObject([{ wrappedBy: null }, { wrappedBy: keyArn }]);
  });

  it('is refused without KMS, and while it cannot be reached, and is left as it is', async () => {
    cpSync(left.data, place.data, { recursive: true });
    const before = keyFile();
    const listen = ['serve', '--listen', '127.0.0.1:0'];
    const without = await place.run(listen);
    expect(without).toMatchObject({ code: 1, stdout: '' });
    expect(without.stderr).toMatch(/^bursar: [^\n]*wrapped by KMS, and no KMS key is [^\n]*\n$/);
    const nowhere = await place.run([...listen, ...flags('http://127.0.0.1:1')], kmsCredentials);
    expect(nowhere).toMatchObject({ code: 1, stdout: '' });
    expect(nowhere.stderr).toMatch(
      /^bursar: [^\n]*cannot be unwrapped: [^\n]*ECONNREFUSED[^\n]*\n$/,
    );
    expect(keyFile()).toBe(before);
  });

  it('is not made when KMS cannot be reached', async () => {
    const listen = ['serve', '--listen', '127.0.0.1:0'];
    const refused = await place.run([...listen, ...flags('http://127.0.0.1:1')], kmsCredentials);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/^bursar: [^\n]*KMS[^\n]*\n$/);
    expect(keyFile).toThrow('ENOENT');
  });
});
