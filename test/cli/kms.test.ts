// A gateway whose key file is protected by a KMS, against a real server of another make.
import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CreateKeyCommand, KMSClient } from '@aws-sdk/client-kms';
import {
  CopyObjectCommand,
  CreateBucketCommand,
  GetBucketEncryptionCommand,
  HeadObjectCommand,
  PutBucketEncryptionCommand,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { wrapByKms } from '#bursar/core/kms.js';
import { type Fault, FaultProxy } from '../tooling/fault-proxy.ts';
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
  /** What KMS says: an error of this name, or this document. */
  const answer = (status: number, said: string, message = 'refused'): Fault => ({
    ...{ kind: 'lie', status, headers: { 'content-type': 'application/x-amz-json-1.1' } },
    body: status === 200 ? said : JSON.stringify({ __type: said, message }),
  });
  const keyFile = () => readFileSync(join(place.data, 'keys', 'root-keys.json'), 'utf8');

  it('holds no key that opens anything, and serves again after a start', async () => {
    cpSync(left.data, place.data, { recursive: true });
    const { keys } = JSON.parse(keyFile()) as { keys: Record<string, unknown>[] };
    expect(keys.map(({ key }) => key)).toEqual([undefined, undefined]);
    await place.serve(flags(), kmsCredentials);
    expect((await place.run(['keys', 'list'])).stdout.split(keyArn)).toHaveLength(3);
  });

  it('is what aws:kms means, for objects and buckets', async () => {
    cpSync(left.data, place.data, { recursive: true });
    const served = await place.serve(flags(), kmsCredentials);
    const s3 = new S3Client({
      ...{ endpoint: served.endpoint, region: 'us-east-1', forcePathStyle: true },
      credentials: await fromIni(place.data),
    });
    const Bucket = 'kms';
    await s3.send(new CreateBucketCommand({ Bucket }));
    const put = { Bucket, Key: 'k', Body: 'x' };
    const asked = { ServerSideEncryption: 'aws:kms', BucketKeyEnabled: true } as const;
    const said = { ...asked, SSEKMSKeyId: keyArn };
    expect(await s3.send(new PutObjectCommand({ ...put, ...asked }))).toMatchObject(said);
    expect(await s3.send(new HeadObjectCommand({ Bucket, Key: 'k' }))).toMatchObject(said);
    const others = { ...put, ...asked, SSEKMSKeyId: 'alias/others' };
    await expect(s3.send(new PutObjectCommand(others))).rejects.toMatchObject({
      name: 'InvalidArgument',
    });
    const rule = {
      ApplyServerSideEncryptionByDefault: {
        SSEAlgorithm: 'aws:kms' as const,
        KMSMasterKeyID: keyArn,
      },
      BucketKeyEnabled: false,
    };
    const ServerSideEncryptionConfiguration = { Rules: [rule] };
    await s3.send(new PutBucketEncryptionCommand({ Bucket, ServerSideEncryptionConfiguration }));
    expect(await s3.send(new GetBucketEncryptionCommand({ Bucket }))).toMatchObject({
      ServerSideEncryptionConfiguration,
    });
    const byBucket = await s3.send(new PutObjectCommand({ ...put, Key: 'by-bucket' }));
    expect(byBucket).toMatchObject({ ServerSideEncryption: 'aws:kms', SSEKMSKeyId: keyArn });
    const copy = {
      Bucket,
      Key: 'aes',
      CopySource: 'kms/k',
      ServerSideEncryption: 'AES256',
    } as const;
    expect(await s3.send(new CopyObjectCommand(copy))).toMatchObject({
      ServerSideEncryption: 'AES256',
    });
    s3.destroy();
    await served.stop();
  });

  it('goes into a backup as KMS has wrapped it, and back with KMS alone', async () => {
    cpSync(left.data, place.data, { recursive: true });
    const at = (name: string) => join(place.folder, name);
    const given = [...flags(), '--json'];
    const backedUp = ['backup', 'create', at('place'), '--with-keys', '--data', place.data];
    const made = await place.run([...backedUp, ...given], kmsCredentials);
    expect(made.code, made.stderr).toBe(0);
    expect(JSON.parse(made.stdout)).toMatchObject({ keys: 'kms' });
    const back = ['restore', at('place'), '--data', at('back')];
    const without = await place.run(back);
    expect(without.code).toBe(1);
    const restored = await place.run([...back, ...given], kmsCredentials);
    expect(restored.code, restored.stderr).toBe(0);
    expect(readFileSync(at('back/keys/root-keys.json'), 'utf8')).toBe(keyFile());
    const served = await place.serve(['--data', at('back'), ...flags()], kmsCredentials);
    expect(await served.stop()).toBe(0);
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

  it('goes on under its old key when a new one would not come back', async () => {
    cpSync(left.data, place.data, { recursive: true });
    const before = keyFile();
    const proxy = await FaultProxy.start(Number(new URL(server.endpoint).port));
    let served = await place.serve(flags(proxy.endpoint), kmsCredentials);
    const failsFor = (operation: string, fault: Fault) => {
      proxy.choose = ({ headers }) =>
        headers['x-amz-target'] === `TrentService.${operation}` ? fault : undefined;
    };
    const rotate = () => place.run(['keys', 'rotate']);
    const shown: string[] = [];
    const expectRefused = async () => {
      const { code, stderr } = await rotate();
      shown.push(stderr);
      expect(code).toBe(1);
      expect(stderr).toMatch(/^bursar: [^\n]*KMS does not wrap a new root key: [^\n]*\n$/);
      expect(keyFile()).toBe(before);
    };
    // Whoever may encrypt need not be allowed to decrypt.
    failsFor('Decrypt', answer(400, 'AccessDeniedException'));
    await expectRefused();
    failsFor('Encrypt', answer(400, 'ThrottlingException'));
    await expectRefused();
    const other = { Plaintext: Buffer.alloc(32, 1).toString('base64'), KeyId: keyArn };
    failsFor('Decrypt', answer(200, JSON.stringify(other)));
    await expectRefused();
    // Killed while KMS has wrapped the key and not yet given it back.
    failsFor('Decrypt', { kind: 'stall', at: 'answer' });
    const asked = rotate();
    await vi.waitFor(() => expect(proxy.faults.stall).toBe(1), 20_000);
    shown.push(served.stdout(), served.stderr());
    await served.stop('SIGKILL');
    expect((await asked).code).toBe(1);
    expect(keyFile()).toBe(before);
    for (const text of shown) expect(text).not.toContain(kmsCredentials.AWS_SECRET_ACCESS_KEY);
    // Another key than that of its epoch opens nothing, and is told apart.
    failsFor('Decrypt', answer(200, JSON.stringify(other)));
    const listen = ['serve', '--listen', '127.0.0.1:0', ...flags(proxy.endpoint)];
    const refused = await place.run(listen, kmsCredentials);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/^bursar: [^\n]+\n$/);
    proxy.choose = () => undefined;
    served = await place.serve(flags(proxy.endpoint), kmsCredentials);
    expect(JSON.parse((await place.run(['keys', 'rotate', '--json'])).stdout)).toMatchObject({
      epoch: 3,
    });
    await served.stop();
    await proxy.stop();
  });

  it.each<Fault>([
    { kind: 'stall', at: 'answer' },
    { kind: 'stall', at: 'download', afterBytes: 10 },
  ])('is not waited for when KMS stalls (%o)', async (fault) => {
    const proxy = await FaultProxy.start(Number(new URL(server.endpoint).port));
    const { region } = server;
    vi.stubEnv('AWS_ACCESS_KEY_ID', kmsCredentials.AWS_ACCESS_KEY_ID);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', kmsCredentials.AWS_SECRET_ACCESS_KEY);
    const options = { keyId: keyArn, region, endpoint: proxy.endpoint, answerMsMax: 200 };
    proxy.choose = () => fault;
    await expect(wrapByKms(options).wrap(Buffer.alloc(32), 1)).rejects.toThrow();
    vi.unstubAllEnvs();
    await proxy.stop();
  });

  it.each([
    ['disabled', 'DisabledException'],
    ['about to be deleted', 'KMSInvalidStateException'],
  ])('goes on while its KMS key is %s, and is not started by it', async (_title, code) => {
    cpSync(left.data, place.data, { recursive: true });
    const before = keyFile();
    const proxy = await FaultProxy.start(Number(new URL(server.endpoint).port));
    const served = await place.serve(flags(proxy.endpoint), kmsCredentials);
    // moto itself has keys do their work in any state.
    proxy.choose = () => answer(400, code);
    const rotated = await place.run(['keys', 'rotate']);
    expect(rotated).toMatchObject({ code: 1, stdout: '' });
    expect(rotated.stderr).toMatch(/KMS does not wrap a new root key/);
    expect((await place.run(['tenant', 'create', 'cms'])).code).toBe(0);
    expect(await served.stop()).toBe(0);
    const listen = ['serve', '--listen', '127.0.0.1:0', ...flags(proxy.endpoint)];
    const refused = await place.run(listen, kmsCredentials);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/^bursar: [^\n]*cannot be unwrapped: [^\n]*\n$/);
    expect(keyFile()).toBe(before);
    proxy.choose = () => undefined;
    await place.serve(flags(proxy.endpoint), kmsCredentials);
    expect((await place.run(['tenant', 'list'])).stdout).toContain('cms');
    await proxy.stop();
  });

  it.each<[string, Fault]>([
    ['denies it', answer(400, 'AccessDeniedException')],
    ['is asked too often', answer(400, 'ThrottlingException')],
    ['is no KMS', { kind: 'portal' }],
    ['does not speak HTTP', { kind: 'garbage' }],
    ['gives nothing', answer(200, '{}')],
    ['gives a key of another length', answer(200, JSON.stringify({ Plaintext: 'AAAA' }))],
    ['says what a terminal would obey', answer(400, 'OddException', '\u001b[2J\u0007\u202e')],
  ])('is not opened by a KMS that %s, and is left as it is', async (_title, fault) => {
    cpSync(left.data, place.data, { recursive: true });
    const before = keyFile();
    const proxy = await FaultProxy.start(Number(new URL(server.endpoint).port));
    proxy.choose = () => fault;
    const listen = ['serve', '--listen', '127.0.0.1:0', ...flags(proxy.endpoint)];
    const refused = await place.run(listen, kmsCredentials);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(
      /^bursar: [^\p{Cc}\p{Cf}]*root key of epoch 1[^\p{Cc}\p{Cf}]*\n$/u,
    );
    expect(keyFile()).toBe(before);
    await proxy.stop();
  });

  it('is opened when KMS answers at the second or third time', async () => {
    cpSync(left.data, place.data, { recursive: true });
    const proxy = await FaultProxy.start(Number(new URL(server.endpoint).port));
    let asked = 0;
    proxy.choose = () => (asked++ < 2 ? answer(400, 'ThrottlingException') : undefined);
    const served = await place.serve(flags(proxy.endpoint), kmsCredentials);
    expect(await served.stop()).toBe(0);
    await proxy.stop();
  });

  it('is not made when KMS cannot be reached', async () => {
    const listen = ['serve', '--listen', '127.0.0.1:0'];
    const refused = await place.run([...listen, ...flags('http://127.0.0.1:1')], kmsCredentials);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/^bursar: [^\n]*KMS[^\n]*\n$/);
    expect(keyFile).toThrow('ENOENT');
  });
});

/** The operator's key, from the file that the first start wrote. */
async function fromIni(data: string): Promise<{ accessKeyId: string; secretAccessKey: string }> {
  const text = readFileSync(join(data, 'credentials'), 'utf8');
  const settingOf = (name: string) => new RegExp(`${name} *= *(\\S+)`).exec(text)?.[1] ?? '';
  return {
    accessKeyId: settingOf('aws_access_key_id'),
    secretAccessKey: settingOf('aws_secret_access_key'),
  };
}
