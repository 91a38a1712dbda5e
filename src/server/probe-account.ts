// The principal that the gateway probes itself as: a robot of the tenant `default` with a key,
// buckets and a spending limit of its own, and no rights but a member's. Invariants: every change
// of it is recorded like anybody's; it is made once, and what an administrator changes of it stays,
// except for the limit, which the setting says at each start of the gateway.
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { accessKeyContext } from '../authz/key-rows.ts';
import { findBucket } from '../catalog/buckets.ts';
import { Refusal } from '../core/errors.ts';
import { newAccessKeyId, newSecretAccessKey } from '../core/ids.ts';
import { accessKeysPerPrincipalMax } from '../core/limits.ts';
import { formatUsd, type Picodollars } from '../core/money.ts';
import { defaultTenant, principalId, rootPrincipal } from '../core/principal.ts';
import type { Limits } from '../core/quota-terms.ts';
import type { Sealer } from '../core/sealing.ts';
import type { RequestServices } from '../gateway/services.ts';
import type { ProbeCredentials } from '../instruments/probe/probe-target.ts';
import type { IdentityChange } from '../ledger/commands/identities.ts';
import type { Change } from '../ledger/commands/index.ts';
import { accountOf } from '../ledger/commands/index.ts';
import type { CommitResult } from '../ledger/commit.ts';
import { readLimits } from '../quota/leases/account-tables.ts';
import { usualClass } from '../quota/prices/price-book.ts';
import type { Directory } from '../state/directory.ts';
import { type ProbePlace, tellPrices } from './processes/probe-place.ts';

export const probePrincipal = 'probe';
const account = `principal:${principalId(defaultTenant, probePrincipal)}`;

type ProbeServices = Pick<RequestServices, 'read' | 'ledger' | 'journals' | 'stores' | 'bookOf'>;

export interface ProbeAccountOptions {
  services: ProbeServices;
  directory: Directory;
  sealer: Sealer;
  /** Per calendar month. */
  spendMax: Picodollars;
  /** For people: why something is not measured. */
  onProblem(text: string): void;
}

export class ProbeAccount {
  readonly #options: ProbeAccountOptions;
  #isLimited = false;

  constructor(options: ProbeAccountOptions) {
    this.#options = options;
  }

  /** Makes what is missing. Throws `Refusal`, and an Error where somebody else has the name. */
  async ensure(): Promise<ProbeCredentials> {
    const { directory } = this.#options;
    const found = await directory.readPrincipal(defaultTenant, probePrincipal);
    if (found && (found.kind !== 'robot' || found.role !== 'member')) {
      const id = principalId(defaultTenant, probePrincipal);
      throw new Error(`${id} is no robot without rights, and is left alone`);
    }
    if (!found) await this.#makePrincipal();
    if (!this.#isLimited) await this.#limit();
    this.#isLimited = true;
    return (await this.#findKey()) ?? (await this.#makeKey());
  }

  /** A bucket of its own in each store that is ready. */
  async ensureBuckets(): Promise<ProbePlace[]> {
    const { services } = this.#options;
    const places: ProbePlace[] = [];
    for (const { number, name, ready, isConfigured } of services.stores.all()) {
      const bucket = `bursar-probe-${number}`;
      const found = await findBucket(services.read, defaultTenant, bucket);
      if (found && (found.owner !== probePrincipal || found.store !== number)) {
        this.#options.onProblem(`${bucket} is another's bucket, so ${name} is not measured`);
        continue;
      }
      if (!found && (!ready || !isConfigured)) continue;
      if (!found) await this.#makeBucket(bucket, number);
      if (!ready) continue;
      const prices = tellPrices(services.bookOf(number), usualClass);
      places.push({ bucket, name: `gateway, store ${name}`, prices });
    }
    return places;
  }

  async #makePrincipal(): Promise<void> {
    await this.#changeIdentity('bursar:CreatePrincipal', 'principals', {
      ...{ kind: 'createPrincipal', tenant: defaultTenant, name: probePrincipal },
      ...{ principalKind: 'robot', role: 'member', groups: [] },
    });
  }

  /** The secret is opened from the database each time, and written nowhere else. */
  async #findKey(): Promise<ProbeCredentials | undefined> {
    const { directory } = this.#options;
    const page = { after: '', limit: accessKeysPerPrincipalMax };
    for (const { id } of await directory.listAccessKeys(defaultTenant, probePrincipal, page)) {
      const secret = (await directory.findAccessKey(id))?.secret;
      if (typeof secret === 'string') return { accessKeyId: id, secretAccessKey: secret };
    }
    return undefined;
  }

  async #makeKey(): Promise<ProbeCredentials> {
    const [id, secret] = [newAccessKeyId(), newSecretAccessKey()];
    const context = accessKeyContext(defaultTenant, probePrincipal, id);
    const sealedSecret = this.#options.sealer.seal(Buffer.from(secret, 'utf8'), context);
    await this.#changeIdentity(
      'bursar:CreateAccessKey',
      `principals/${probePrincipal}/access-keys`,
      {
        ...{ kind: 'createAccessKey', tenant: defaultTenant, principal: probePrincipal },
        ...{ id, sealedSecret },
      },
    );
    return { accessKeyId: id, secretAccessKey: secret };
  }

  async #limit(): Promise<void> {
    const { services, spendMax } = this.#options;
    const before = await readLimits(services.read, account);
    const month = formatUsd(spendMax);
    if (before?.spend?.month === month) return;
    const limits: Limits = { ...before, spend: { ...before?.spend, month } };
    await this.#commit(
      { kind: 'setLimits', account, limits },
      { action: 'bursar:PutLimit', target: `limits/${account}`, limits },
    );
  }

  async #makeBucket(name: string, store: number): Promise<void> {
    const { services } = this.#options;
    const owner = probePrincipal;
    const change = { kind: 'createBucket', tenant: defaultTenant, name, owner, store } as const;
    services.journals.admit(store, change, 'Unversioned');
    const told = { owner, store: services.stores.nameOf(store) };
    const committed = await this.#commit(change, {
      ...{ action: 's3:CreateBucket', bucket: name, change: told },
    });
    await services.journals.confirm(store, change, committed);
  }

  async #changeIdentity(action: string, collection: string, change: IdentityChange): Promise<void> {
    await this.#commit(change, {
      ...{ action, target: `tenants/${defaultTenant}/${collection}`, change: accountOf(change) },
    });
  }

  /** The gateway's own doing: the record says so by naming no access key. */
  async #commit(
    change: Change,
    told: Record<string, unknown> & { action: string },
  ): Promise<Extract<CommitResult, { ok: true }>> {
    const result = await this.#options.services.ledger.commit({
      change,
      charge: null,
      record: draftRecord(unasked(defaultTenant, rootPrincipal), ownOrigin(), {
        status: 200,
        ...told,
      }),
    });
    if (!result.ok) throw new Refusal(result.code);
    return result;
  }
}
