// SigV4A from the making of a key to the record, with AWS's own client code (boto3 with awscrt).
// The gateway learns a public key and a proof; the secret stays in the file that `bursar key new`
// makes.
import { readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Workplace } from '../cli/command.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { awscrtPython, clientEnvironment, describeWithTool, runTool } from '../tooling/tools.ts';

const timeoutMs = 120_000;
const script = resolve(import.meta.dirname, 'boto3-sigv4a.py');

interface Entry {
  action: string;
  key?: string;
  evidence: string;
  keyThumbprint?: string;
  accessKeyId?: string;
}

describeWithTool(awscrtPython, 'boto3 with awscrt', (python) => {
  const place = new Workplace();
  const file = join(place.folder, 'alice.credentials');
  let gateway: ServedGateway;
  let made: { accessKeyId: string; thumbprint: string };

  beforeAll(async () => {
    gateway = await startServedGateway();
    await bursar('principal create default/alice');
    made = JSON.parse(await bursar(`key new --sigv4a --out ${file} --json`));
    await bursar(`key enroll default/alice --key ${file}`);
  }, timeoutMs);

  afterAll(async () => {
    place.remove();
    await gateway?.stop();
  }, timeoutMs);

  async function bursar(line: string): Promise<string> {
    const { code, stdout, stderr } = await place.run(line.split(' '), {
      BURSAR_ENDPOINT: gateway.endpoint,
      BURSAR_ACCESS_KEY_ID: gateway.accessKeyId,
      BURSAR_SECRET_ACCESS_KEY: gateway.secretAccessKey,
    });
    expect(stderr).toBe('');
    expect(code).toBe(0);
    return stdout;
  }

  it('signs by a key whose secret the gateway never had', { timeout: timeoutMs }, async () => {
    const {
      AWS_ACCESS_KEY_ID: _,
      AWS_SECRET_ACCESS_KEY: __,
      ...others
    } = clientEnvironment(gateway);
    const environment = {
      ...others,
      AWS_SHARED_CREDENTIALS_FILE: file,
      AWS_PROFILE: 'bursar',
    };
    await runTool(python, [script, gateway.endpoint], environment);

    const text = await bursar('records --principal default/alice --json');
    const records = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Entry);
    const puts = records.filter(({ action }) => action === 's3:PutObject');
    expect(Object.fromEntries(puts.map(({ key, evidence }) => [key, evidence]))).toEqual({
      'a b/ü+~%2F': 'body-signed',
      copy: 'body-signed',
      'all-regions': 'body-signed',
      unsigned: 'headers-signed',
      presigned: 'headers-signed',
    });
    for (const { accessKeyId, keyThumbprint } of records) {
      expect([accessKeyId, keyThumbprint]).toEqual([made.accessKeyId, made.thumbprint]);
    }
    const secret = /aws_secret_access_key = (\S+)/.exec(readFileSync(file, 'utf8'))?.[1] as string;
    const stored = ['bursar.db', 'bursar.db-wal'].map((name) =>
      readFileSync(join(gateway.dataDir, name)),
    );
    expect(stored.some((bytes) => bytes.includes(made.thumbprint))).toBe(true);
    expect(stored.some((bytes) => bytes.includes(secret))).toBe(false);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });
});
