// Servers that listen and stop listening, and the bounds of their connections.
import type { Server } from 'node:http';
import type { ListenOptions, Server as NetServer } from 'node:net';
import type { Network } from '../authz/grants/networks.ts';
import type { ConnectionTerms } from './http/connections.ts';
import { TrustedProxies } from './http/trusted-proxies.ts';

const idleCheckMs = 100;
/** Shorter times say nothing of a client. */
const rateWindowMsMin = 2000;
/**
 * Connections that may wait in the system to be taken, as far as it lets them: of very many that
 * come at once, those beyond it would be reset. Node's default.
 */
const backlogMin = 511;

export interface BoundSettings {
  /** Peers that are believed where a request came from. */
  trustedProxies?: readonly Network[] | undefined;
  connectionsMax: number;
  /** What a client must send of a body on average, bytes a second; 0: however little. */
  minRate: number;
  /** A connection on which nothing moves for so long is closed, milliseconds. */
  stallTimeoutMs: number;
}

export function connectionBounds({
  trustedProxies = [],
  connectionsMax,
  minRate,
  stallTimeoutMs,
}: BoundSettings): ConnectionTerms & { proxies: TrustedProxies } {
  const rateWindowMs = Math.max(2 * stallTimeoutMs, rateWindowMsMin);
  return { proxies: new TrustedProxies(trustedProxies), connectionsMax, minRate, rateWindowMs };
}

/** `isShared`: each of several threads takes its part of the connections to one port. */
export function listeningOf(connectionsMax: number, isShared: boolean): ListenOptions {
  const backlog = Math.max(connectionsMax, backlogMin);
  return isShared ? { backlog, reusePort: true } : { backlog };
}

export function listenAt(server: NetServer, place: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(place, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Lets requests finish for so long, then cuts what is left. `close`: absent: the server's own. */
export async function closeServer(
  server: Server,
  timeoutMs: number,
  close: () => Promise<unknown> = () => closed(server),
): Promise<void> {
  // A connection that goes idle after the close has begun would otherwise hold it up.
  const idle = setInterval(() => server.closeIdleConnections(), idleCheckMs);
  const all = setTimeout(() => server.closeAllConnections(), timeoutMs);
  await close();
  clearInterval(idle);
  clearTimeout(all);
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
