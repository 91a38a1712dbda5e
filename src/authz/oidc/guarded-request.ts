// HTTP requests to places that tenants' admins choose. Invariant: they go where the address policy
// allows and nowhere else: the address that was checked is the one that is connected to, there are
// no redirects, and no connection is used twice. And what becomes of one that fails is told no
// sooner than if nothing had answered.

import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicMs } from '../../core/clock.ts';
import { http, https } from '../../core/node-http.ts';
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
 * Sends a request and gives what `use` makes of the answer, which ends with that. Rejects with an
 * Error for the operator's log: to others it would tell what there is in the gateway's network.
 */
export async function askGuarded<T>(
  { url, policy, method, headers, body, signal }: GuardedRequest,
  use: (answer: IncomingMessage) => Promise<T>,
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
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    return await use(answer);
  } finally {
    // What comes after this concerns nobody.
    request.on('error', () => {});
    request.destroy();
  }
}

/** What is ended at a limit has failed by so much later. */
const endMs = 100;

/**
 * What `work` comes to, which its signal ends after `limitMs`. However it fails, that is told at
 * one time, a moment after the limit: how soon a place refuses, answers nonsense, or is not even
 * asked, would tell who chose it what there is in the gateway's network. `stopping` ends the wait,
 * too.
 */
export async function failLate<T>(
  limitMs: number,
  work: (signal: AbortSignal) => Promise<T>,
  stopping?: AbortSignal,
): Promise<T> {
  const toldMs = monotonicMs() + limitMs + endMs;
  const limit = AbortSignal.timeout(limitMs);
  try {
    return await work(stopping ? AbortSignal.any([stopping, limit]) : limit);
  } catch (error) {
    const options = { ref: false, ...(stopping && { signal: stopping }) };
    await sleep(Math.max(toldMs - monotonicMs(), 0), undefined, options).catch(() => {});
    throw error;
  }
}
