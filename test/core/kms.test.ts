// Root keys wrapped by a KMS, against a real server of another make.
import { CreateAliasCommand, CreateKeyCommand, KMSClient } from '@aws-sdk/client-kms';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { wrapByKms } from '#bursar/core/kms.js';
import { type KmsServer, kmsCredentials, startKms } from '../tooling/kms-server.ts';
import { describeWithTool, motoPython } from '../tooling/tools.ts';

const timeoutMs = 90_000;

describeWithTool(motoPython, 'wrapping by KMS', (python) => {
  let server: KmsServer;
  let client: KMSClient;
  let keyId: string;

  beforeAll(async () => {
    for (const [name, value] of Object.entries(kmsCredentials)) vi.stubEnv(name, value);
    vi.stubEnv('AWS_CA_BUNDLE', '');
    server = await startKms(python);
    client = new KMSClient({ endpoint: server.endpoint, region: server.region });
    keyId = await makeKey();
    const alias = new CreateAliasCommand({ AliasName: 'alias/bursar', TargetKeyId: keyId });
    await client.send(alias);
  }, timeoutMs);

  afterAll(async () => {
    client?.destroy();
    await server?.stop();
    vi.unstubAllEnvs();
  }, timeoutMs);

  async function makeKey(): Promise<string> {
    const { KeyMetadata } = await client.send(new CreateKeyCommand({}));
    return String(KeyMetadata?.KeyId);
  }

  const wrapping = (id: string) =>
    wrapByKms({ keyId: id, region: server.region, endpoint: server.endpoint });
  const key = Buffer.alloc(32, 7);

  it('a key that was wrapped under an alias opens again, and names its key by ARN', async () => {
    const wrapped = await wrapping('alias/bursar').wrap(key, 1);
    expect(wrapped.keyId).toMatch(new RegExp(`^arn:aws:kms:${server.region}:.*/${keyId}$`));
    expect(wrapped.region).toBe(server.region);
    expect(wrapped.wrapped.includes(key)).toBe(false);
    expect(await wrapping('alias/bursar').unwrap(wrapped, 1)).toEqual(key);
  });

  it('a wrapped key still opens when another key is configured for new ones', async () => {
    const wrapped = await wrapping(keyId).wrap(key, 1);
    expect(await wrapping(await makeKey()).unwrap(wrapped, 1)).toEqual(key);
  });

  it('a wrapped key does not open as the key of another epoch', async () => {
    const wrapped = await wrapping(keyId).wrap(key, 1);
    await expect(wrapping(keyId).unwrap(wrapped, 2)).rejects.toThrow();
  });

  it('a wrapped key does not open once it was altered, or under another key', async () => {
    const wrapped = await wrapping(keyId).wrap(key, 1);
    const altered = Buffer.from(wrapped.wrapped);
    altered[altered.length - 1] = (altered.at(-1) as number) ^ 1;
    await expect(wrapping(keyId).unwrap({ ...wrapped, wrapped: altered }, 1)).rejects.toThrow();
  });

  it('a key that is not there is an error, for wrapping and for unwrapping', async () => {
    const missing = '00000000-0000-4000-8000-000000000000';
    await expect(wrapping(missing).wrap(key, 1)).rejects.toThrow(/NotFound|does not exist/i);
  });
});
