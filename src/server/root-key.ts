// The first operator, `default/admin`, and its access key: given by BURSAR_ROOT_*, or generated
// when the gateway has no operator yet. Invariant: killed at any point, the next start completes
// the work, and a secret that was written to the credentials file is the one that works. So a
// generated key is written to the file first and committed from there; a given one is committed
// first, as the start that gave it may be the last that knows it.
import { accessKeyContext } from '../authz/key-rows.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { newAccessKeyId, newSecretAccessKey } from '../core/ids.ts';
import { defaultTenant, principalId, rootPrincipal } from '../core/principal.ts';
import type { Sealer } from '../core/sealing.ts';
import type { IdentityChange } from '../ledger/commands/identities.ts';
import type { Directory } from '../state/directory.ts';
import {
  type Credentials,
  profileDefault,
  readCredentials,
  writeCredentials,
} from './folder/credentials-file.ts';
import type { Config } from './settings/config.ts';

export interface RootKey {
  id: string;
  secret: string;
}

/** How the gateway is reached. */
export type Reached = Pick<Credentials, 'endpoint' | 'adminUrl'>;

export interface RootKeyOptions {
  config: Pick<Config, 'rootAccessKey' | 'rootSecretKey' | 'region'>;
  directory: Directory;
  sealer: Sealer;
  credentialsFile: string;
  /** Commits the change with a record. Throws `Refusal`. */
  commit(change: IdentityChange): Promise<void>;
}

/** Makes sure that there is an operator who can sign in. */
export async function ensureRootKey(options: RootKeyOptions): Promise<void> {
  const { config, directory, credentialsFile } = options;
  const { rootAccessKey: id, rootSecretKey: secret } = config;
  if (id !== undefined && secret !== undefined) {
    await ensureGivenKey(options, { id, secret });
    return;
  }
  if (await directory.hasOperatorKey()) return;
  const key = readRootKey(credentialsFile) ?? {
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
  const { config, directory, credentialsFile } = options;
  const { rootAccessKey: id, rootSecretKey: secret } = config;
  if (id !== undefined && secret !== undefined) {
    writeKey(options, { id, secret }, reached);
    return;
  }
  const key = readRootKey(credentialsFile);
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

async function putRootKey(options: RootKeyOptions, key: RootKey): Promise<void> {
  const { sealer } = options;
  const context = accessKeyContext(defaultTenant, rootPrincipal, key.id);
  await options.commit({
    kind: 'putRootKey',
    id: key.id,
    sealedSecret: sealer.seal(Buffer.from(key.secret, 'utf8'), context),
  });
}

function readRootKey(credentialsFile: string): RootKey | undefined {
  const profile = readCredentials(credentialsFile, profileDefault);
  const id = profile?.aws_access_key_id;
  const secret = profile?.aws_secret_access_key;
  return id && secret ? { id, secret } : undefined;
}

function writeKey(options: RootKeyOptions, key: RootKey, reached: Reached): void {
  writeCredentials(options.credentialsFile, {
    accessKeyId: key.id,
    secretAccessKey: key.secret,
    region: options.config.region,
    ...reached,
  });
}
