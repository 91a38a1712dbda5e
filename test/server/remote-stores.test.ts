// How a gateway takes S3 stores for its own: numbers, owner markers, stores that are away, moved,
// foreign or not configured any more. The servers here are maps; the real driver is held to its own
// tests, and to the protocol suite.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createBucket } from '#bursar/catalog/bucket-changes.js';
import { listStores, registerStore } from '#bursar/catalog/stores.js';
import { CommandFailure } from '#bursar/core/command-failure.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { Refusal } from '#bursar/core/errors.js';
import { Keyring } from '#bursar/core/keyring.js';
import { Sealer } from '#bursar/core/sealing.js';
import { schema } from '#bursar/ledger/schema.js';
import { RemoteStores } from '#bursar/server/remote-stores.js';
import type { StoreSettings } from '#bursar/server/settings/store-settings.js';
import { AttemptFailure } from '#bursar/tiering/stores/attempt-failure.js';
import type { StoreDriver, StoreEvent, StoreState } from '#bursar/tiering/stores/driver.js';
import type { RemoteStore } from '#bursar/tiering/stores/store.js';
import { unmeasured } from '#bursar/tiering/stores/store-meter.js';
import { claimStore } from '#bursar/tiering/stores/store-owner.js';

/** What is stored at each place, the places that cannot be reached, and those that are closed. */
const places = new Map<string, Map<string, Buffer>>();
const away = new Set<string>();
const denied = new Set<string>();
/** Those that answer every request with a refusal. */
const refused = new Set<string>();
/** Places whose probe takes until these resolve, or until it is ended. */
const slow = new Map<string, Promise<void>>();

function aborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((_, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason));
  });
}

class MapDriver implements StoreDriver {
  readonly number: number;
  readonly name: string;
  readonly extentBytesMax = 8 * 1024 * 1024;
  readonly meter = unmeasured;
  isClosed = false;
  readonly #url: string;

  constructor({ number, name, url }: StoreSettings & { number: number }) {
    this.number = number;
    this.name = name;
    this.#url = url;
  }

  readonly opened = {} as StoreDriver['opened'];

  loadCredentials(): Promise<never> {
    return Promise.reject(new Error('none'));
  }

  followBreaker(): void {}

  state(): StoreState {
    const isAway = away.has(this.#url);
    const counts = {} as StoreState['retries'];
    return {
      ready: !isAway,
      breaker: isAway ? 'open' : 'closed',
      findings: [
        { capability: 'write', ok: true, detail: 'stored', latencyMs: 1 },
        { capability: 'condition', ok: false, detail: 'HTTP 200', latencyMs: 1 },
      ],
      retries: counts,
      failures: counts,
      hedges: { sent: 0, won: 0, lost: 0 },
      inFlight: 0,
      waiting: 0,
      requests: 7,
      lastFailure: isAway ? { reason: 'refused', message: 'away', timeMs: 0 } : undefined,
    };
  }

  async close(): Promise<void> {
    this.isClosed = true;
  }

  async put(id: Buffer, pieces: readonly Buffer[]): Promise<void> {
    this.#objects().set(`extents/${id.toString('hex')}`, Buffer.concat(pieces));
  }

  replace(id: Buffer, pieces: readonly Buffer[]): Promise<void> {
    return this.put(id, pieces);
  }

  async read(): Promise<void> {
    this.#objects();
  }

  async readEnd(): Promise<undefined> {}

  async remove(): Promise<void> {}

  async discard(): Promise<void> {}

  async *list() {}

  async getObject(name: string): Promise<Buffer | undefined> {
    return this.#objects().get(name);
  }

  async putObject(name: string, bytes: Buffer, options: { ifAbsent?: boolean } = {}) {
    if (options.ifAbsent && this.#objects().has(name)) return 'exists' as const;
    this.#objects().set(name, bytes);
    return 'stored' as const;
  }

  async removeObject(name: string): Promise<void> {
    this.#objects().delete(name);
  }

  async *listObjects(prefix: string) {
    for (const [name, { length: sizeBytes }] of this.#objects()) {
      if (name.startsWith(prefix)) yield { name, sizeBytes };
    }
  }

  #objects(): Map<string, Buffer> {
    if (away.has(this.#url)) throw new Refusal('ServiceUnavailable', { cause: new Error('away') });
    if (refused.has(this.#url)) {
      const cause = new AttemptFailure('denied', 'HTTP 403 AccessDenied');
      throw new Refusal('ServiceUnavailable', { cause });
    }
    const objects = places.get(this.#url) ?? new Map<string, Buffer>();
    places.set(this.#url, objects);
    return objects;
  }
}

/** One data folder: its database and its keys. */
class Folder {
  readonly #path = mkdtempSync(join(tmpdir(), 'bursar-stores-'));
  readonly db: OpenDatabase;
  readonly keyring: Keyring;
  readonly sealer: Sealer;
  readonly lines: string[] = [];
  readonly drivers: MapDriver[] = [];
  /** Of the driver that was opened last. */
  onEvent: ((event: StoreEvent) => void) | undefined;
  #stores: RemoteStores | undefined;

  constructor(key: number) {
    this.db = openDatabase(join(this.#path, 'test.db'), { readonly: false, cacheKib: 1024 });
    this.db.exec(schema);
    this.keyring = new Keyring([{ epoch: 1, key: Buffer.alloc(32, key) }]);
    this.sealer = new Sealer(this.keyring);
  }

  async start(stores: Record<string, string>, defaultStore = 'local'): Promise<RemoteStores> {
    await this.#stores?.close();
    const settings = Object.entries(stores).map(([name, url]) => ({ name, url }));
    this.lines.length = 0;
    this.#stores = await RemoteStores.open({
      choice: { stores: settings, defaultStore },
      read: this.db.tx,
      ledger: {
        maintain: async (work) => {
          if (work.kind !== 'registerStore') throw new Error(work.kind);
          return registerStore(this.db.tx, work.name, work.location);
        },
      },
      sealer: this.sealer,
      openDriver: async (one) => {
        if (denied.has(one.url)) throw new Error('HTTP 403 AccessDenied');
        await Promise.race([slow.get(one.url), aborted(one.signal)]);
        const driver = new MapDriver(one);
        this.drivers.push(driver);
        this.onEvent = one.onEvent;
        return driver;
      },
      localState: () => ({ ready: true, freeBytes: 7 }),
      journalState: () => undefined,
      log: (line) => this.lines.push(line),
      timing: { startMsMax: 200, retryMsMin: 5, retryMsMax: 20, watchMs: 5 },
    });
    return this.#stores;
  }

  async addBucket(store: number): Promise<void> {
    const { tx } = this.db;
    await tx.run("INSERT OR IGNORE INTO tenants (name, created_ms) VALUES ('one', 0)");
    await tx.run(
      "INSERT OR IGNORE INTO principals VALUES ('one', 'alice', 'person', 'member', 0, 1)",
    );
    const bucket = { tenant: 'one', name: `in-${store}`, owner: 'alice', store };
    await createBucket(tx, { kind: 'createBucket', ...bucket }, { seq: 0, timeMs: 0 });
  }

  async end(): Promise<void> {
    await this.#stores?.close();
    this.db.close();
    rmSync(this.#path, { recursive: true });
  }
}

let folder: Folder;
let other: Folder;

beforeEach(() => {
  places.clear();
  away.clear();
  denied.clear();
  refused.clear();
  slow.clear();
  folder = new Folder(1);
  other = new Folder(2);
});

afterEach(async () => {
  await folder.end();
  await other.end();
});

const gateOf = (stores: RemoteStores, number: number): RemoteStore =>
  stores.gates.find((gate) => gate.number === number) as RemoteStore;

const id = Buffer.alloc(16, 1);
const write = (stores: RemoteStores, number: number): Promise<void> =>
  gateOf(stores, number).put(id, [Buffer.from('x')]);

async function refusalOf(attempt: Promise<unknown>): Promise<string> {
  const error = await attempt.then(
    () => undefined,
    (reason) => reason,
  );
  expect(error).toBeInstanceOf(CommandFailure);
  return (error as CommandFailure).message;
}

describe('a store', () => {
  test('gets a number once and for ever', async () => {
    const first = await folder.start({ cold: 's3://cold', near: 's3://near' });
    expect(['cold', 'near', 'local', 'none'].map((name) => first.numberOf(name))).toEqual([
      2,
      3,
      1,
      undefined,
    ]);
    const second = await folder.start({ deep: 's3://deep', near: 's3://near' });
    expect([second.numberOf('deep'), second.numberOf('near')]).toEqual([4, 3]);
    const third = await folder.start({ cold: 's3://cold' });
    expect(third.numberOf('cold')).toBe(2);
    expect(await listStores(folder.db.tx)).toEqual([
      { number: 2, name: 'cold', location: 's3://cold' },
      { number: 3, name: 'near', location: 's3://near' },
      { number: 4, name: 'deep', location: 's3://deep' },
    ]);
  });

  test('is refused when no number is left, and those that have one are not', async () => {
    await folder.db.tx.run("INSERT INTO stores VALUES (255, 'last', 's3://last', NULL, -1)");
    expect(await refusalOf(folder.start({ cold: 's3://cold' }))).toMatch(/no number is left/);
    expect((await folder.start({ last: 's3://last' })).numberOf('last')).toBe(255);
  });

  test('that was found ours takes bytes, and shows it', async () => {
    const stores = await folder.start({ cold: 's3://cold' }, 'cold');
    await write(stores, 2);
    expect([...(places.get('s3://cold')?.keys() ?? [])]).toEqual([
      'owner',
      `extents/${id.toString('hex')}`,
    ]);
    expect(stores.all()).toEqual([
      expect.objectContaining({ name: 'local', number: 1, ready: true, health: { freeBytes: 7 } }),
      {
        number: 2,
        name: 'cold',
        location: 's3://cold',
        isConfigured: true,
        ready: true,
        canRead: true,
        reason: null,
        declared: {
          domains: [],
          annualLoss: null,
          kind: 'online',
          storageClass: null,
          drills: false,
          recallDelayMs: null,
        },
        health: { breaker: 'closed', capabilities: { write: true, condition: false } },
        detail: expect.objectContaining({ requests: 7 }),
      },
    ]);
    expect(folder.lines).toEqual([
      'store cold is ready: write; used without condition: HTTP 200 (s3://cold)',
    ]);
    expect(stores.defaultName).toBe('cold');
  });

  test('closes with the gateway', async () => {
    await (await folder.start({ cold: 's3://cold' })).close();
    expect(folder.drivers.map((driver) => driver.isClosed)).toEqual([true]);
  });
});

describe('the owner of a prefix', () => {
  test('is one data folder: another is refused and changes nothing', async () => {
    await folder.start({ cold: 's3://cold' });
    const before = places.get('s3://cold')?.get('owner');
    expect(await refusalOf(other.start({ cold: 's3://cold' }))).toMatch(
      /^store cold: s3:\/\/cold belongs to another gateway/,
    );
    expect(places.get('s3://cold')?.get('owner')).toBe(before);
    expect(other.drivers.map((driver) => driver.isClosed)).toEqual([true]);
  });

  test('that had the same keys is told apart: it may be one whose database is lost', async () => {
    await folder.start({ cold: 's3://cold' });
    const heir = new Folder(1);
    expect(await refusalOf(heir.start({ cold: 's3://cold' }))).toMatch(
      /run bursar restore or rebuild$/,
    );
    await heir.end();
  });

  test('is one of its stores only', async () => {
    await folder.start({ cold: 's3://cold' });
    expect(await refusalOf(folder.start({ near: 's3://cold' }))).toMatch(
      /s3:\/\/cold is the place of another store of this gateway/,
    );
  });

  test.each([
    ['that is no JSON', () => 'x'],
    ['that is empty', () => ''],
    ['that is JSON of something else', () => 'null'],
    ['without a seal', (text: string) => JSON.stringify({ ...JSON.parse(text), seal: undefined })],
    ['of another instance', (text: string) => text.replace(/"instance":"./, '"instance":"x')],
    ['of another time', (text: string) => text.replace(/"since":"2/, '"since":"1')],
    ['of another version', (text: string) => text.replace('"version":1', '"version":2')],
    ['that is too long', (text: string) => text.padEnd(5000)],
  ])('whose mark is one %s is nobody we know', async (_what, damage) => {
    await folder.start({ cold: 's3://cold' });
    const objects = places.get('s3://cold') as Map<string, Buffer>;
    objects.set('owner', Buffer.from(damage(String(objects.get('owner')))));
    expect(await refusalOf(folder.start({ cold: 's3://cold' }))).toMatch(/another gateway/);
  });

  test('whose mark was removed is not set again while buckets are in the store', async () => {
    await folder.start({ cold: 's3://cold' });
    await folder.addBucket(2);
    const mark = places.get('s3://cold')?.get('owner') as Buffer;
    places.get('s3://cold')?.delete('owner');
    const stores = await folder.start({ cold: 's3://cold', near: 's3://near' });
    await write(stores, 3);
    await expect(write(stores, 2)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect(stores.all()[1]?.reason).toMatch(/^s3:\/\/cold has lost the mark of its owner/);
    expect(folder.lines[0]).toMatch(/^store cold is not available: .*bursar store adopt/);
    expect(places.get('s3://cold')?.size).toBe(0);
    places.get('s3://cold')?.set('owner', mark);
    await expect.poll(() => stores.all()[1]?.ready).toBe(true);
    await write(stores, 2);
  });

  test('is set again where nothing is in the store', async () => {
    await folder.start({ cold: 's3://cold' });
    places.get('s3://cold')?.delete('owner');
    await write(await folder.start({ cold: 's3://cold' }), 2);
    expect(places.get('s3://cold')?.has('owner')).toBe(true);
  });

  test.each(['extents/01/x', 'journal/x'])(
    'is nobody new where %s is, without a mark',
    async (name) => {
      places.set('s3://cold', new Map([[name, Buffer.from('x')]]));
      expect(await refusalOf(folder.start({ cold: 's3://cold' }))).toMatch(/no mark of its owner/);
      expect([...(places.get('s3://cold')?.keys() ?? [])]).toEqual([name]);
    },
  );

  test('that is gone while the gateway runs shuts the store', async () => {
    const stores = await folder.start({ cold: 's3://cold' });
    await folder.addBucket(2);
    await stores.confirmOwner(2);
    places.set('s3://cold', new Map());
    const refused = { code: 'ServiceUnavailable' };
    await expect(stores.confirmOwner(2)).rejects.toMatchObject(refused);
    await expect(write(stores, 2)).rejects.toMatchObject(refused);
    expect(places.get('s3://cold')?.size).toBe(0);
    expect(folder.lines.filter((line) => line.includes('has lost the mark'))).toHaveLength(1);
  });

  test('cannot be confirmed while the store does not answer, which shuts nothing', async () => {
    const stores = await folder.start({ cold: 's3://cold' });
    away.add('s3://cold');
    await expect(stores.confirmOwner(2)).rejects.toThrow();
    away.clear();
    await stores.confirmOwner(2);
    await write(stores, 2);
  });

  test('of a store that refuses all is said to be silent, until it is not', async () => {
    const stores = await folder.start({ cold: 's3://cold' });
    refused.add('s3://cold');
    await expect.poll(() => stores.all()[1]?.reason).toBe('HTTP 403 AccessDenied');
    expect(stores.all()[1]?.ready).toBe(false);
    refused.clear();
    await expect.poll(() => stores.all()[1]?.ready).toBe(true);
    await write(stores, 2);
    expect(folder.lines.slice(-2)).toEqual([
      'store cold does not serve: HTTP 403 AccessDenied',
      'store cold answers again',
    ]);
  });

  test('that changes while the gateway runs is noticed: nothing is read or written', async () => {
    const stores = await folder.start({ cold: 's3://cold' });
    await write(stores, 2);
    const driver = new MapDriver({ number: 9, name: 'x', url: 's3://cold' });
    const claim = { instance: 'ab', store: 2 };
    expect(await claimStore(driver, folder.sealer, claim)).toBe('former');
    expect(await claimStore(driver, folder.sealer, claim, { takeOver: true })).toBe('us');
    await expect.poll(() => stores.all()[1]?.ready).toBe(false);
    await expect(write(stores, 2)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect(stores.all()[1]?.reason).toMatch(/belongs to another data folder/);
  });

  test('is decided by one claim, where several claim at once', async () => {
    const driver = new MapDriver({ number: 2, name: 'x', url: 's3://cold' });
    const owners = await Promise.all(
      ['a', 'b', 'c'].map((instance) => claimStore(driver, folder.sealer, { instance, store: 2 })),
    );
    expect(owners.sort()).toEqual(['former', 'former', 'us']);
  });
});

describe('a store that moves', () => {
  test('with its data is followed, and the new place remembered', async () => {
    await folder.start({ cold: 's3://cold' });
    await folder.addBucket(2);
    places.set('s3://moved', new Map(places.get('s3://cold')));
    await write(await folder.start({ cold: 's3://moved' }), 2);
    expect(folder.lines[0]).toBe('store cold has moved from s3://cold to s3://moved');
    expect(await listStores(folder.db.tx)).toMatchObject([{ location: 's3://moved' }]);
  });

  test('without its data is refused, and nothing is written there', async () => {
    await folder.start({ cold: 's3://cold' });
    await folder.addBucket(2);
    expect(await refusalOf(folder.start({ cold: 's3://empty' }))).toBe(
      'store cold: it was at s3://cold; s3://empty has none of its data',
    );
    expect(places.get('s3://empty')?.size).toBe(0);
    expect(await listStores(folder.db.tx)).toMatchObject([{ location: 's3://cold' }]);
  });

  test('before any bucket is in it may go anywhere', async () => {
    await folder.start({ cold: 's3://cold' });
    await write(await folder.start({ cold: 's3://empty' }), 2);
  });
});

describe('a store that is away', () => {
  test('is refused at once to who asks, and comes back by itself', async () => {
    away.add('s3://cold');
    const stores = await folder.start({ cold: 's3://cold', near: 's3://near' });
    await write(stores, 3);
    await expect(write(stores, 2)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect(() => gateOf(stores, 2).extentBytesMax).toThrow(Refusal);
    expect(stores.numberOf('cold')).toBe(2);
    expect(stores.all()).toMatchObject([
      { name: 'local', ready: true },
      { name: 'cold', ready: false, reason: 'away' },
      { name: 'near', ready: true },
    ]);
    expect(folder.lines).toContain('store cold is not available: away (s3://cold)');
    away.clear();
    await expect.poll(() => stores.all()[1]?.ready).toBe(true);
    await write(stores, 2);
    expect(folder.lines.filter((line) => line.includes('not available'))).toHaveLength(1);
  });

  test('for longer than a start waits is opened when it answers', async () => {
    let answer = () => {};
    slow.set(
      's3://cold',
      new Promise((resolve) => {
        answer = resolve;
      }),
    );
    const stores = await folder.start({ cold: 's3://cold' });
    await expect(write(stores, 2)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect(stores.all()[1]).toMatchObject({ ready: false, reason: 'it was not reached yet' });
    answer();
    await expect.poll(() => stores.all()[1]?.ready).toBe(true);
    await write(stores, 2);
  });

  test('for ever keeps no gateway from stopping', async () => {
    slow.set('s3://cold', new Promise(() => {}));
    const stores = await folder.start({ cold: 's3://cold' });
    await stores.close();
    expect(folder.drivers).toEqual([]);
  });

  test('and turns out to be another’s stays shut', async () => {
    await other.start({ cold: 's3://cold' });
    away.add('s3://cold');
    const stores = await folder.start({ cold: 's3://cold' });
    away.clear();
    await expect.poll(() => stores.all()[1]?.reason).toMatch(/belongs to another gateway/);
    await expect(write(stores, 2)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
  });
});

describe('a store that cannot be used', () => {
  test('is refused at its first start, and waited for once it has our data', async () => {
    denied.add('s3://cold');
    expect(await refusalOf(folder.start({ cold: 's3://cold' }))).toBe(
      'store cold: s3://cold cannot be used: HTTP 403 AccessDenied',
    );
    denied.clear();
    await folder.start({ cold: 's3://cold' });
    denied.add('s3://cold');
    const stores = await folder.start({ cold: 's3://cold' });
    expect(stores.all()[1]).toMatchObject({ ready: false, isConfigured: true, health: {} });
    await expect(write(stores, 2)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    denied.clear();
    await expect.poll(() => stores.all()[1]?.ready).toBe(true);
    await write(stores, 2);
  });
});

describe('a server that goes down', () => {
  test('is said to be down once, and once to be back', async () => {
    await folder.start({ cold: 's3://cold' });
    folder.lines.length = 0;
    const failure = new AttemptFailure('refused', 'no connection');
    for (const state of ['open', 'half-open', 'open', 'half-open', 'closed'] as const) {
      folder.onEvent?.({ kind: 'breaker', state, failure });
    }
    expect(folder.lines).toEqual([
      'store cold is taken for down: no connection',
      'store cold answers again',
    ]);
  });
});

describe('a store that is not configured any more', () => {
  test('is shown while buckets are in it, refused to them, and takes no new ones', async () => {
    await folder.start({ cold: 's3://cold', near: 's3://near' });
    await folder.addBucket(2);
    const stores = await folder.start({});
    expect(stores.all().slice(1)).toMatchObject([
      { name: 'cold', isConfigured: false, ready: false, location: 's3://cold' },
    ]);
    expect(stores.numberOf('cold')).toBeUndefined();
    expect(stores.nameOf(2)).toBe('cold');
    await expect(write(stores, 2)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect(folder.lines[0]).toMatch(/^store cold is not configured, but buckets are in it/);
  });
});
