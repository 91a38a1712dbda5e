// All credentials that the gateway takes, put together: signatures, temporary keys, tokens of its
// own, of principals and of outside issuers. S3, STS and the native API ask one authenticator.
import { Authenticator } from '../authz/authenticate.ts';
import { BearerTokens } from '../authz/bearer.ts';
import type { Follower } from '../authz/changes.ts';
import type { Directory } from '../authz/directory.ts';
import { Sessions } from '../authz/sessions/sessions.ts';
import { TokenKeys } from '../authz/token-keys.ts';
import type { CacheCounts } from '../instruments/room-metrics.ts';
import type { Rooms } from './rooms.ts';

export interface Credentials {
  authenticator: Authenticator;
  sessions: Sessions;
  tokenKeys: TokenKeys;
  /** In this order: what comes later depends on what comes before. */
  followers: readonly Follower[];
  /** What was verified before, by its kind. */
  caches: Readonly<Record<string, CacheCounts>>;
}

export function takeCredentials(rooms: Rooms, directory: Directory): Credentials {
  const { read, keyring, outside, revocations, tokenUse, publicUrl } = rooms;
  const sessions = new Sessions({ read, directory, keyring });
  const tokenKeys = new TokenKeys(keyring);
  const bearer = new BearerTokens({
    ...{ read, directory, keys: tokenKeys, outside, publicUrl },
    onSeen: (links) => tokenUse.see(links),
  });
  const authenticator = new Authenticator({
    findAccessKey: (id, sessionToken) =>
      sessionToken === undefined
        ? directory.findAccessKey(id)
        : sessions.find(id, sessionToken, Date.now()),
    bearer,
    isRevoked: (ids) => revocations.has(ids),
    distrusts: (principal) => rooms.distrust.ofPrincipal(principal),
    onUse: (ids) => tokenUse.note(ids),
  });
  const followers = [directory, outside, revocations, sessions, bearer];
  const caches = {
    access_keys: directory.cache,
    sessions: sessions.cache,
    tokens: bearer.cache,
    outside_tokens: outside.cache,
  };
  return { authenticator, sessions, tokenKeys, followers, caches };
}
