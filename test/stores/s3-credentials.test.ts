import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { CredentialSource, type Credentials } from '#bursar/tiering/stores/s3/credentials.js';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { startOddServer } from './odd-s3-server.ts';
import { type S3Rig, startS3Rig } from './s3-rig.ts';

vi.setConfig({ testTimeout: 60_000 });

const minuteMs = 60_000;

function expiringIn(ms: number, name = 'key'): Credentials {
  const expiration = new Date(Date.now() + ms);
  return { accessKeyId: name, secretAccessKey: 'secret', expiration };
}

describe('the credentials of a store', () => {
  it('are asked for once, however many wait for them', async () => {
    const load = vi.fn(async () => expiringIn(60 * minuteMs));
    const source = new CredentialSource(load);
    const [first] = await Promise.all([source.refresh(), source.refresh(), source.refresh()]);
    expect(source.current).toBe(first);
    expect(load).toHaveBeenCalledTimes(1);
  });

  it('that do not end are never asked for again', async () => {
    const load = vi.fn(async () => ({ accessKeyId: 'key', secretAccessKey: 'secret' }));
    const source = new CredentialSource(load);
    await source.refresh();
    for (let i = 0; i < 10; i++) expect(source.current?.accessKeyId).toBe('key');
    expect(load).toHaveBeenCalledTimes(1);
  });

  it('are renewed in the background before they end, and used meanwhile', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    try {
      const given = [expiringIn(10 * minuteMs, 'old'), expiringIn(60 * minuteMs, 'new')];
      const source = new CredentialSource(async () => given.shift() as Credentials);
      await source.refresh();
      vi.setSystemTime(Date.now() + 6 * minuteMs);
      expect(source.current?.accessKeyId).toBe('old');
      await new Promise((resolve) => setImmediate(resolve));
      expect(source.current?.accessKeyId).toBe('new');
      expect(given).toEqual([]);
    } finally {
      vi.useRealTimers();
    }
  });

  it('are not used any more when they end at once, and the reason is told', async () => {
    const load = vi.fn(async () => expiringIn(1000));
    const source = new CredentialSource(load);
    await source.refresh();
    expect(source.current).toBeUndefined();
    load.mockRejectedValue(new Error('no answer from the metadata service'));
    await expect(source.refresh()).rejects.toMatchObject({
      name: 'AttemptFailure',
      reason: 'credentials',
      message: 'no credentials: no answer from the metadata service',
    });
  });

  it('that the server refused are asked for anew, past what the source remembers', async () => {
    const asked: boolean[] = [];
    const source = new CredentialSource(async (again) => {
      asked.push(again);
      return expiringIn(60 * minuteMs, again ? 'new' : 'old');
    });
    const old = await source.refresh();
    source.invalidate(old);
    expect(source.current).toBeUndefined();
    await source.refresh();
    // Another request with the old ones is answered late.
    source.invalidate(old);
    expect(source.current?.accessKeyId).toBe('new');
    expect(asked).toEqual([false, true]);
  });
});

/** The metadata service of an instance (version 2) that has a role. */
async function startMetadata(
  tokenOfRole: () => string,
): Promise<{ endpoint: string; stop(): Promise<void> }> {
  const server = createServer((request, response) => {
    const { method, url, headers } = request;
    if (method === 'PUT' && url === '/latest/api/token') response.end('imds-token');
    else if (headers['x-aws-ec2-metadata-token'] !== 'imds-token') response.writeHead(401).end();
    else if (url?.endsWith('/security-credentials/')) response.end('role');
    else if (url?.endsWith('/security-credentials/role')) {
      const role = {
        Code: 'Success',
        Type: 'AWS-HMAC',
        AccessKeyId: 'key of the role',
        SecretAccessKey: 'secret',
        Token: tokenOfRole(),
        Expiration: new Date(Date.now() + 60 * minuteMs).toISOString(),
      };
      response.end(JSON.stringify(role));
    } else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

describeWithTool(versitygw, "the AWS SDK's chain of credentials", (path) => {
  const names = [
    'AWS_ACCESS_KEY_ID',
    'AWS_SECRET_ACCESS_KEY',
    'AWS_SESSION_TOKEN',
    'AWS_PROFILE',
    'AWS_CONFIG_FILE',
    'AWS_SHARED_CREDENTIALS_FILE',
    'AWS_EC2_METADATA_DISABLED',
    'AWS_EC2_METADATA_SERVICE_ENDPOINT',
  ];
  const saved = new Map<string, string | undefined>();
  const dir = mkdtempSync(join(tmpdir(), 's3-credentials-'));
  let rig: S3Rig;

  beforeAll(async () => {
    rig = await startS3Rig(path);
  });
  afterAll(async () => {
    await rig?.stop();
    rmSync(dir, { recursive: true });
  });
  beforeEach(() => {
    for (const name of names) {
      saved.set(name, process.env[name]);
      delete process.env[name];
    }
    process.env.AWS_CONFIG_FILE = join(dir, 'none');
    process.env.AWS_SHARED_CREDENTIALS_FILE = join(dir, 'none');
    process.env.AWS_EC2_METADATA_DISABLED = 'true';
  });
  afterEach(() => {
    for (const [name, value] of saved) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });

  it('takes them from the environment', async () => {
    process.env.AWS_ACCESS_KEY_ID = rig.backend.credentials.accessKeyId;
    process.env.AWS_SECRET_ACCESS_KEY = rig.backend.credentials.secretAccessKey;
    expect((await rig.open({ credentials: undefined })).state().ready).toBe(true);
  });

  it('takes them from a profile of the shared file', async () => {
    const { accessKeyId, secretAccessKey } = rig.backend.credentials;
    const file = join(dir, 'credentials');
    const lines = [
      `aws_access_key_id = ${accessKeyId}`,
      `aws_secret_access_key = ${secretAccessKey}`,
    ];
    writeFileSync(file, ['[other]', ...lines, ''].join('\n'));
    process.env.AWS_SHARED_CREDENTIALS_FILE = file;
    const store = await rig.open({ credentials: undefined, profile: 'other' });
    expect(store.state().ready).toBe(true);
  });

  it('takes them from the metadata of an EC2 instance, and new ones when they end', async () => {
    let token = 'first token of the role';
    const metadata = await startMetadata(() => token);
    const server = await startOddServer();
    delete process.env.AWS_EC2_METADATA_DISABLED;
    process.env.AWS_EC2_METADATA_SERVICE_ENDPOINT = metadata.endpoint;
    const store = await rig.open({ credentials: undefined, endpoint: server.endpoint });
    expect(store.state().ready).toBe(true);
    expect(server.token).toBe(token);
    server.ended.add(token);
    token = 'second token of the role';
    expect(await store.getObject('none')).toBeUndefined();
    expect(server.token).toBe(token);
    expect(store.state().retries.expired).toBe(1);
    await store.close();
    await Promise.all([server.stop(), metadata.stop()]);
  });

  it('asks for new ones once when they end under many requests, and refuses none', async () => {
    let token = 'first token of the role';
    let asked = 0;
    const metadata = await startMetadata(() => {
      asked++;
      return token;
    });
    const server = await startOddServer();
    delete process.env.AWS_EC2_METADATA_DISABLED;
    process.env.AWS_EC2_METADATA_SERVICE_ENDPOINT = metadata.endpoint;
    const breaker = { failuresMax: 3, pauseMsMin: 1000, pauseMsMax: 1000 };
    const store = await rig.open({ credentials: undefined, endpoint: server.endpoint, breaker });
    const askedToOpen = asked;
    server.ended.add(token);
    token = 'second token of the role';
    const reads = Array.from({ length: 40 }, () => store.getObject('none'));
    expect(await Promise.all(reads)).toEqual(reads.map(() => undefined));
    expect(asked - askedToOpen).toBe(1);
    expect(store.state()).toMatchObject({ breaker: 'closed', retries: { expired: 40 } });
    await store.close();
    await Promise.all([server.stop(), metadata.stop()]);
  });

  it('refuses to open a store when it has none, and says so', async () => {
    await expect(rig.open({ credentials: undefined })).rejects.toThrow('no credentials');
  });
});
