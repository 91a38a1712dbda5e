// HTTP requests to places that tenants' admins choose. Invariant: they go where the address policy
// allows and nowhere else: the address that was checked is the one that is connected to, there are no
// redirects, and no connection is used twice.
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { isIP } from 'node:net';
import {
  type AddressPolicy,
  AddressRefused,
  allowsAddress,
  guardedLookup,
} from './address-policy.ts';

export interface GuardedRequest {
  url: URL;
  policy: AddressPolicy;
  method: 'GET' | 'POST';
  headers: Readonly<Record<string, string>>;
  body?: string;
  /** Ends the connection, however far it is. */
  signal: AbortSignal;
}

/**
 * Sends a request and gives what `use` makes of the answer, which ends with that. Rejects with an Error
 * for the operator's log: to others it would tell what there is in the gateway's network.
 */
export async function askGuarded<T>(
  { url, policy, method, headers, body, signal }: GuardedRequest,
  use: (answer: http.IncomingMessage) => Promise<T>,
): Promise<T> {
  // An address in the URL is not looked up.
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const isPrivateAllowed = policy.allowsPrivate(url);
  if (isIP(host) !== 0 && !allowsAddress(host, isPrivateAllowed)) throw new AddressRefused(host);
  const begin = url.protocol === 'https:' ? https.request : http.request;
  const lookup = guardedLookup(isPrivateAllowed);
  const request = begin(url, { method, headers, lookup, signal, agent: false });
  try {
    request.end(body);
    const [answer] = (await once(request, 'response')) as [http.IncomingMessage];
    return await use(answer);
  } finally {
    // What comes after this concerns nobody.
    request.on('error', () => {});
    request.destroy();
  }
}
