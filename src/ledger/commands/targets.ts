// Commands of targets, where changes of objects are told. What tells them reads their rows, and is
// woken by the native API, which alone makes these changes.
import {
  readCursor,
  setCursor,
  type TargetKind,
  targetsPerTenantMax,
} from '../../audit/changes/targets.ts';
import { countRows, missing, tenantExists } from '../../authz/identity-rows.ts';
import { identityCommand, type Named, tellsOf } from './identity-command.ts';

/** Registers a target, or puts another in its place, which is told what that was not. */
export interface PutTarget extends Named {
  kind: 'putTarget';
  is: TargetKind;
  url: string;
  region: string | null;
  sealedSecret: Uint8Array | null;
}

export const putTarget = identityCommand<PutTarget>({
  check: async (tx, { tenant, name }) => {
    if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
    const others = await countRows(tx, 'targets WHERE tenant = ? AND name <> ?', tenant, name);
    return others >= targetsPerTenantMax ? 'InUse' : undefined;
  },
  write: async (tx, { tenant, name, is, url, region, sealedSecret }, timeMs, seq) => {
    await tx.run(
      `INSERT INTO targets (tenant, name, kind, url, region, sealed_secret, created_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, name) DO UPDATE SET
         kind = excluded.kind, url = excluded.url, region = excluded.region,
         sealed_secret = excluded.sealed_secret, created_ms = excluded.created_ms`,
      ...[tenant, name, is, url, region, sealedSecret, timeMs],
    );
    const cursor = 'INSERT OR IGNORE INTO target_cursors (tenant, name, idx) VALUES (?, ?, ?)';
    await tx.run(cursor, tenant, name, seq);
  },
  takesFrom: null,
  told: tellsOf('target'),
  // The record has only the origin of its URL, because the rest may be a secret.
  account: ({ is, url, region }) => ({
    ...{ kind: is, origin: new URL(url).origin },
    ...(region !== null && { region }),
  }),
  causes: null,
});

export interface DeleteTarget extends Named {
  kind: 'deleteTarget';
}

export const deleteTarget = identityCommand<DeleteTarget>({
  check: async (tx, { tenant, name }) =>
    (await readCursor(tx, { tenant, name })) === undefined
      ? missing(tx, tenant, 'NotFound')
      : undefined,
  write: async (tx, { tenant, name }) => {
    await tx.run('DELETE FROM targets WHERE tenant = ? AND name = ?', tenant, name);
  },
  takesFrom: null,
  told: tellsOf('target'),
  account: null,
  causes: null,
});

/** Has a target told again what came after a record. */
export interface ResendToTarget extends Named {
  kind: 'resendToTarget';
  after: number;
}

export const resendToTarget = identityCommand<ResendToTarget>({
  check: async (tx, { tenant, name }) =>
    (await readCursor(tx, { tenant, name })) === undefined
      ? missing(tx, tenant, 'NotFound')
      : undefined,
  write: (tx, change) => setCursor(tx, change, change.after),
  takesFrom: null,
  // How far it was told is told to no journal.
  told: { things: () => [], isAwaited: false },
  account: ({ after }) => ({ after }),
  causes: null,
});
