// Alarms are told to webhooks: signed, at least once, to nobody but those they are for, and
// whatever a webhook does, others have theirs.

import { execFileSync } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { deadLettersMax } from '#bursar/audit/changes/targets.js';
import { everywhere, onlyPrivate } from '#bursar/authz/oidc/address-policy.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { Sealer } from '#bursar/core/sealing.js';
import { AlarmNotifier } from '#bursar/gateway/alarms/alarm-notifier.js';
import { checkHookUrl, secretText } from '#bursar/gateway/alarms/webhook.js';
import { Notifier, type NotifierOptions } from '#bursar/gateway/notifications/notifier.js';
import { schema } from '#bursar/ledger/schema.js';
import {
  type AlarmHook,
  hookContext,
  readAlarmHook,
  setAlarmHook,
} from '#bursar/quota/limits/alarm-hooks.js';
import { type Alarm, appendAlarm, forgetAlarms } from '#bursar/quota/limits/alarms.js';
import { blocksOf, readPage } from '../../docs/markdown.ts';
import { boto3Python, describeWithTool } from '../../tooling/tools.ts';
import { type Answer, type Received, Receiver, status } from '../../tooling/webhook-receiver.ts';

const hang: Answer = () => {};
const cut: Answer = (response) => response.destroy();

let folder: string;
let db: OpenDatabase;
let receiver: Receiver;
let errors: unknown[];
const notifiers: AlarmNotifier[] = [];
const sealer = new Sealer(new Keyring([{ epoch: 1, key: Buffer.alloc(32, 7) }]));
const secret = randomBytes(32);

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-alarms-'));
  db = openDatabase(join(folder, 'test.db'), { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  db.exec(`INSERT INTO tenants (name, created_ms) VALUES ('cms', 0), ('atlas', 0)`);
  receiver = new Receiver();
  await receiver.listen();
  errors = [];
});

afterEach(async () => {
  for (const notifier of notifiers.splice(0)) await notifier.close();
  await receiver.close();
  db.close();
  rmSync(folder, { recursive: true });
  expect(errors).toEqual([]);
});

const soon = { timeout: 20_000 };

/** What the operator is told of tenants' webhooks. */
const problems: string[] = [];

async function open(options: Partial<Parameters<typeof AlarmNotifier.open>[0]> = {}) {
  const notifier = await AlarmNotifier.open({
    read: db.tx,
    sealer,
    ledger: { maintain: ({ ids }) => forgetAlarms(db.tx, ids) },
    policy: onlyPrivate([{ name: '127.0.0.1', port: null }]),
    onProblem: (reason) => problems.push(reason),
    onError: (error) => errors.push(error),
    pausesMs: [5, 10, 20, 20],
    attemptMs: 150,
    ...options,
  });
  notifiers.push(notifier);
  return notifier;
}

const cms = { tenant: 'cms', principal: null };
const all = { tenant: null, principal: null };

function hook(tenant: string | null, url: string): Promise<boolean> {
  const of = { tenant, principal: null };
  const sealedSecret = sealer.seal(secret, hookContext(of));
  return setAlarmHook(db.tx, { ...of, hook: { url, sealedSecret } }, 1);
}

async function sound(id: number, given: Partial<Alarm> = {}): Promise<Alarm> {
  const alarm: Alarm = {
    ...{ id, account: 'principal:cms/alice', tenant: 'cms', principal: 'alice' },
    ...{ meter: 'spend', window: 'month', beginMs: Date.parse('2026-11-01'), percent: 80 },
    ...{
      limit: 12_500_000_000_000n,
      used: 10_000_000_000_001n,
      timeMs: Date.parse('2026-11-18T12:00:00Z'),
    },
    ...given,
  };
  await appendAlarm(db.tx, alarm);
  return alarm;
}

async function untold(): Promise<number[]> {
  const rows = await db.tx.all<{ id: number }>('SELECT id FROM quota_alarms ORDER BY id');
  return rows.map(({ id }) => id);
}

describe('an alarm', () => {
  it('is told once to a webhook that takes it, signed by Standard Webhooks', async () => {
    await hook('cms', receiver.url);
    // However long the receiver takes to answer on a busy machine.
    const notifier = await open({ attemptMs: 10_000 });
    notifier.tell([await sound(7)]);
    await expect.poll(untold).toEqual([]);
    const [message] = receiver.received as [Received];
    expect(receiver.received).toHaveLength(1);
    expect(message.path).toBe('/hook');
    expect(message.id).toMatch(/^msg_[0-9a-f]{32}_7$/);
    expect(Math.abs(message.timestamp - Date.now() / 1000)).toBeLessThan(60);
    // As a receiver does it: from the text that it was given.
    const key = Buffer.from(secretText(secret).replace('whsec_', ''), 'base64');
    const signed = `${message.id}.${message.timestamp}.${message.body}`;
    expect(message.signature).toBe(
      `v1,${createHmac('sha256', key).update(signed).digest('base64')}`,
    );
    expect(JSON.parse(message.body)).toEqual({
      type: 'budget.alarm',
      timestamp: '2026-11-18T12:00:00.000Z',
      data: {
        ...{ account: 'principal:cms/alice', tenant: 'cms', principal: 'alice' },
        ...{ meter: 'spend', window: 'month', percent: 80 },
        ...{ limit: '12.50', used: '10.000000000001', resetAt: '2026-12-01T00:00:00.000Z' },
        record: 7,
      },
    });
    expect(notifier.stateOf(cms)).toMatchObject({ waiting: 0, problem: null });
  });

  describeWithTool(boto3Python, 'by the page for admins', (python) => {
    it('is verified, and not when a byte of it is another', async () => {
      await hook('cms', receiver.url);
      const notifier = await open();
      notifier.tell([await sound(7)]);
      await expect.poll(untold).toEqual([]);
      const [{ id, timestamp, signature, body }] = receiver.received as [Received];
      const verify = blocksOf(readPage('docs/admin/alarms.md').text).find(
        ({ language }) => language === 'python',
      );
      const headers = {
        'webhook-id': id,
        'webhook-timestamp': String(timestamp),
        'webhook-signature': signature,
      };
      const asked = JSON.stringify([secretText(secret), headers, body]);
      const program = `${verify?.code}
import json, sys
secret, headers, body = json.load(sys.stdin)
print(verify(secret, headers, body.encode()), verify(secret, headers, body.encode() + b" "))`;
      const said = execFileSync(python, ['-c', program], { input: asked, encoding: 'utf8' });
      expect(said).toBe('True False\n');
    });
  });

  it('is sent again under the same id until it is taken, whatever happens before', async () => {
    await hook('cms', receiver.url);
    const answers = [status(500), hang, cut, status(429)];
    receiver.answer = (...given) => (answers.shift() ?? status(200))(...given);
    const notifier = await open();
    notifier.tell([await sound(7)]);
    await expect.poll(untold).toEqual([]);
    expect(receiver.ids).toEqual(Array(5).fill(receiver.ids[0]));
    expect(new Set(receiver.received.map(({ body }) => body)).size).toBe(1);
    expect(notifier.stateOf(cms)).toMatchObject({ waiting: 0, problem: null });
  });

  it('is given up after so many failures, which its owner can see', async () => {
    await hook('cms', receiver.url);
    receiver.answer = status(500);
    const notifier = await open();
    notifier.tell([await sound(7)]);
    await expect.poll(untold).toEqual([]);
    expect(receiver.received).toHaveLength(5);
    expect(notifier.stateOf(cms)).toMatchObject({ waiting: 0, problem: 'it was not taken' });
    expect(problems.at(-1)).toBe('the webhook of tenant cms: it answered 500');
  });

  it('that is always refused stops no other', async () => {
    await hook('cms', receiver.url);
    receiver.answer = (response) =>
      response.writeHead(receiver.received.at(-1)?.id.endsWith('_1') ? 400 : 200).end();
    const notifier = await open({ pausesMs: Array(8).fill(10) });
    notifier.tell([await sound(1), await sound(2), await sound(3)]);
    await expect.poll(untold).toEqual([1]);
    await expect.poll(untold).toEqual([]);
    expect(receiver.ids.filter((id) => id.endsWith('_2'))).toHaveLength(1);
    expect(receiver.ids.filter((id) => id.endsWith('_1'))).toHaveLength(9);
  });

  it('that was not taken when the gateway stopped is told after the next start', async () => {
    await hook('cms', receiver.url);
    receiver.answer = hang;
    const first = await open({ attemptMs: 60_000 });
    first.tell([await sound(7)]);
    await expect.poll(() => receiver.ids).toHaveLength(1);
    await first.close();
    expect(await untold()).toEqual([7]);
    receiver.answer = status(200);
    await open();
    await expect.poll(untold).toEqual([]);
    expect(receiver.ids).toEqual([receiver.ids[0], receiver.ids[0]]);
  });
});

describe('a webhook', () => {
  it("of a tenant hears of its accounts, the gateway's of all; alarms wait for both", async () => {
    const operator = new Receiver();
    await operator.listen();
    try {
      await hook('cms', receiver.url);
      await hook(null, operator.url);
      const answers = [status(503), status(503)];
      operator.answer = (...given) => (answers.shift() ?? status(200))(...given);
      const notifier = await open({ pausesMs: Array(9).fill(50) });
      const theirs = { account: 'tenant:atlas', tenant: 'atlas', principal: '' };
      notifier.tell([await sound(1), await sound(2, theirs)]);
      await expect.poll(() => receiver.ids.map((id) => id.at(-1))).toEqual(['1']);
      expect(await untold()).toContain(1);
      await expect.poll(untold).toEqual([]);
      expect(operator.ids.map((id) => id.at(-1)).sort()).toEqual(['1', '1', '2', '2']);
      expect(receiver.ids).toHaveLength(1);
    } finally {
      await operator.close();
    }
  });

  it('is tested by a message that is no alarm, signed as one, and says how that ends', async () => {
    await hook('cms', receiver.url);
    const notifier = await open();
    const there = (await readAlarmHook(db.tx, cms)) as AlarmHook;
    expect(await notifier.test(there)).toBeNull();
    const [{ id, timestamp, signature, body }] = receiver.received as [Received];
    expect(JSON.parse(body)).toMatchObject({ type: 'budget.test', data: {} });
    const signed = createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`);
    expect(signature).toBe(`v1,${signed.digest('base64')}`);
    receiver.answer = status(404);
    const sinceMs = performance.now();
    expect(await notifier.test(there)).toBe('it was not taken');
    // No sooner than one that hangs.
    expect(performance.now() - sinceMs).toBeGreaterThan(150);
    expect(problems.at(-1)).toContain('it answered 404');
    receiver.answer = hang;
    expect(await notifier.test(there)).toBe('it was not taken');
    expect(problems.at(-1)).toContain('it did not answer in time');
    expect(new Set(receiver.ids).size).toBe(3);
    expect(notifier.stateOf(cms)).toMatchObject({ waiting: 0, problem: null });
  });

  it('that is not there is nobody to wait for', async () => {
    const notifier = await open();
    notifier.tell([await sound(7)]);
    await expect.poll(untold).toEqual([]);
  });

  it('that was down for long hears of a new alarm soon, and then of the old ones', async () => {
    await hook('cms', receiver.url);
    receiver.answer = status(500);
    const notifier = await open({ pausesMs: [20, 20, 3_600_000] });
    notifier.tell([await sound(1)]);
    await expect.poll(() => receiver.ids).toHaveLength(3);
    receiver.answer = status(200);
    notifier.tell([await sound(2)]);
    await expect.poll(untold).toEqual([]);
    expect(receiver.ids.map((id) => id.at(-1))).toEqual(['1', '1', '1', '2', '1']);
  });

  it('that is removed while it is down is told no more', async () => {
    await hook('cms', receiver.url);
    receiver.answer = status(500);
    const notifier = await open({ pausesMs: [100, 100, 100] });
    notifier.tell([await sound(7)]);
    await expect.poll(() => receiver.ids.length).toBe(1);
    await setAlarmHook(db.tx, { ...cms, hook: null }, 2);
    await expect.poll(untold).toEqual([]);
    expect(receiver.ids).toHaveLength(1);
  });

  it('that is down has a bounded line: the oldest give way, those of tokens first', async () => {
    await hook('cms', receiver.url);
    receiver.answer = hang;
    const notifier = await open({ attemptMs: 60_000 });
    const alarms: Alarm[] = [];
    for (let id = 0; id < 130; id++) {
      const token = id >= 20 && id < 40 ? { account: `token:t${id}` } : {};
      alarms.push(await sound(id, token));
    }
    notifier.tell(alarms);
    // One is under way, and a hundred wait.
    await expect.poll(() => notifier.stateOf(cms).waiting).toBe(100);
    await expect.poll(async () => (await untold()).length).toBe(101);
    const range = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => from + i);
    expect(await untold()).toEqual([0, ...range(10, 20), ...range(40, 130)]);
  });

  it('that hangs holds up no other', async () => {
    const slow = new Receiver();
    await slow.listen();
    slow.answer = hang;
    try {
      await hook('atlas', slow.url);
      await hook('cms', receiver.url);
      const notifier = await open({ attemptMs: 60_000 });
      const theirs = { account: 'tenant:atlas', tenant: 'atlas', principal: '' };
      notifier.tell([await sound(1, theirs), await sound(2, theirs), await sound(3)]);
      await expect.poll(() => receiver.ids.map((id) => id.at(-1))).toEqual(['3']);
      expect(slow.ids).toHaveLength(1);
    } finally {
      await slow.close();
    }
  });

  it('leads nowhere else by a redirect', async () => {
    const other = new Receiver();
    await other.listen();
    try {
      await hook('cms', receiver.url);
      receiver.answer = status(307, { location: other.url });
      const notifier = await open();
      notifier.tell([await sound(7)]);
      await expect.poll(untold).toEqual([]);
      expect(other.received).toEqual([]);
      expect(problems.at(-1)).toContain('it answered 307');
    } finally {
      await other.close();
    }
  });

  it("of a tenant is not asked where the gateway's own network is; the operator's is", async () => {
    await hook('cms', receiver.url);
    await hook(null, receiver.url);
    const notifier = await open({ policy: onlyPrivate([]) });
    notifier.tell([await sound(7)]);
    await expect.poll(untold).toEqual([]);
    expect(receiver.received).toHaveLength(1);
    expect(notifier.stateOf(cms).problem).toBe('it was not taken');
    expect(problems.at(-1)).toContain('is at an address that is not a public one');
    expect(notifier.stateOf(all)).toMatchObject({ problem: null });
  });

  it.each([
    'https://hooks.example.org/bursar?x=1',
    'http://127.0.0.1:9100/a',
    'http://localhost/a',
    'https://10.0.0.1/',
  ])('can be at %s', (url) => {
    expect(() => checkHookUrl(url, everywhere)).not.toThrow();
  });

  it("of a tenant can be at the gateway's own machine only where its operator named that", () => {
    const named = onlyPrivate([{ name: 'localhost', port: 9100 }]);
    expect(() => checkHookUrl('http://localhost:9100/a', named)).not.toThrow();
    const words = /the operator has named them \(--private-webhooks localhost:80\)/;
    expect(() => checkHookUrl('http://localhost/a', named)).toThrow(words);
    expect(() => checkHookUrl('https://localhost/a', named)).not.toThrow();
  });

  it.each([
    'http://hooks.example.org/',
    'ftp://hooks.example.org/',
    'https://user:pass@hooks.example.org/',
    'https://hooks.example.org/#here',
    'hooks.example.org',
    '',
  ])('cannot be at %j', (url) => {
    expect(() => checkHookUrl(url, everywhere)).toThrow();
  });

  it('cannot be at a URL without end', () => {
    const url = `https://hooks.example.org/${'a'.repeat(2100)}`;
    expect(() => checkHookUrl(url, everywhere)).toThrow();
  });
});

describe('a target that is stuck', () => {
  /** Tells targets. What reads changes, and decides of them, fails as `reach` does. */
  function tell(alarms: AlarmNotifier, reach: () => never): Promise<Notifier> {
    const parts = { buckets: null, directory: null, grants: null, keyring: null, sealFaults: null };
    return Notifier.open({
      ...(parts as unknown as NotifierOptions),
      ...{ read: db.tx, region: 'us-east-1', pauseMsMin: 1, stuckMs: 20 },
      ledger: { maintain: reach },
      changes: { read: reach, waitPast: reach, newest: reach },
      sender: { send: reach, close: async () => {} },
      ...{ onProblem: () => {}, onError: () => {}, onStuck: (stuck) => alarms.tellStuck(stuck) },
    });
  }
  const bodies = () => receiver.received.map(({ body }) => JSON.parse(body));
  const target = () =>
    db.exec(`INSERT INTO targets VALUES
      ('cms', 'ingest', 'sqs', 'https://sqs.eu.example/123456789012/raw', 'eu', NULL, 0);
      INSERT INTO target_cursors VALUES ('cms', 'ingest', -1)`);

  it.each(['cms', null])(
    'is told to the webhook of %s once, when it is set anew only hours later',
    async (of) => {
      await hook(of, receiver.url);
      await hook('atlas', 'http://127.0.0.1:9/');
      target();
      const alarms = await open({ attemptMs: 10_000 });
      const notifier = await tell(alarms, () => {
        throw new Error('the disk is away');
      });
      await expect.poll(() => receiver.received.length, soon).toBe(1);
      const reason = 'the gateway could not read what to tell';
      const data = { tenant: 'cms', target: 'ingest', reason };
      expect(bodies()).toMatchObject([{ type: 'target.stuck', data }]);
      expect(receiver.ids[0]).toMatch(/^msg_[0-9a-f]{32}_stuck_cms_ingest_\d+$/);
      const id = { tenant: 'cms', name: 'ingest' };
      notifier.renew(id);
      expect(notifier.stateOf(id)?.isStuck).toBe(false);
      await expect.poll(() => notifier.stateOf(id)?.isStuck, soon).toBe(true);
      expect(receiver.received).toHaveLength(1);
      try {
        vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 7 * 3_600_000 });
        await expect.poll(() => receiver.received.length, soon).toBe(2);
      } finally {
        vi.useRealTimers();
      }
      await notifier.close();
      await alarms.close();
      expect(receiver.received).toHaveLength(2);
    },
  );

  it('is one that has refused too many', async () => {
    await hook('cms', receiver.url);
    target();
    db.exec(`INSERT INTO dead_letters SELECT 'cms', 'ingest', value, 0, 'it answered 400'
      FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n
        WHERE value < ${deadLettersMax}) SELECT value FROM n)`);
    const notifier = await tell(await open({ attemptMs: 10_000 }), () => {
      throw new Error('it is asked for nothing');
    });
    await expect.poll(() => receiver.received.length, soon).toBe(1);
    expect(bodies()).toMatchObject([{ data: { reason: '1000 changes were refused by it' } }]);
    await notifier.close();
  });
});
