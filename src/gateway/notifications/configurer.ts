// Whose rights bound what is told: those of who configured the notification, as they are when it is
// told. Who is not there any more, or not active, has none.
import { anonymousIn } from '../../authz/identity.ts';
import type { Principal } from '../../core/principal.ts';
import { listingOf, readingOf } from '../changes/readable.ts';
import { Access } from '../s3/access.ts';
import type { RequestServices } from '../services.ts';

export interface Configurer {
  who: Principal;
  mayRead(key: string): Promise<boolean>;
}

/** Of a decision that no request asks for: what is told leaves by the gateway, from no address. */
const ownRequest = { source: '0.0.0.0', isSecure: true, headers: {}, query: [] };

/** `by`: their id. undefined: they are not there, or the bucket is not. */
export async function findConfigurer(
  services: Pick<
    RequestServices,
    'buckets' | 'directory' | 'grants' | 'keyring' | 'read' | 'sealFaults'
  >,
  { tenant, bucket: name, by }: { tenant: string; bucket: string; by: string },
): Promise<Configurer | undefined> {
  const { directory, buckets, sealFaults } = services;
  const actor = await directory.findActor(by);
  if (!actor) return undefined;
  if (!sealFaults.isEmpty) sealFaults.checkBucket(tenant, name);
  const bucket = await buckets.find(tenant, name);
  if (!bucket) return undefined;
  const { principal: who } = actor;
  const found = { tenant, name, bucket };
  const identity = { ...anonymousIn(who.tenant), ...actor, isAnonymous: false };
  const access = new Access(services, ownRequest, identity);
  const askedName = who.tenant === tenant ? name : `${tenant}:${name}`;
  return {
    who,
    // As who asks for changes needs both.
    mayRead: async (key) =>
      (await access.allows(listingOf(found, askedName, key))) &&
      (await access.allows(readingOf(services, found, { askedName, key }))),
  };
}
