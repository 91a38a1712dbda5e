// All credentials that the gateway takes, put together: signatures, temporary keys, tokens of its
// own, of principals and of outside issuers. S3, STS and the native API ask one authenticator.
import { Authenticator } from '../authz/authenticate.ts';
import { BearerTokens } from '../authz/bearer.ts';
import { TokenKeys } from '../authz/token-keys.ts';
import type { CacheCounts } from '../instruments/state-metrics.ts';
import type { RequestServices } from './services.ts';

export interface Credentials {
  authenticator: Authenticator;
  tokenKeys: TokenKeys;
  /** What was verified before, by its kind. */
  caches: Readonly<Record<string, CacheCounts>>;
}

export function takeCredentials(services: RequestServices): Credentials {
  const { read, keyring, directory, sessions, outside, revocations, tokenUse, publicUrl } =
    services;
  const tokenKeys = new TokenKeys(keyring);
  const bearer = new BearerTokens({
    ...{ read, directory, keys: tokenKeys, recent: services.chains, outside, publicUrl },
    onSeen: (links) => tokenUse.see(links),
  });
  const authenticator = new Authenticator({
    findAccessKey: directory.findAccessKey.bind(directory),
    findTemporaryKey: sessions.find.bind(sessions),
    bearer,
    isRevoked: (ids) => revocations.has(ids),
    faults: services.sealFaults,
    onUse: (ids) => tokenUse.note(ids),
  });
  const caches = {
    access_keys: directory.cache,
    sessions: sessions.cache,
    tokens: bearer.cache,
    outside_tokens: outside.cache,
  };
  return { authenticator, tokenKeys, caches };
}
