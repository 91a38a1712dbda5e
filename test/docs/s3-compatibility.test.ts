// docs/s3-compatibility.md against the AWS SDK's list of actions and a served gateway.
import * as sdk from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { signRequest, unsignedPayload } from '#bursar/core/sigv4.js';
import { operations } from '#bursar/gateway/s3/routes.js';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { readPage, rowsOf, sectionOf } from './markdown.ts';

const { text } = readPage('docs/s3-compatibility.md');
const works = rowsOf(sectionOf(text, 'Works'));
const refused = rowsOf(sectionOf(text, 'Answers 501 `NotImplemented`'));
const mistaken = rowsOf(sectionOf(text, 'Not told apart'));
const namesOf = (rows: string[][]): string[] => rows.map(([name]) => String(name));

let gateway: ServedGateway;

beforeAll(async () => {
  gateway = await startServedGateway();
  await ask('PUT /BUCKET');
  await ask('PUT /BUCKET/KEY');
}, 60_000);

afterAll(() => gateway.stop());

describe('the tables of S3 actions', () => {
  it('have each action of the AWS SDK once', () => {
    const commands = Object.keys(sdk)
      .filter((name) => /^[A-Z]\w+Command$/.test(name))
      .map((name) => name.replace(/Command$/, ''));
    expect(commands.length).toBeGreaterThan(100);
    expect(namesOf([...works, ...refused, ...mistaken]).sort()).toEqual(commands.sort());
  });

  it('say that works what has an operation, and nothing else', () => {
    expect(namesOf(works).sort()).toEqual(operations.map(({ name }) => name).sort());
  });

  it.each(refused)('promise that %s answers 501', async (_name = '', request = '') => {
    expect((await ask(request)).status).toBe(501);
  });

  it.each(mistaken)('warn of nothing that is refused by now: %s', async (_name, request = '') => {
    expect((await ask(request)).status).not.toBe(501);
  });
});

/** Sends what a table says is asked, `GET /BUCKET?acl`, signed by the operator. */
function ask(request: string): Promise<Response> {
  const [method = '', target = ''] = request.split(' ');
  const { accessKeyId, secretAccessKey: secret, endpoint } = gateway;
  const url = new URL(target.replace('BUCKET', 'documented').replace('KEY', 'key'), endpoint);
  const headers = signRequest({
    method,
    path: url.pathname,
    query: [...url.searchParams],
    headers: { host: url.host },
    accessKeyId,
    secret,
    region: 'us-east-1',
    service: 's3',
    payloadHash: unsignedPayload,
    timeMs: Date.now(),
  });
  return fetch(url, { method, headers });
}
