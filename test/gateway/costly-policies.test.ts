// Policies that cost as much as one may: what a bucket's owner lets its requests cost, other
// requests do not wait for.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { exchange, send, startEmbeddedTarget, type Target } from '../protocol/target.ts';

let target: Target;

beforeAll(async () => {
  target = await startEmbeddedTarget();
});

afterAll(() => target?.stop());

it('lets others have their turns while the many keys of one request are decided', async () => {
  const path = '/costly';
  await send(target, { method: 'PUT', path });
  const resources = Array.from({ length: 500 }, (_, i) => `arn:aws:s3:::costly/*ab${i}*`);
  const statement = {
    ...{ Effect: 'Deny', Principal: '*', Action: 's3:DeleteObject' },
    Resource: resources,
  };
  const policy = JSON.stringify({ Version: '2012-10-17', Statement: statement });
  const put = await send(target, { method: 'PUT', path, query: [['policy', '']], body: policy });
  expect(put.status, put.text).toBe(204);
  const keys = Array.from({ length: 400 }, (_, i) => 'a'.repeat(1000) + i);
  const objects = keys.map((key) => `<Object><Key>${key}</Key></Object>`);
  const body = `<Delete><Quiet>true</Quiet>${objects.join('')}</Delete>`;
  let isDone = false;
  const deletion = send(target, { method: 'POST', path, query: [['delete', '']], body });
  void deletion.finally(() => {
    isDone = true;
  });
  // Where nobody had a turn, it would be those few that come before and after the decisions.
  let answered = 0;
  while (!isDone) {
    await exchange(target, 'GET', '/_/health');
    answered += 1;
  }
  expect((await deletion).status).toBe(200);
  expect(answered).toBeGreaterThan(25);
});
