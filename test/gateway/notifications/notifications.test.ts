// Notifications of buckets as S3 clients set them and webhooks are told them: what is refused, what
// is told to whom, in which order, and what becomes of what a webhook does not take.
import { createHmac } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  as,
  callNative,
  elementOf,
  elementsOf,
  type Message,
  newName,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
} from '../../protocol/target.ts';
import { readMetrics } from '../../tooling/served-gateway.ts';
import { Receiver, status } from '../../tooling/webhook-receiver.ts';

let operator: Target;
let admin: Target;
let alice: Target;
let receiver: Receiver;
let bucket: string;

interface Told {
  eventName: string;
  s3: { configurationId: string; bucket: { name: string }; object: { key: string } };
  userIdentity: { principalId?: string };
  bursar: { index: number };
}

async function ask(who: Target, method: string, path: string, more: Partial<Message> = {}) {
  const answer = await send(who, { ...more, method, path });
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  return answer;
}

const targetPath = (name: string) => `/_/v1/tenants/cms/targets/${name}`;
const arn = (name: string) => `arn:bursar:webhook::cms:${name}`;

async function register(name: string, url = receiver.url): Promise<{ secret: string }> {
  return callNative(admin, 'PUT', targetPath(name), { kind: 'webhook', url });
}

interface Rule {
  id?: string;
  target?: string;
  events?: string[];
  prefix?: string;
  suffix?: string;
}

function documentOf(...rules: Rule[]): string {
  const configurations = rules.map(({ id, target = 'hook', events, prefix, suffix }) => {
    const filters = Object.entries({ prefix, suffix })
      .filter(([, value]) => value !== undefined)
      .map(
        ([name, value]) => `<FilterRule><Name>${name}</Name><Value>${value}</Value></FilterRule>`,
      );
    return `<QueueConfiguration>${id === undefined ? '' : `<Id>${id}</Id>`}
      <Queue>${target.includes(':') ? target : arn(target)}</Queue>
      ${(events ?? ['s3:ObjectCreated:*', 's3:ObjectRemoved:*'])
        .map((event) => `<Event>${event}</Event>`)
        .join('')}
      ${filters.length === 0 ? '' : `<Filter><S3Key>${filters.join('')}</S3Key></Filter>`}
    </QueueConfiguration>`;
  });
  return `<NotificationConfiguration>${configurations.join('')}</NotificationConfiguration>`;
}

function put(who: Target, body: string, of = bucket) {
  return send(who, { method: 'PUT', path: `/${of}`, query: [['notification', '']], body });
}

async function configure(who: Target, ...rules: Rule[]): Promise<void> {
  const answer = await put(who, documentOf(...rules));
  expect(answer.text).toBe('');
}

/** What was told of the bucket, once for each event, in the order in which it came. */
function told(of = bucket): Told[] {
  const all = receiver.received.flatMap(({ body }) => (JSON.parse(body).Records ?? []) as Told[]);
  return all.filter(({ s3 }) => s3.bucket.name === of);
}

const shown = (of = bucket) => told(of).map(({ eventName, s3 }) => `${eventName} ${s3.object.key}`);
const tests = () =>
  receiver.received.map(({ body }) => JSON.parse(body)).filter(({ Event }) => Event);

const patience = { timeout: 60_000 };
const json = { 'content-type': 'application/json' };

beforeAll(async () => {
  operator = await startEmbeddedTarget(['--private-webhooks', '127.0.0.1:*']);
  await callNative(operator, 'POST', '/_/v1/tenants', { name: 'cms' });
  admin = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'ada', role: 'admin' }));
  alice = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'alice' }));
});
afterAll(() => operator.stop());

beforeEach(async () => {
  receiver = new Receiver();
  await receiver.listen();
  bucket = newName('tells');
  await ask(admin, 'PUT', `/${bucket}`);
});
afterEach(async () => {
  await send(admin, { method: 'DELETE', path: targetPath('hook') });
  await receiver.close();
});

describe('what is told', () => {
  it('is signed, in the form of S3, after a test, and no more than was asked for', async () => {
    const { secret } = await register('hook');
    await ask(admin, 'PUT', `/${bucket}/before.txt`, { body: 'x' });
    await configure(admin, { id: 'texts', prefix: 'in/', suffix: '.txt' });
    await ask(admin, 'PUT', `/${bucket}/in/a b.txt`, { body: 'hello' });
    await ask(admin, 'PUT', `/${bucket}/in/b.bin`, { body: 'x' });
    await ask(admin, 'PUT', `/${bucket}/out/c.txt`, { body: 'x' });
    await ask(admin, 'DELETE', `/${bucket}/in/a b.txt`);
    const all = ['ObjectCreated:Put in/a+b.txt', 'ObjectRemoved:Delete in/a+b.txt'];
    await vi.waitFor(() => expect(shown()).toEqual(all), patience);
    const [first] = told();
    expect(first).toMatchObject({
      s3: { configurationId: 'texts', bucket: { name: bucket } },
      userIdentity: { principalId: 'cms/ada' },
    });
    expect(tests()).toMatchObject([
      { Service: 'Amazon S3', Event: 's3:TestEvent', Bucket: bucket },
    ]);
    expect(JSON.parse(receiver.received[0]?.body ?? '').Event).toBe('s3:TestEvent');
    for (const { id, timestamp, body, signature } of receiver.received) {
      const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
      const mac = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
      expect(signature).toBe(`v1,${mac}`);
    }
    const { text } = await ask(admin, 'GET', `/${bucket}`, { query: [['notification', '']] });
    expect(elementOf(text, 'Id')).toBe('texts');
    expect(elementOf(text, 'Queue')).toBe(arn('hook'));
    expect(elementsOf(text, 'Event')).toEqual(['s3:ObjectCreated:*', 's3:ObjectRemoved:*']);
    expect(elementsOf(text, 'Value')).toEqual(['in/', '.txt']);
    await configure(admin);
    const none = await ask(admin, 'GET', `/${bucket}`, { query: [['notification', '']] });
    expect(none.text).toContain('<NotificationConfiguration');
    expect(none.text).not.toContain('QueueConfiguration');
  });

  it('is bounded by the rights of who configured it, as they are when it is told', async () => {
    await register('hook');
    const grant = (prefix: string) => ({
      ...{ effect: 'allow', actions: ['s3:GetObject', 's3:ListBucket'], prefix, bucket },
      subjects: ['principal:cms/alice'],
    });
    await callNative(admin, 'PUT', `/_/v1/tenants/cms/grants/${bucket}-configures`, {
      ...{ effect: 'allow', actions: ['s3:PutBucketNotification'], bucket },
      subjects: ['principal:cms/alice'],
    });
    await callNative(admin, 'PUT', `/_/v1/tenants/cms/grants/${bucket}-reads`, grant('open/'));
    await configure(alice, {});
    await ask(admin, 'PUT', `/${bucket}/closed/a`, { body: 'x' });
    await ask(admin, 'PUT', `/${bucket}/open/b`, { body: 'x' });
    await vi.waitFor(() => expect(shown()).toEqual(['ObjectCreated:Put open/b']), patience);
    expect(told()[0]?.userIdentity).toEqual({});
    await callNative(admin, 'PUT', `/_/v1/tenants/cms/grants/${bucket}-reads`, grant('closed/'));
    await ask(admin, 'PUT', `/${bucket}/open/c`, { body: 'x' });
    await ask(admin, 'PUT', `/${bucket}/closed/d`, { body: 'x' });
    const both = ['ObjectCreated:Put open/b', 'ObjectCreated:Put closed/d'];
    await vi.waitFor(() => expect(shown()).toEqual(both), patience);
  });

  it('waits while a webhook is away, in order, and rules that stay lose nothing', async () => {
    const begunMs = Date.now();
    await register('hook');
    await configure(admin, { id: 'all' });
    await vi.waitFor(() => expect(tests()).toHaveLength(1), patience);
    receiver.answer = status(503);
    for (let i = 0; i < 5; i++) await ask(admin, 'PUT', `/${bucket}/k${i % 2}`, { body: `${i}` });
    await vi.waitFor(() => expect(told().length).toBeGreaterThan(0), patience);
    const path = targetPath('hook');
    await vi.waitFor(async () => {
      const shownTarget = await callNative(admin, 'GET', path);
      expect(shownTarget).toMatchObject({ problem: 'it was not taken', stuck: false });
      // For as long as the first of them has waited, and no more than the whole test has lasted.
      expect(shownTarget.behind).toBeGreaterThanOrEqual(5);
      expect(shownTarget.lagSeconds).toBeGreaterThanOrEqual(1);
      expect(shownTarget.lagSeconds).toBeLessThanOrEqual((Date.now() - begunMs) / 1000 + 1);
    }, patience);
    const lag = /^bursar_target_lag_seconds\{tenant="cms",target="hook"\} (\S+)$/m;
    expect(Number(lag.exec(await readMetrics(operator))?.[1])).toBeGreaterThan(0.9);
    await configure(admin, { id: 'all' }, { id: 'tags', events: ['s3:ObjectTagging:*'] });
    receiver.received.length = 0;
    receiver.answer = status(204);
    const all = [0, 1, 0, 1, 0].map((n) => `ObjectCreated:Put k${n}`);
    await vi.waitFor(() => expect(shown().slice(-5)).toEqual(all), patience);
    await vi.waitFor(async () => {
      expect(await callNative(admin, 'GET', path)).toMatchObject({ problem: null });
    }, patience);
  }, 120_000);

  it('that is refused for good is a dead letter, alone, and can be sent again', async () => {
    await register('hook');
    await configure(admin, {});
    receiver.answer = (response) => {
      const { body } = receiver.received.at(-1) as { body: string };
      response.writeHead(body.includes('poison') ? 400 : 204).end();
    };
    for (const key of ['a', 'poison', 'b']) {
      await ask(admin, 'PUT', `/${bucket}/${key}`, { body: 'x' });
    }
    const path = targetPath('hook');
    const letters = () => callNative(admin, 'GET', `${path}/dead-letters`);
    await vi.waitFor(async () => {
      expect((await letters()).deadLetters).toMatchObject([{ reason: 'it answered 400' }]);
    }, patience);
    await vi.waitFor(() => expect(shown().at(-1)).toBe('ObjectCreated:Put b'), patience);
    const metrics = await readMetrics(operator);
    expect(metrics).toContain('bursar_target_dead_letters{tenant="cms",target="hook"} 1');
    receiver.answer = status(204);
    receiver.received.length = 0;
    const [{ index }] = (await letters()).deadLetters;
    await callNative(admin, 'POST', `${path}/resend`, { after: index - 1 });
    const again = ['ObjectCreated:Put poison', 'ObjectCreated:Put b'];
    await vi.waitFor(() => expect(shown()).toEqual(again), patience);
    expect((await letters()).deadLetters).toEqual([]);
  }, 120_000);
});

describe('what is refused', () => {
  beforeEach(() => register('hook'));

  it.each<[string, string, string]>([
    ['an unknown target', documentOf({ target: 'other' }), 'InvalidArgument'],
    [
      'a queue of AWS that nobody registered',
      documentOf({ target: 'arn:aws:sqs:us-east-1:123456789012:queue' }),
      'InvalidArgument',
    ],
    ['an unknown event', documentOf({ events: ['s3:ObjectEaten:*'] }), 'InvalidArgument'],
    ['no event', documentOf({ events: [] }), 'MalformedXML'],
    [
      'the same id twice',
      documentOf({ id: 'a', prefix: 'a' }, { id: 'a', prefix: 'b' }),
      'InvalidArgument',
    ],
    [
      'rules that overlap',
      documentOf(
        { prefix: 'a', events: ['s3:ObjectCreated:*'] },
        { prefix: 'ab', events: ['s3:ObjectCreated:Put'] },
      ),
      'InvalidArgument',
    ],
    ['a topic', documentOf({}).replaceAll('Queue', 'Topic'), 'InvalidArgument'],
    [
      'EventBridge',
      '<NotificationConfiguration><EventBridgeConfiguration/></NotificationConfiguration>',
      'NotImplemented',
    ],
    ['another element', documentOf({}).replace('<Event>', '<Odd/><Event>'), 'MalformedXML'],
    ['another document', '<Notification/>', 'MalformedXML'],
    [
      'a filter by something else',
      documentOf({ prefix: 'a' }).replace('>prefix<', '>infix<'),
      'InvalidArgument',
    ],
    [
      'two prefixes',
      documentOf({ prefix: 'a', suffix: 'b' }).replace('>suffix<', '>prefix<'),
      'InvalidArgument',
    ],
    ['a prefix beyond the limit', documentOf({ prefix: 'p'.repeat(1025) }), 'InvalidArgument'],
  ])('is %s', async (_, body, code) => {
    const answer = await put(admin, body);
    expect(elementOf(answer.text, 'Code')).toBe(code);
    const { text } = await ask(admin, 'GET', `/${bucket}`, { query: [['notification', '']] });
    expect(text).not.toContain('QueueConfiguration');
  });

  it('is a webhook on the machine of the gateway that its operator has not named', async () => {
    const refused = await send(admin, {
      ...{ method: 'PUT', path: targetPath('inner'), headers: json },
      body: JSON.stringify({ kind: 'webhook', url: 'http://localhost/' }),
    });
    expect([refused.status, JSON.parse(refused.text).field]).toEqual([400, 'body.url']);
    expect((await send(admin, { method: 'GET', path: targetPath('inner') })).status).toBe(404);
  });

  it("is another tenant's target, a queue of an admin, and who may not configure", async () => {
    await callNative(operator, 'POST', '/_/v1/tenants', { name: 'atlas' });
    const keys = await newPrincipal(operator, { tenant: 'atlas', name: 'zoe', role: 'admin' });
    const zoe = as(operator, keys);
    const other = newName('other');
    await ask(zoe, 'PUT', `/${other}`);
    expect(elementOf((await put(zoe, documentOf({}), other)).text, 'Code')).toBe('InvalidArgument');
    expect(elementOf((await put(alice, documentOf({}))).text, 'Code')).toBe('AccessDenied');
    const url = 'https://sqs.eu-central-1.amazonaws.com/123456789012/q';
    const queue = await send(admin, {
      ...{ method: 'PUT', path: targetPath('queue'), body: JSON.stringify({ kind: 'sqs', url }) },
      headers: json,
    });
    expect([queue.status, queue.text]).toEqual([403, expect.stringContaining('AccessDenied')]);
    const seen = await send(zoe, { method: 'GET', path: targetPath('hook') });
    expect(seen.status).toBe(404);
  });
});
