// A native API over a real SQLite file, with commits that apply changes and write records as the
// ledger does. Requests say who they are in a header instead of signing.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Fastify, { type FastifyInstance, type InjectOptions } from 'fastify';
import { ChangeLog } from '#bursar/audit/changes/change-log.js';
import { RecordLog } from '#bursar/audit/record-log.js';
import { RecordStore } from '#bursar/audit/record-store.js';
import { RecordSearch } from '#bursar/audit/search/record-search.js';
import { ShownRecords } from '#bursar/audit/shown-records.js';
import type { Delegation } from '#bursar/authz/identity.js';
import { accessKeyContext } from '#bursar/authz/key-rows.js';
import { everywhere, onlyPrivate } from '#bursar/authz/oidc/address-policy.js';
import { TokenKeys } from '#bursar/authz/token-keys.js';
import { setRecordReads } from '#bursar/catalog/bucket-changes.js';
import { openDatabase } from '#bursar/core/database.js';
import { type ErrorCode, Refusal } from '#bursar/core/errors.js';
import { newRequestId } from '#bursar/core/ids.js';
import { Keyring } from '#bursar/core/keyring.js';
import { principalId, type Role } from '#bursar/core/principal.js';
import type { Limits } from '#bursar/core/quota-terms.js';
import { RootKeyFile } from '#bursar/core/root-keys.js';
import { Sealer } from '#bursar/core/sealing.js';
import { Mailer } from '#bursar/gateway/alarms/mail.js';
import type { VerifyRequest } from '#bursar/gateway/data-verifier.js';
import { LogHead } from '#bursar/gateway/log/log-head.js';
import { registerNativeApi } from '#bursar/gateway/native/api.js';
import type { NativeDeps, NativeEntry } from '#bursar/gateway/native/deps.js';
import { nativeServerOptions } from '#bursar/gateway/native/server-options.js';
import { readCorsRules } from '#bursar/gateway/s3/buckets/cors.js';
import { StoreDrills } from '#bursar/gateway/store-drills.js';
import type { StoreView } from '#bursar/gateway/store-list.js';
import { MetricRegistry } from '#bursar/instruments/metric-registry.js';
import { RecentEverywhere, RecentRequests } from '#bursar/instruments/recent-requests.js';
import type { Work } from '#bursar/ledger/commands/command.js';
import { type IdentityChange, identityCommandOf } from '#bursar/ledger/commands/identities.js';
import { eventsOf } from '#bursar/ledger/commands/index.js';
import { setAlarmHook } from '#bursar/ledger/commands/limits.js';
import { LogKeyFile } from '#bursar/ledger/log-key-file.js';
import { schema } from '#bursar/ledger/schema.js';
import { AccountBook } from '#bursar/quota/leases/account-book.js';
import { AccountTables } from '#bursar/quota/leases/account-tables.js';
import { LimitedAccounts } from '#bursar/quota/limited-accounts.js';
import type { PriceBook } from '#bursar/quota/prices/price-book.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { Rates } from '#bursar/quota/rates.js';
import type { Directory } from '#bursar/state/directory.js';
import type { Revocations } from '#bursar/state/revocations.js';
import { State } from '#bursar/state/state.js';

export interface Fixture {
  app: FastifyInstance;
  directory: Directory;
  sealer: Sealer;
  tokenKeys: TokenKeys;
  revocations: Revocations;
  /** All that was committed, in order. */
  entries: NativeEntry[];
  /** What was asked of the verifier, which finds nothing. */
  verifications: VerifyRequest[];
  /** What requests are held to. */
  limitsInMemory: ReadonlyMap<string, Limits | null>;
  /** Makes the next commit fail as a bug would. */
  breakNextCommit(): void;
  /** What the credential of whose key this is leaves from now on; null: everything. */
  narrow(key: string, delegation: Delegation | null): void;
  setReady(ready: boolean): void;
  /** Applies a change without the API. */
  apply(change: IdentityChange): Promise<void>;
  call(who: string, method: string, url: string, body?: unknown): Promise<Answer>;
  inject(options: InjectOptions): Promise<Answer>;
  addBucket(tenant: string, name: string, owner: string): Promise<void>;
  /** Tells alarms by mail to these domains from now on. */
  mailTo(domains: readonly string[]): void;
  /** The webhooks of a tenant and its principals. */
  countHooks(tenant: string): Promise<number>;
  /** Charges each account one request. */
  charge(...accounts: string[]): Promise<void>;
  close(): Promise<void>;
}

export interface Answer {
  status: number;
  type: string;
  receipt: string | undefined;
  text: string;
  /** Parsed, when it is JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of many shapes
  json: any;
}

function viewOf(number: number, name: string, isConfigured: boolean): StoreView {
  const reason = isConfigured ? null : 'it is not configured';
  const location = name === 'local' ? 'local' : `s3://${name}`;
  return {
    ...{ number, name, location, isConfigured, reason },
    ...{ ready: isConfigured, canRead: isConfigured },
    declared: {
      kind: 'online',
      domains: ['disk1'],
      annualLoss: 0.03,
      storageClass: null,
      recallDelayMs: null,
      drills: true,
    },
    health: { breaker: 'closed' },
    detail: { requests: 7 },
  };
}

const free = readPriceBooks().named('free') as PriceBook;

const views = [viewOf(1, 'local', true), viewOf(2, 'cold', true), viewOf(3, 'gone', false)];

export async function openFixture(): Promise<Fixture> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-native-'));
  const db = openDatabase(join(folder, 'test.db'), { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  const log = await RecordLog.open(db.tx);
  const records = new RecordStore(db.tx, async () => Buffer.alloc(0));
  const search = new RecordSearch({ read: db.tx, store: records, index: null });
  const rootKeys = await RootKeyFile.open(join(folder, 'keys', 'root-keys.json'), null);
  const keyring = new Keyring(rootKeys.keys);
  const sealer = new Sealer(keyring);
  const issuerPolicy = onlyPrivate([]);
  const readCors = readCorsRules;
  const state = await State.load({ read: db.tx, keyring, sealer, issuerPolicy, readCors });
  const { directory, outside, grants, mounts, revocations } = state;
  const tokenKeys = new TokenKeys(keyring);
  const entries: NativeEntry[] = [];
  const verifications: VerifyRequest[] = [];
  const limitsInMemory = new Map<string, Limits | null>();
  state.limits.begin({
    setLimits: (account, limits) => void limitsInMemory.set(account, limits),
  });
  const delegations = new Map<string, Delegation | null>();
  let broken = false;
  let ready = true;
  let mailer: Mailer | null = null;
  let index = 0;

  const deps: NativeDeps = {
    serveFind: () => {},
    work: async () => 0,
    writeAccounts: async () => {},
    recentRequests: new RecentEverywhere(new RecentRequests()),
    limitedAccounts: new LimitedAccounts(),
    drills: new StoreDrills({
      ...{ read: db.tx, ledger: { maintain: async () => 0 }, confirmPlace: async () => {} },
      stores: {
        remote: () => {
          throw new Error('there is no store');
        },
      },
    }),
    // No test here begins one: test/cli/verify-deep-use.test.ts does, of a gateway that serves.
    deepRuns: {
      begin: () => {
        throw new Error('there is no folder to compare');
      },
      stop: async () => {},
      read: () => ({
        ...{
          isRunning: false,
          records: 0,
          found: 0,
          differences: [],
          summary: null,
          failure: null,
        },
      }),
    },
    directory,
    grants,
    mounts,
    rates: new Rates(),
    buckets: state.buckets,
    snapshots: state.snapshots,
    log: new LogHead(),
    witnesses: { state: () => [] },
    outside,
    sealer,
    rootKeys,
    logKeys: await LogKeyFile.open({ path: join(folder, 'log-keys.json'), read: db.tx }),
    keyring,
    read: db.tx,
    records: new ShownRecords(records, () => {}),
    search,
    changes: new ChangeLog({ read: db.tx, records, search, onAltered: () => {} }),
    inventories: {
      begin: () => {},
      stateOf: () => {
        throw new Error('there are none here');
      },
    },
    sealFaults: { isEmpty: true, checkBucket: () => {} },
    notifier: { stateOf: () => undefined, test: async () => null, renew: () => {} },
    bucketBeginnings: { find: async () => -1 },
    accessOf: () => {
      throw new Error('this fixture has no objects');
    },
    region: 'us-east-1',
    publicUrl: () => 'https://s3.example.org',
    shareUrl: () => 'https://s3.example.org',
    tokenKeys,
    revocations,
    stores: {
      defaultName: 'local',
      all: () => views,
      numberOf: (name) => views.find((view) => view.name === name && view.isConfigured)?.number,
      nameOf: (number) => views.find((view) => view.number === number)?.name ?? '',
      isArchive: () => false,
      declaredOf: () => views[0]?.declared as StoreView['declared'],
    },
    async authenticate(request) {
      const id = String(request.headers['x-test-key'] ?? '');
      const key = await directory.findAccessKey(id);
      if (!key) throw new Refusal('InvalidAccessKeyId');
      return {
        ...key,
        delegation: delegations.get(id) ?? null,
        accessKeyId: id,
        keyThumbprint: null,
        isAnonymous: false,
        evidence: 'shared-secret',
        authentication: null,
      };
    },
    renew: async (_request, who) => who,
    onIntegrityFailure: () => {},
    rights: { epoch: 0 },
    originOf: (request) => ({ source: request.ip, isSecure: false }),
    async commit(entry) {
      if (broken) {
        broken = false;
        throw new Error('the disk is on fire');
      }
      entries.push(entry);
      return commit(entry);
    },
    verifier: {
      async verify(request) {
        verifications.push(request);
        return { position: null, rows: 0, bytes: 0, findings: [] };
      },
    },
    commitFindings: async () => {},
    metrics: new MetricRegistry(),
    metricsToken: undefined,
    priceBooks: readPriceBooks(),
    bookOf: () => free,
    usageRollUp: { catchUp: async () => {} },
    alarms: {
      get mailer() {
        return mailer;
      },
      stateOf: () => ({ waiting: 0, problem: null, toldAt: null }),
      test: async () => null,
      policyOf: () => everywhere,
    },
    isAdministration: () => false,
    health: async () => ({
      ...{ reads: true, writes: ready, problems: ready ? [] : ['Something is wrong.'] },
      detail: { stores: { local: { freeBytes: 7 } } },
    }),
  };

  const accounts = new AccountBook(new AccountTables(db.tx), 'this run');

  async function apply(
    change: NativeEntry['change'],
    timeMs: number,
  ): Promise<{ ok: true } | { ok: false; code: ErrorCode }> {
    if (!change) return { ok: true };
    switch (change.kind) {
      case 'addRootKey':
      case 'rotateLogKey':
      case 'revokeLogKey':
      case 'eraseRecords':
        return { ok: true };
      case 'setRecordReads': {
        const outcome = await setRecordReads(db.tx, change, { seq: 0, timeMs });
        return outcome.ok ? { ok: true } : { ok: false, code: outcome.code };
      }
      case 'setReadPayer':
      case 'changeOwner':
      case 'transferUpload':
      case 'setUndelete':
      case 'purgeHeld':
      case 'createSnapshot':
      case 'deleteSnapshot':
        throw new Error('this fixture has no objects');
      case 'setLimits':
        // Accounts go by the clock, as those who read them do.
        await accounts.setLimits(change.account, change.limits, Date.now());
        await accounts.flush();
        return { ok: true };
      case 'forgetLost':
        await accounts.forgetLost(change.account, Date.now());
        await accounts.flush();
        return { ok: true };
      case 'setAlarmHook': {
        const outcome = await setAlarmHook.apply(db.tx, change, { timeMs } as Work);
        return outcome.ok ? { ok: true } : { ok: false, code: outcome.code };
      }
      case 'confirmClock':
      case 'drillStore':
        return { ok: true };
      default:
        return identityCommandOf(change).apply(db.tx, structuredClone(change), { timeMs, seq: 0 });
    }
  }

  async function commit(entry: NativeEntry): Promise<{ index: number }> {
    const timeMs = Date.parse('2026-01-01T00:00:00Z') + index * 1000;
    const caused = entry.change && (await eventsOf(db.tx, entry.change));
    const verdict = await apply(entry.change, timeMs);
    const error = entry.refused ?? (verdict.ok ? null : verdict.code);
    await log.append(recordOf(entry, error), {
      index,
      timeMs,
      storedBytes: 0,
      storedObjects: 0,
      cost: null,
    });
    await log.write();
    const committed = { index: index++ };
    if (!verdict.ok) throw new Refusal(verdict.code);
    if (caused) await state.apply({ index: state.index + 1, events: caused });
    return committed;
  }

  const app = Fastify({
    ...nativeServerOptions,
    genReqId: newRequestId,
    exposeHeadRoutes: false,
  });
  app.all('/*', async () => 'the S3 side');
  await registerNativeApi(app, deps);
  await app.ready();

  const inject = async (options: InjectOptions): Promise<Answer> => {
    const reply = await app.inject(options);
    const type = String(reply.headers['content-type'] ?? '');
    return {
      status: reply.statusCode,
      type,
      receipt: reply.headers['x-bursar-receipt'] as string | undefined,
      text: reply.body,
      json: type.includes('json') ? reply.json() : undefined,
    };
  };

  return {
    app,
    directory,
    sealer,
    tokenKeys,
    revocations,
    entries,
    verifications,
    limitsInMemory,
    breakNextCommit: () => {
      broken = true;
    },
    narrow: (key, delegation) => void delegations.set(key, delegation),
    setReady: (value) => {
      ready = value;
    },
    apply: async (change) => {
      const caused = await eventsOf(db.tx, change);
      const verdict = await identityCommandOf(change).apply(db.tx, change, { timeMs: 0, seq: 0 });
      if (!verdict.ok) throw new Error(`${change.kind}: ${verdict.code}`);
      if (caused) await state.apply({ index: state.index + 1, events: caused });
    },
    call: (who, method, url, body) =>
      inject({
        method: method as 'GET',
        url,
        headers: {
          'x-test-key': who,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { payload: JSON.stringify(body) }),
      }),
    inject,
    addBucket: async (tenant, name, owner) => {
      const sql = 'INSERT INTO buckets (tenant, name, owner, created_ms) VALUES (?, ?, ?, 0)';
      await db.tx.run(sql, tenant, name, owner);
    },
    mailTo: (domains) => {
      const server = new URL('smtp://127.0.0.1');
      mailer = new Mailer({ server, from: 'bursar@example.org', domains }, 1000);
    },
    countHooks: async (tenant) => {
      const sql = 'SELECT scope FROM alarm_hooks WHERE tenant = ?';
      return (await db.tx.all(sql, tenant)).length;
    },
    charge: async (...names) => {
      const used = [{ accounts: names, amounts: { requests: 1 } }];
      await accounts.post({ holder: 0, held: [], isMixed: false }, used, Date.now());
      await accounts.flush();
    },
    close: async () => {
      await app.close();
      db.close();
      rmSync(folder, { recursive: true });
    },
  };

  function recordOf(entry: NativeEntry, error: ErrorCode | null) {
    const { tenant, name } = entry.who.principal;
    return {
      action: entry.action,
      tenant,
      principal: name,
      accessKeyId: entry.who.accessKeyId,
      evidence: entry.who.evidence,
      bucket: null,
      key: null,
      target: entry.target,
      bytesIn: entry.bytesIn,
      bytesOut: 0,
      sizeBytes: null,
      etag: null,
      sha256: null,
      class: null,
      range: null,
      requestId: entry.requestId,
      source: entry.source,
      status: entry.status,
      error,
    };
  }
}

/** The operator ROOT, and two tenants with an admin, an auditor and two members each. */
export async function populate(fixture: Fixture): Promise<void> {
  const seal = (tenant: string, principal: string, id: string) =>
    fixture.sealer.seal(Buffer.from('secret'), accessKeyContext(tenant, principal, id));
  await fixture.apply({
    kind: 'putRootKey',
    id: 'ROOT',
    sealedSecret: seal('default', 'admin', 'ROOT'),
  });
  for (const tenant of ['cms', 'atlas']) {
    await fixture.apply({
      kind: 'createTenant',
      name: tenant,
      membersCreateBuckets: true,
    });
    await fixture.apply({ kind: 'createGroup', tenant, name: 'muons' });
    const people: [string, Role][] = [
      ['boss', 'admin'],
      ['audit', 'auditor'],
      ['alice', 'member'],
      ['bob', 'member'],
    ];
    for (const [name, role] of people) {
      await fixture.apply({
        kind: 'createPrincipal',
        tenant,
        name,
        principalKind: 'person',
        role,
        groups: ['muons'],
      });
      const id = principalId(tenant, name);
      const sealedSecret = seal(tenant, name, id);
      await fixture.apply({ kind: 'createAccessKey', tenant, principal: name, id, sealedSecret });
    }
  }
}
