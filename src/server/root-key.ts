// The first operator, `default/admin`, and its access key: given by BURSAR_ROOT_*, or generated
// when the gateway has no operator yet. Invariant: killed at any point, the next start completes
// the work, and a secret that was written to the credentials file is the one that works. So a
// generated key is written to the file first and committed from there; a given one is committed
// first, as the start that gave it may be the last that knows it.
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { accessKeyContext } from '../authz/key-rows.ts';
import { listKeylessTenants, newTenantKey } from '../authz/tenant-keys.ts';
import { CommandFailure } from '../core/command-failure.ts';
import type { Reader } from '../core/database.ts';
import { Refusal } from '../core/errors.ts';
import { newAccessKeyId, newSecretAccessKey } from '../core/ids.ts';
import { inParallel } from '../core/in-parallel.ts';
import { defaultTenant, principalId, rootPrincipal } from '../core/principal.ts';
import { accountOf } from '../ledger/commands/index.ts';
import type { Journals } from '../ledger/journal/journals.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Directory } from '../state/directory.ts';
import {
  type Credentials,
  profileDefault,
  readCredentials,
  writeCredentials,
} from './folder/credentials-file.ts';
import type { DataFolder } from './folder/data-folder.ts';
import type { Config } from './settings/config.ts';

export interface RootKey {
  id: string;
  secret: string;
}

/** How the gateway is reached. */
export type Reached = Pick<Credentials, 'endpoint' | 'adminUrl'>;

export interface RootKeyOptions {
  config: Pick<Config, 'rootAccessKey' | 'rootSecretKey' | 'region'>;
  folder: Pick<DataFolder, 'sealer' | 'credentialsFile'>;
  directory: Directory;
  ledger: Ledger;
  journals: Journals;
}

/** Makes sure that there is an operator who can sign in. */
export async function ensureRootKey(options: RootKeyOptions): Promise<void> {
  const { config, directory, folder } = options;
  const { rootAccessKey: id, rootSecretKey: secret } = config;
  if (id !== undefined && secret !== undefined) {
    await ensureGivenKey(options, { id, secret });
    return;
  }
  if (await directory.hasOperatorKey()) return;
  const key = readRootKey(folder.credentialsFile) ?? {
    id: newAccessKeyId(),
    secret: newSecretAccessKey(),
  };
  writeKey(options, key, { endpoint: undefined });
  await putRootKey(options, key);
}

/**
 * Puts the address into the credentials file. A file whose key does not work (any more), or that
 * somebody removed, is left as it is, unless the key was given.
 */
export async function announceEndpoint(options: RootKeyOptions, reached: Reached): Promise<void> {
  const { config, directory, folder } = options;
  const { rootAccessKey: id, rootSecretKey: secret } = config;
  if (id !== undefined && secret !== undefined) {
    writeKey(options, { id, secret }, reached);
    return;
  }
  const key = readRootKey(folder.credentialsFile);
  if (key && (await works(directory, key))) writeKey(options, key, reached);
}

async function ensureGivenKey(options: RootKeyOptions, key: RootKey): Promise<void> {
  const { directory } = options;
  if (await works(directory, key)) return;
  const owner = (await directory.findAccessKey(key.id))?.principal;
  if (owner && owner.id !== principalId(defaultTenant, rootPrincipal)) {
    throw new CommandFailure('failed', 'BURSAR_ROOT_ACCESS_KEY is the access key of somebody else');
  }
  await putRootKey(options, key);
}

/** Whether the key is that of the operator `default/admin`. */
async function works(directory: Directory, key: RootKey): Promise<boolean> {
  const found = await directory.findAccessKey(key.id);
  return (
    found?.secret === key.secret &&
    found.principal.id === principalId(defaultTenant, rootPrincipal) &&
    found.principal.role === 'operator'
  );
}

/** The gateway itself asks for it, so its record names no access key. Throws `Refusal`. */
async function putRootKey(options: RootKeyOptions, { id, secret }: RootKey): Promise<void> {
  const { folder, ledger, journals } = options;
  const context = accessKeyContext(defaultTenant, rootPrincipal, id);
  const sealedSecret = folder.sealer.seal(Buffer.from(secret, 'utf8'), context);
  const sealedTenantKey = newTenantKey(folder.sealer, defaultTenant);
  const change = { kind: 'putRootKey', id, sealedSecret, sealedTenantKey } as const;
  const result = await ledger.commit({
    change,
    charge: null,
    record: draftRecord(unasked(defaultTenant, rootPrincipal), ownOrigin(), {
      action: 'bursar:PutRootKey',
      target: `tenants/${defaultTenant}/principals/${rootPrincipal}`,
      change: accountOf(change),
      status: 200,
    }),
  });
  if (!result.ok) throw new Refusal(result.code);
  // The start does not wait for stores that are away.
  void journals.confirmEverywhere(change, result.index);
}

const keysAtOnce = 200;

/** Gives each tenant its secret that has none yet, as those of an earlier schema have none. */
export async function ensureTenantKeys(
  options: Omit<RootKeyOptions, 'config' | 'directory'> & { read: Reader },
): Promise<void> {
  const { folder, ledger, journals, read } = options;
  await inParallel(await listKeylessTenants(read), keysAtOnce, async (name) => {
    const sealedKey = newTenantKey(folder.sealer, name);
    const change = { kind: 'createTenantKey', name, sealedKey } as const;
    const result = await ledger.commit({
      change,
      charge: null,
      record: draftRecord(unasked(name, rootPrincipal), ownOrigin(), {
        action: 'bursar:CreateTenantKey',
        target: `tenants/${name}`,
        status: 200,
      }),
    });
    if (!result.ok) throw new Refusal(result.code);
    void journals.confirmEverywhere(change, result.index);
  });
}

function readRootKey(credentialsFile: string): RootKey | undefined {
  const profile = readCredentials(credentialsFile, profileDefault);
  const id = profile?.aws_access_key_id;
  const secret = profile?.aws_secret_access_key;
  return id && secret ? { id, secret } : undefined;
}

function writeKey(options: RootKeyOptions, key: RootKey, reached: Reached): void {
  writeCredentials(options.folder.credentialsFile, {
    accessKeyId: key.id,
    secretAccessKey: key.secret,
    region: options.config.region,
    ...reached,
  });
}
