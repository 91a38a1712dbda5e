// The secrets of tenants: 32 random bytes each, sealed, from which with the root keys the keys
// derive that encrypt a tenant's bytes (core/keyring.ts). Invariant: a tenant has one as long as it
// is there, and never another: once it is gone, what was encrypted under it is lost to everybody.
import { randomBytes } from 'node:crypto';
import type { Reader, Tx } from '../core/database.ts';
import type { Sealer } from '../core/sealing.ts';

const secretBytes = 32;

/** The associated data that binds a sealed secret to its tenant. */
export function tenantKeyContext(tenant: string): string {
  return `tenant-key:${tenant}`;
}

/** A new secret for a tenant, sealed. */
export function newTenantKey(sealer: Sealer, tenant: string): Buffer {
  const secret = randomBytes(secretBytes);
  const sealed = sealer.seal(secret, tenantKeyContext(tenant));
  secret.fill(0);
  return sealed;
}

export async function insertTenantKey(
  tx: Tx,
  tenant: string,
  sealedKey: Uint8Array,
  timeMs: number,
): Promise<void> {
  await tx.run('INSERT INTO tenant_keys VALUES (?, ?, ?)', tenant, sealedKey, timeMs);
}

export async function hasTenantKey(tx: Tx, tenant: string): Promise<boolean> {
  return (await tx.get('SELECT 1 FROM tenant_keys WHERE tenant = ?', tenant)) !== undefined;
}

/** Tenants that have none, as those have that came before there were any. */
export async function listKeylessTenants(read: Reader): Promise<string[]> {
  const sql = `SELECT name FROM tenants
    WHERE name NOT IN (SELECT tenant FROM tenant_keys) ORDER BY name`;
  return (await read.all<{ name: string }>(sql)).map(({ name }) => name);
}

/** The secrets of all tenants, each opened when it is first wanted. */
export class TenantSecrets {
  readonly #sealer: Sealer;
  readonly #sealed = new Map<string, Buffer>();
  readonly #opened = new Map<string, Buffer>();

  private constructor(sealer: Sealer) {
    this.#sealer = sealer;
  }

  static async read(read: Reader, sealer: Sealer): Promise<TenantSecrets> {
    const secrets = new TenantSecrets(sealer);
    const sql = 'SELECT tenant, sealed_key AS sealed FROM tenant_keys';
    const rows = await read.all<{ tenant: string; sealed: Buffer }>(sql);
    for (const { tenant, sealed } of rows) secrets.#sealed.set(tenant, sealed);
    return secrets;
  }

  /** Throws where it does not open: the database, or the key file, is not ours. */
  readonly find = (tenant: string): Buffer | undefined => {
    const known = this.#opened.get(tenant);
    const sealed = this.#sealed.get(tenant);
    if (known || !sealed) return known;
    const secret = this.#sealer.open(sealed, tenantKeyContext(tenant));
    this.#opened.set(tenant, secret);
    return secret;
  };

  /** Reads a tenant's anew: it may have come. */
  async refresh(read: Reader, tenant: string): Promise<void> {
    if (this.#sealed.has(tenant)) return;
    const sql = 'SELECT sealed_key AS sealed FROM tenant_keys WHERE tenant = ?';
    const row = await read.get<{ sealed: Buffer }>(sql, tenant);
    if (row) this.#sealed.set(tenant, row.sealed);
  }

  forget(tenant: string): void {
    this.#opened.get(tenant)?.fill(0);
    this.#opened.delete(tenant);
    this.#sealed.delete(tenant);
  }
}
