// Alarms by mail, to a real mail server: what arrives, in one mail for all that waits; and nothing
// is lost while the server is away, refuses who asks, or has a certificate that nobody knows.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { onlyPrivate } from '#bursar/authz/oidc/address-policy.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { Sealer } from '#bursar/core/sealing.js';
import { AlarmNotifier } from '#bursar/gateway/alarms/alarm-notifier.js';
import { checkAddress, Mailer } from '#bursar/gateway/alarms/mail.js';
import { schema } from '#bursar/ledger/schema.js';
import {
  type HookOf,
  hookContext,
  readAlarmHook,
  setAlarmHook,
} from '#bursar/quota/limits/alarm-hooks.js';
import { type Alarm, appendAlarm, forgetAlarms } from '#bursar/quota/limits/alarms.js';

const password = 'correct horse';
const address = 'boss@cms.example.org';
const patient = { attemptMs: 20_000 };

let folder: string;
let db: OpenDatabase;
let servers: SMTPServer[];
let notifier: AlarmNotifier | undefined;
let problems: string[];
/** What arrived: to whom, and the text of the message. */
let mails: { to: string[]; text: string }[];
const sealer = new Sealer(new Keyring([{ epoch: 1, key: Buffer.alloc(32, 7) }]));

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-mail-'));
  db = openDatabase(join(folder, 'test.db'), { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  db.exec(`INSERT INTO tenants (name, created_ms) VALUES ('cms', 0)`);
  [servers, problems, mails] = [[], [], []];
});
afterEach(async () => {
  await notifier?.close();
  notifier = undefined;
  for (const server of servers) await stop(server);
  db.close();
  rmSync(folder, { recursive: true });
});

async function serve(options: SMTPServerOptions = {}, port = 0): Promise<[SMTPServer, number]> {
  const server = new SMTPServer({
    authOptional: true,
    // In plain text on this machine, as the mail server of a host has it.
    disabledCommands: ['STARTTLS'],
    allowInsecureAuth: true,
    onAuth: (auth, _, done) => {
      if (auth.password === password) done(null, { user: auth.username });
      else done(new Error('Authentication failed'));
    },
    onData: (stream, session, done) => {
      const parts: Buffer[] = [];
      stream.on('data', (part: Buffer) => parts.push(part));
      stream.on('end', () => {
        const to = session.envelope.rcptTo.map((one) => one.address);
        mails.push({ to, text: Buffer.concat(parts).toString() });
        done();
      });
    },
    ...options,
  });
  // A client that gives up is no failure of the test.
  server.on('error', () => {});
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return [server, (server.server.address() as AddressInfo).port];
}

function stop(server: SMTPServer): Promise<void> {
  servers = servers.filter((one) => one !== server);
  return new Promise((resolve) => server.close(() => resolve()));
}

function mailerFor(
  port: number,
  { scheme = 'smtp', user = '', domains = ['cms.example.org'] } = {},
) {
  const server = new URL(`${scheme}://${user}127.0.0.1:${port}`);
  return new Mailer({ server, from: 'bursar@gateway.example.org', domains }, 20_000);
}

/** `attemptMs`: what fails is told so late. */
async function open(
  mailer: Mailer | null,
  { mailPauseMs = 0, attemptMs = 500 } = {},
): Promise<AlarmNotifier> {
  notifier = await AlarmNotifier.open({
    ...{ read: db.tx, sealer, policy: onlyPrivate([]), mailer, mailPauseMs, attemptMs },
    ledger: { maintain: ({ ids }) => forgetAlarms(db.tx, ids) },
    onProblem: (reason) => problems.push(reason),
    onError: (error) => {
      throw error;
    },
    pausesMs: Array.from({ length: 50 }, () => 20),
  });
  return notifier;
}

const cms = { tenant: 'cms', principal: null };

async function hook(of: HookOf = cms, to = address): Promise<void> {
  const sealedSecret = sealer.seal(randomBytes(32), hookContext(of));
  await setAlarmHook(db.tx, { ...of, hook: { url: `mailto:${to}`, sealedSecret } }, 1);
}

async function alarm(id: number, given: Partial<Alarm> = {}): Promise<Alarm> {
  const one: Alarm = {
    ...{ id, account: 'principal:cms/alice', tenant: 'cms', principal: 'alice' },
    ...{ meter: 'spend', window: 'month', beginMs: Date.parse('2026-11-01'), percent: 80 },
    ...{ limit: 12_500_000_000_000n, used: 10_000_000_000_001n },
    timeMs: Date.parse('2026-11-18T12:00:00Z'),
    ...given,
  };
  await appendAlarm(db.tx, one);
  return one;
}

async function untold(): Promise<number> {
  return (await db.tx.all('SELECT id FROM quota_alarms')).length;
}

const soon = { timeout: 20_000 };

describe('a target that is stuck', () => {
  it('is told its tenant, once, with what else there is', async () => {
    const [, port] = await serve();
    await hook();
    await open(mailerFor(port), patient);
    const timeMs = Date.parse('2026-11-18T12:00:00Z');
    const reason = 'it was not taken';
    notifier?.tellStuck({ tenant: 'atlas', target: 'other', reason, timeMs });
    notifier?.tellStuck({ tenant: 'cms', target: 'ingest', reason, timeMs });
    await expect.poll(() => mails.length, soon).toBe(1);
    const [{ to, text = '' } = {}] = mails;
    expect(to).toEqual([address]);
    expect(text).toContain('Subject: Bursar: the target cms/ingest is stuck');
    expect(text).toContain('reason: it was not taken');
    expect(text).not.toContain('records');
    expect(text).not.toContain('other');
  });
});

describe('an alarm by mail', () => {
  it('arrives, and says of what, how much and until when', async () => {
    const [, port] = await serve();
    await hook();
    (await open(mailerFor(port), { ...patient, mailPauseMs: 1 })).tell([await alarm(7)]);
    await expect.poll(untold, soon).toBe(0);
    const [mail] = mails;
    expect(mails).toHaveLength(1);
    expect(mail?.to).toEqual([address]);
    const text = mail?.text.replace(/=\r\n/g, '') ?? '';
    expect(text).toContain('From: bursar@gateway.example.org');
    expect(text).toContain('Subject: Bursar: principal:cms/alice has used 80% of spend per month');
    expect(text).toMatch(/Message-ID:\s+<bursar\.[0-9a-f]{32}\.7\.7\.1@gateway\.example\.org>/i);
    expect(text).toMatch(/auto-submitted: auto-generated/i);
    expect(text).toContain('10.000000000001 USD of 12.50 USD');
    expect(text).toContain('resets: 2026-12-01T00:00:00.000Z');
    expect(notifier?.stateOf(cms)).toMatchObject({ waiting: 0, problem: null });
    const bytes = { meter: 'storedBytes', window: 'total', limit: 5_000_000n, used: 4_200_000n };
    notifier?.tell([await alarm(8, bytes as Partial<Alarm>)]);
    await expect.poll(() => mails.length, soon).toBe(2);
    const second = mails[1]?.text.replace(/=\r\n/g, '') ?? '';
    expect(second).toContain(
      'Subject: Bursar: principal:cms/alice has used 80% of storedBytes\r\n',
    );
    expect(second).toContain('used:   4.2 MB of 5.0 MB (4200000 of 5000000)');
  });

  it('comes with others that wait, at most one mail in a while', async () => {
    const [, port] = await serve();
    await hook();
    const told = await open(mailerFor(port), { ...patient, mailPauseMs: 4000 });
    const first = await alarm(1);
    const others: Alarm[] = [];
    for (let id = 2; id <= 21; id++) {
      others.push(await alarm(id, { account: `prefix:cms/raw/ü ${id}/` }));
    }
    told.tell([first]);
    await expect.poll(() => mails.length, soon).toBe(1);
    told.tell(others);
    await expect.poll(untold, soon).toBe(0);
    expect(mails).toHaveLength(2);
    expect(mails[1]?.text).toMatch(/bursar\.[0-9a-f]{32}\.2\.21\.20@/);
  });

  it('is not lost while the server is away', async () => {
    const [server, port] = await serve();
    await stop(server);
    await hook();
    (await open(mailerFor(port))).tell([await alarm(7)]);
    await expect.poll(() => notifier?.stateOf(cms).problem, soon).toBe('it was not taken');
    expect(problems[0]).toMatch(/the webhook of tenant cms: .*ECONNREFUSED/);
    expect(await untold()).toBe(1);
    await serve({}, port);
    await expect.poll(untold, soon).toBe(0);
    expect(mails).toHaveLength(1);
  });

  it('is not lost while the server refuses it, and goes on after a restart', async () => {
    let isFull = true;
    const [, port] = await serve({
      onRcptTo: (_, __, done) => (isFull ? done(new Error('452 mailbox full')) : done()),
    });
    await hook();
    (await open(mailerFor(port))).tell([await alarm(7), await alarm(8)]);
    await expect.poll(() => problems.length, soon).toBeGreaterThan(0);
    await notifier?.close();
    expect(await untold()).toBe(2);
    isFull = false;
    await open(mailerFor(port));
    await expect.poll(untold, soon).toBe(0);
    const text = mails.map((mail) => mail.text).join();
    for (const id of [7, 8]) expect(text).toContain(`record: ${id}`);
  });

  it('wants the right password, and says in the log that it was refused', async () => {
    const [, port] = await serve({ authOptional: false });
    await hook();
    const wrong = await open(mailerFor(port, { user: 'bursar:wrong@' }));
    wrong.tell([await alarm(7)]);
    await expect.poll(() => problems.length, soon).toBeGreaterThan(0);
    expect(problems[0]).toContain('Authentication failed');
    expect(problems.join()).not.toContain('wrong@');
    await wrong.close();
    await open(mailerFor(port, { user: `bursar:${encodeURIComponent(password)}@` }));
    await expect.poll(untold, soon).toBe(0);
  });

  it('is sent to no server whose certificate is nobody’s', async () => {
    // The server has the certificate that its package comes with, which no authority has signed.
    const [, port] = await serve({ secure: true });
    await hook();
    (await open(mailerFor(port, { scheme: 'smtps' }))).tell([await alarm(7)]);
    await expect.poll(() => problems.length, soon).toBeGreaterThan(0);
    expect(problems[0]).toMatch(/certificate/i);
    expect([mails.length, await untold()]).toEqual([0, 1]);
  });

  it('goes nowhere without a mail server, or where its domain is allowed no more', async () => {
    const [, port] = await serve();
    await hook();
    (await open(null)).tell([await alarm(7)]);
    await expect.poll(() => problems.length, soon).toBeGreaterThan(0);
    expect(problems[0]).toContain('no mail server is set');
    await notifier?.close();
    problems = [];
    await open(mailerFor(port, { domains: ['atlas.example.org'] }));
    await expect.poll(() => problems.length, soon).toBeGreaterThan(0);
    expect(problems[0]).toContain('its domain is not allowed');
    expect(mails).toEqual([]);
    await notifier?.close();
    // The operator's address may be anywhere.
    await setAlarmHook(db.tx, { ...cms, hook: null }, 2);
    await hook({ tenant: null, principal: null });
    await open(mailerFor(port, { domains: [] }));
    await expect.poll(untold, soon).toBe(0);
  });

  it('is tried out', async () => {
    const [server, port] = await serve();
    await hook();
    const told = await open(mailerFor(port), patient);
    const found = await readAlarmHook(db.tx, cms);
    if (!found) throw new Error('no hook');
    expect(await told.test(found)).toBe(null);
    expect(mails[0]?.text).toContain('a trial, and no alarm');
    await stop(server);
    await told.close();
    expect(await (await open(mailerFor(port))).test(found)).toBe('it was not taken');
  });
});

describe('alarms of one’s own', () => {
  const alice = { tenant: 'cms', principal: 'alice' };

  beforeEach(() => {
    db.exec(`INSERT INTO principals (tenant, name, kind, role, active, created_ms)
      VALUES ('cms', 'alice', 'person', 'member', 1, 0), ('cms', 'bob', 'person', 'member', 1, 0)`);
  });

  it('go to their owner, beside the tenant’s address, and those of others do not', async () => {
    const [, port] = await serve();
    await hook();
    await hook(alice, 'alice@cms.example.org');
    const told = await open(mailerFor(port), patient);
    told.tell([
      await alarm(1),
      await alarm(2, { account: 'bucket:cms/raw' }),
      await alarm(3, { account: 'principal:cms/bob', principal: 'bob' }),
      await alarm(4, { account: 'tenant:cms', principal: '' }),
      await alarm(5, { account: 'principal:atlas/alice', tenant: 'atlas' }),
    ]);
    await expect.poll(untold, soon).toBe(0);
    const recordsAt = (to: string) => {
      const texts = mails.filter((mail) => mail.to.includes(to)).map((mail) => mail.text);
      return [...texts.join().matchAll(/record: (\d+)/g)].map(([, id]) => Number(id)).sort();
    };
    expect(recordsAt('alice@cms.example.org')).toEqual([1, 2]);
    expect(recordsAt(address)).toEqual([1, 2, 3, 4]);
  });

  it('are not told to who is deactivated, and wait for nobody', async () => {
    const [, port] = await serve();
    await hook(alice);
    db.exec(`UPDATE principals SET active = 0 WHERE name = 'alice'`);
    (await open(mailerFor(port), patient)).tell([await alarm(1)]);
    await expect.poll(untold, soon).toBe(0);
    expect(mails).toEqual([]);
  });

  it('are tried out once in a while, and stay in the domains that are allowed', async () => {
    const [, port] = await serve();
    await hook(alice);
    const found = await readAlarmHook(db.tx, alice);
    if (!found) throw new Error('no hook');
    const told = await open(mailerFor(port), { ...patient, mailPauseMs: 60_000 });
    expect(await told.test(found)).toBe(null);
    expect(await told.test(found)).toMatch(/within the last minute; nothing was sent/);
    expect(mails).toHaveLength(1);
    await told.close();
    const strict = await open(mailerFor(port, { domains: [] }), { mailPauseMs: 0 });
    expect(await strict.test(found)).toBe('it was not taken');
    expect(problems.at(-1)).toBe('the webhook of principal cms/alice: its domain is not allowed');
  });

  it('are text, whatever an account is called', async () => {
    const [, port] = await serve();
    await hook(alice);
    const account = 'prefix:cms/raw/a\r\nBcc: x@y.org\r\n\r\nPay here/';
    (await open(mailerFor(port), patient)).tell([await alarm(1, { account })]);
    await expect.poll(untold, soon).toBe(0);
    const text = mails[0]?.text.replace(/=\r\n/g, '') ?? '';
    expect(mails[0]?.to).toEqual([address]);
    expect(text).not.toMatch(/^Bcc|^Pay here/m);
    expect(text).toContain('raw/a\\r\\nBcc: x@y.org');
  });
});

describe('an address', () => {
  const mailer = { allows: (one: string) => one.endsWith('@cms.example.org') };
  const refusal = (text: string, isOperator = false, by: typeof mailer | null = mailer) => {
    try {
      checkAddress(text, { mailer: by, isOperator });
      return null;
    } catch (error) {
      return (error as Error).message;
    }
  };

  it.each([
    ...['', 'alice', '@cms.example.org', 'alice@', 'alice@localhost', 'a b@cms.example.org'],
    ...['a@cms.example.org,b@x.org', 'a@cms.example.org?cc=b@x.org', 'a@cms.example.org\r\nBcc: b'],
    ...['"a"@cms.example.org', 'a%0ab@cms.example.org>', `${'a'.repeat(65)}@cms.example.org`],
    ...[`a@${'b.'.repeat(130)}org`, 'a@[127.0.0.1]', 'Alice <a@cms.example.org>', 'a@b..c'],
  ])('%j is none, for operators neither', (text) => {
    expect(refusal(text, true)).toMatch(/must be an address such as/);
  });

  it('is one of the domains that the operator allows, but for operators', () => {
    expect(refusal('alice@cms.example.org')).toBe(null);
    expect(refusal('alice@example.com')).toMatch(/example.com is none/);
    expect(refusal('alice@cms.example.org.example.com')).toMatch(/is none/);
    expect(refusal('alice@example.com', true)).toBe(null);
    expect(refusal('alice@cms.example.org', true, null)).toMatch(/has no mail server/);
  });
});
