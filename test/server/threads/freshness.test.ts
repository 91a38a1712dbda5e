// What was changed holds for the next request, whichever thread gets it, also one that was
// blocked meanwhile: changes of every kind are made over a connection to each thread in turn, and
// tried on one of each as soon as they are answered. BURSAR_FULL=1 makes 10,000 changes.
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { as, type Message, newPrincipal, type Target } from '../../protocol/target.ts';
import { Connection, startToldThreads, type ToldThreads } from './threads-rig.ts';

const isFull = process.env.BURSAR_FULL === '1';
vi.setConfig({ testTimeout: isFull ? 3_600_000 : 180_000, hookTimeout: 120_000 });

const threads = 4;
const changes = isFull ? 10_000 : 140;
/** How long one is blocked while much is changed; its answers wait for it. */
const blockedMs = isFull ? 8000 : 3000;
/** Until it is known which lead to which thread. */
const tried = 64;

const [principals, grants] = ['principals', 'grants'].map((of) => `/_/v1/tenants/default/${of}`);
const alice = 'principal:default/alice';
const read = { method: 'GET', path: '/shared/small' };

let gateway: ToldThreads;
let target: Target;
let reader: Target;
/** One to each thread, by its number. */
const connections: Connection[] = [];
let spread: number[] = [];

beforeAll(async () => {
  gateway = await startToldThreads(threads);
  target = gateway.target;
  reader = as(target, await newPrincipal(target, { name: 'alice' }));
  spread = Array.from({ length: threads }, () => 0);
  for (let i = 0; i < tried; i++) {
    const connection = new Connection();
    const { thread } = await connection.ask(target, read);
    spread[thread] = (spread[thread] ?? 0) + 1;
    if (connections[thread]) connection.close();
    else connections[thread] = connection;
  }
  await change({ method: 'PUT', path: '/shared' });
  await change({ method: 'PUT', path: '/versioned' });
  await change({ method: 'PUT', path: '/shared/small', body: 'small' });
  const rule = { subjects: [alice], actions: ['s3:GetObject'], bucket: 'shared' };
  await call('PUT', `${grants}/reads`, { ...rule, effect: 'allow' });
});

afterAll(async () => {
  for (const connection of connections) connection.close();
  await gateway?.stop();
});

/** The thread to which changes come: one that is not blocked. */
let changing = 0;

async function change(message: Message): Promise<void> {
  const { status, text } = await (connections[changing] as Connection).ask(target, message);
  expect([200, 204], text).toContain(status);
}

function call(method: string, path: string, content?: object) {
  return (connections[changing] as Connection).call(target, method, path, content);
}

/** Both ways of one thing: makes the change, and gives what each thread is to say then. */
interface Turn {
  name: string;
  make: (isOn: boolean) => Promise<unknown>;
  /** Gives whether it is on, as this thread has it. */
  isOn: (connection: Connection) => Promise<boolean>;
}

const isRead = async (connection: Connection, who: Target): Promise<boolean> => {
  const { status } = await connection.ask(who, read);
  expect([200, 403]).toContain(status);
  return status === 200;
};
const isDenied = async (connection: Connection) => !(await isRead(connection, reader));

function turnsOf(): Turn[] {
  let token = { token: '', jti: '' };
  let keys = reader;
  const denial = { subjects: [alice], actions: ['s3:GetObject'], bucket: 'shared' };
  const policy = {
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Deny', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::shared/*' },
    ],
  };
  const put = (path: string, query: string, body: string) =>
    change({ method: 'PUT', path, query: [[query, '']], body });
  return [
    {
      name: 'a token',
      make: async (isOn) => {
        const wanted = { scope: 'storage.read:/shared', expiresIn: 3600 };
        if (isOn) token = await call('POST', '/_/v1/tokens', wanted);
        else await call('DELETE', `/_/v1/tokens/${token.jti}`);
      },
      isOn: async (connection) => {
        const { status } = await connection.bear(target, token.token, read);
        expect([200, 403]).toContain(status);
        return status === 200;
      },
    },
    {
      name: 'a denial',
      make: (isOn) =>
        isOn
          ? call('PUT', `${grants}/denies`, { ...denial, effect: 'deny' })
          : call('DELETE', `${grants}/denies`),
      isOn: isDenied,
    },
    {
      name: 'a principal that is not active',
      make: (isOn) => call('PATCH', `${principals}/alice`, { active: !isOn }),
      isOn: isDenied,
    },
    {
      name: 'a limit that is used up',
      make: (isOn) => {
        const limits = { requests: { total: isOn ? 0 : 1_000_000 } };
        return call('PUT', `/_/v1/limits/${alice}`, limits);
      },
      isOn: isDenied,
    },
    {
      name: 'a policy',
      make: (isOn) =>
        isOn
          ? put('/shared', 'policy', JSON.stringify(policy))
          : change({ method: 'DELETE', path: '/shared', query: [['policy', '']] }),
      isOn: isDenied,
    },
    {
      name: 'an access key',
      make: async (isOn) => {
        const all = `${principals}/alice/access-keys`;
        if (isOn) keys = as(target, await call('POST', all, {}));
        else await call('DELETE', `${all}/${keys.keys.accessKeyId}`);
      },
      isOn: (connection) => isRead(connection, keys),
    },
    {
      name: 'versioning',
      make: (isOn) => {
        const status = `<Status>${isOn ? 'Enabled' : 'Suspended'}</Status>`;
        const body = `<VersioningConfiguration>${status}</VersioningConfiguration>`;
        return put('/versioned', 'versioning', body);
      },
      isOn: async (connection) => {
        const written = { method: 'PUT', path: '/versioned/key', body: 'small' };
        const { status, versionId } = await connection.ask(target, written);
        expect(status).toBe(200);
        return versionId !== undefined;
      },
    },
  ];
}

it('has connections to each thread, and to none more than twice its share', () => {
  expect(connections.filter(Boolean)).toHaveLength(threads);
  for (const count of spread) expect(count).toBeLessThanOrEqual((2 * tried) / threads);
});

it('is not stale on any thread', async () => {
  const turns = turnsOf();
  const stale: string[] = [];
  for (let made = 0; made < changes; ) {
    for (const { name, make, isOn } of turns) {
      for (const wanted of [true, false]) {
        changing = made % threads;
        await make(wanted);
        made += 1;
        const seen = await Promise.all(connections.map(isOn));
        for (const [thread, is] of seen.entries()) {
          if (is !== wanted) stale.push(`thread ${thread} after change ${made}, of ${name}`);
        }
      }
    }
  }
  expect(stale).toEqual([]);
  changing = 0;
});

it('is not held up by a thread that is blocked, which is not stale afterwards', async () => {
  const last = threads - 1;
  const [blocked, others] = [connections[last] as Connection, connections.slice(0, last)];
  for (const { name, make, isOn } of turnsOf()) {
    await make(true);
    expect(await isOn(blocked), name).toBe(true);
    await gateway.block(last);
    await make(false);
    for (const connection of others) expect(await isOn(connection), name).toBe(false);
    const asked = isOn(blocked);
    expect(gateway.isBlocked(last)).toBe(true);
    gateway.release(last);
    expect(await asked, name).toBe(false);
  }
});

it('is not stale after it was blocked for seconds, in which much was changed', async () => {
  const last = threads - 1;
  const [blocked, others] = [connections[last] as Connection, connections.slice(0, last)];
  const turns = turnsOf();
  const rights = turns.filter(({ isOn }) => isOn !== isDenied);
  for (const { make, isOn, name } of rights) {
    await make(true);
    expect(await isOn(blocked), name).toBe(true);
  }
  await gateway.block(last);
  const endMs = performance.now() + blockedMs;
  do {
    for (const { name, make, isOn } of turns) {
      for (const wanted of [true, false]) {
        await make(wanted);
        for (const connection of others) expect(await isOn(connection), name).toBe(wanted);
      }
    }
  } while (performance.now() < endMs);
  expect(gateway.isBlocked(last)).toBe(true);
  const asked = turns.map(({ isOn }) => isOn(blocked));
  gateway.release(last);
  expect(await Promise.all(asked)).toEqual(turns.map(() => false));
});

it('reads what is sealed with a root key that was added while it was blocked', async () => {
  const last = threads - 1;
  const [blocked, others] = [connections[last] as Connection, connections.slice(0, last)];
  await gateway.block(last);
  await call('POST', '/_/v1/keys/rotations');
  await change({ method: 'PUT', path: '/shared/resealed', body: 'new key' });
  const message = { method: 'GET', path: '/shared/resealed' };
  for (const connection of others) expect((await connection.ask(target, message)).status).toBe(200);
  const asked = blocked.ask(target, message);
  expect(gateway.isBlocked(last)).toBe(true);
  gateway.release(last);
  expect(await asked).toMatchObject({ status: 200, text: 'new key', thread: last });
});
