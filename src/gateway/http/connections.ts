// The connections that are open, the newest exchange of each, and which of them give way.
// Invariants: no address takes all connections, nor do all those together from which nobody has
// proven who they are; where there are too many, those that wait for nothing give way first, the
// longest idle first, and a request whose sender is known never does; what the gateway asks of
// itself, its health, has connections that nobody else can use. A proxy's connection is nobody's
// while it idles, and counts for the address that a request is forwarded for as long as that is
// under way. And a client is called slow only for time in which the gateway would have read what it
// sent. All this costs a request of one's own connection nothing: connections are looked at when
// one comes, and all of them once in a while.
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { anonymousName } from '../../authz/identity.ts';
import { monotonicMs } from '../../core/clock.ts';
import { addressGroupOf } from './address-group.ts';
import type { Exchange } from './exchange.ts';
import type { Origin, TrustedProxies } from './trusted-proxies.ts';

/** Why the gateway closed a connection by itself. */
export const closeReasons = ['stalled', 'slow', 'crowded', 'refused'] as const;
export type CloseReason = (typeof closeReasons)[number];

export interface ConnectionTerms {
  /** Connections at a time, besides those that are kept for health. */
  connectionsMax: number;
  /** Proxies, whose connections are everybody's. */
  proxies: Pick<TrustedProxies, 'isProxy' | 'peerOf' | 'locate'>;
  /** What a client must send of a body on average, bytes a second; 0: however little. */
  minRate: number;
  /** On average over so long, milliseconds. */
  rateWindowMs: number;
}

export interface Connection {
  readonly socket: Socket;
  readonly isProxied: boolean;
  /** Where its messages come from; null: its proxy tells that of each. */
  readonly origin: Origin | null;
  /** The host that its last message was for, where that is the gateway's own. */
  host: string | null;
  /** Who counts as one; null: nobody, as is a proxy that forwards nothing now. */
  group: string | null;
  readonly sinceMs: number;
  /** It came when there was no room: it can only ask for the gateway's health. */
  isSpare: boolean;
  /** Null: no request has come yet. */
  newest: Exchange | null;
  /** Whose body is timed; for how long it has been waited for, and from which byte on. */
  timed: Exchange | null;
  waitedMs: number;
  fromBytes: number;
}

const ticksPerWindow = 20;
const tickMsMax = 1000;
/** One address has at most this part of all connections, so that others find room. */
const groupPart = 3 / 4;
/** And all that nobody is known of, together. */
const strangersPart = 7 / 8;
/** An address is known for so long after somebody proved from there who they are. */
const knownMs = 3_600_000;
const knownMax = 4096;
const sparesMax = 32;

/**
 * How readily a connection gives way: those on which nothing is asked; then those on which nobody
 * known sends a body; then, for who has fewer, those on which nobody known is answered.
 */
const neverGives = 0;
const answeredGives = 1;
const unknownGives = 2;
const idleGives = 3;

export class Connections {
  readonly #terms: ConnectionTerms;
  readonly #open = new Map<Socket, Connection>();
  /** Open connections by group, spare ones not among them. */
  readonly #groups = new Map<string, number>();
  /** When somebody was last known there; oldest first. */
  readonly #known = new Map<string, number>();
  #proxied = 0;
  #spares = 0;
  readonly #tickMs: number;
  readonly #timer: NodeJS.Timeout;
  /** How many were closed, by reason. */
  readonly closed: Record<CloseReason, number> = { stalled: 0, slow: 0, crowded: 0, refused: 0 };

  constructor(terms: ConnectionTerms) {
    this.#terms = terms;
    this.#tickMs = Math.min(Math.ceil(terms.rateWindowMs / ticksPerWindow), tickMsMax);
    this.#timer = setInterval(() => this.#look(), this.#tickMs).unref();
  }

  get count(): number {
    return this.#open.size;
  }

  /** A connection has come: it is kept, or closed at once. */
  add(socket: Socket): void {
    const { proxies } = this.#terms;
    const peer = proxies.peerOf(socket);
    const isSecure = 'encrypted' in socket;
    const isProxied = proxies.isProxy(peer);
    const group = isProxied ? null : addressGroupOf(peer);
    const isSpare = !this.#makeRoom(group);
    if (isSpare && !this.#makeSpare()) {
      this.cut(socket, 'refused');
      return;
    }
    const connection: Connection = {
      socket,
      isProxied,
      origin: isProxied ? null : { source: peer, isSecure },
      host: null,
      group,
      sinceMs: monotonicMs(),
      isSpare,
      newest: null,
      timed: null,
      waitedMs: 0,
      fromBytes: 0,
    };
    this.#open.set(socket, connection);
    this.#count(connection, 1);
    socket.once('close', () => this.#remove(connection));
  }

  /** Where a message came from: nearly always that is known of its connection. */
  originOf(raw: IncomingMessage): Origin {
    return this.#open.get(raw.socket)?.origin ?? this.#terms.proxies.locate(raw);
  }

  /** A message of this connection was for a host that is the gateway's own. */
  keepHost(socket: Socket, host: string): void {
    const connection = this.#open.get(socket);
    if (connection) connection.host = host;
  }

  /** Was one before? */
  hasHost(socket: Socket, host: string): boolean {
    return this.#open.get(socket)?.host === host;
  }

  /** A request has come in. */
  begin(exchange: Exchange): void {
    const connection = this.#open.get(exchange.raw.socket);
    if (connection) connection.newest = exchange;
  }

  /**
   * May a request that has come in be for more than the gateway's health? One on a spare connection
   * may once there is room, and one that a proxy forwards where its sender has not too many
   * already.
   */
  mayServe(exchange: Exchange): boolean {
    const connection = this.#open.get(exchange.raw.socket);
    if (!connection) return true;
    const { isSpare, isProxied } = connection;
    if (!isSpare && !isProxied) return true;
    const group = isProxied ? this.#forwardedGroup(exchange) : connection.group;
    if (isSpare ? !this.#makeRoom(group) : !this.#keepBounds(group)) return false;
    this.#regroup(connection, group);
    if (isProxied) exchange.response.once('close', () => this.#endForwarded(connection, exchange));
    return true;
  }

  newestOf(socket: Socket): Exchange | null {
    return this.#open.get(socket)?.newest ?? null;
  }

  cut(socket: Socket, reason: CloseReason): void {
    this.closed[reason] += 1;
    socket.destroy();
  }

  /** Looks no more. */
  close(): void {
    clearInterval(this.#timer);
  }

  /** Whom a request is forwarded for; null: its proxy does not say. */
  #forwardedGroup({ source }: Exchange): string | null {
    return this.#terms.proxies.isProxy(source) ? null : addressGroupOf(source);
  }

  #endForwarded(connection: Connection, exchange: Exchange): void {
    if (connection.newest !== exchange) return;
    this.#learn(connection);
    this.#regroup(connection, null);
  }

  /** From now on it counts for this group. It may have given way meanwhile. */
  #regroup(connection: Connection, group: string | null): void {
    if (this.#open.get(connection.socket) !== connection) return;
    this.#count(connection, -1);
    connection.group = group;
    connection.isSpare = false;
    this.#count(connection, 1);
  }

  #count({ group, isSpare }: Connection, change: 1 | -1): void {
    if (isSpare) {
      this.#spares += change;
    } else if (group === null) {
      this.#proxied += change;
    } else {
      const count = (this.#groups.get(group) ?? 0) + change;
      if (count > 0) this.#groups.set(group, count);
      else this.#groups.delete(group);
    }
  }

  #remove(connection: Connection): void {
    if (!this.#open.delete(connection.socket)) return;
    this.#count(connection, -1);
    this.#learn(connection);
  }

  /** Is there room for another of this group, if need be where others give way? */
  #makeRoom(group: string | null): boolean {
    const { connectionsMax } = this.#terms;
    const all = this.#open.size - this.#spares;
    // Nearly always.
    if (all < connectionsMax / 2) return true;
    const crowd = this.#crowdOf(group);
    if (crowd) return this.#makeWay(group, crowd);
    return all < connectionsMax || this.#makeWay(group, () => true);
  }

  /** May one of those that are open count for this group, if need be where others give way? */
  #keepBounds(group: string | null): boolean {
    if (this.#open.size - this.#spares < this.#terms.connectionsMax / 2) return true;
    const crowd = this.#crowdOf(group);
    return !crowd || this.#makeWay(group, crowd);
  }

  /** Of whom one has to give way before the group has another; null: nobody. */
  #crowdOf(group: string | null): ((connection: Connection) => boolean) | null {
    if (group === null) return null;
    const { connectionsMax } = this.#terms;
    if (this.#countOf(group) >= Math.max(connectionsMax * groupPart, 1)) {
      return (one) => one.group === group;
    }
    const nowMs = monotonicMs();
    const strangersMax = Math.max(connectionsMax * strangersPart, 1);
    if (this.#isKnown(group, nowMs) || this.#countStrangers(nowMs) < strangersMax) return null;
    return (one) => one.group !== null && !this.#isKnown(one.group, nowMs);
  }

  /** Of the spare ones the oldest gives way, so that health can be asked for at any time. */
  #makeSpare(): boolean {
    if (this.#spares < sparesMax) return true;
    for (const connection of this.#open.values()) {
      if (!connection.isSpare) continue;
      this.#giveWay(connection);
      return true;
    }
    return false;
  }

  /** Closes one of those that may be: of whoever has most, the one that has been idle longest. */
  #makeWay(group: string | null, mayBe: (connection: Connection) => boolean): boolean {
    const own = this.#countOf(group);
    let found: Connection | null = null;
    let foundRank: readonly number[] = [];
    for (const connection of this.#open.values()) {
      if (connection.isSpare || !mayBe(connection)) continue;
      const readiness = readinessOf(connection);
      const count = this.#countOf(connection.group);
      if (readiness === neverGives || (readiness === answeredGives && count <= own + 1)) continue;
      const rank = [count, readiness, -idleSince(connection)];
      if (found && compare(rank, foundRank) <= 0) continue;
      found = connection;
      foundRank = rank;
    }
    if (found) this.#giveWay(found);
    return found !== null;
  }

  #giveWay(connection: Connection): void {
    // Its socket says that it is closed a moment later.
    this.#remove(connection);
    this.cut(connection.socket, 'crowded');
  }

  /** Of nobody's, each counts by itself. */
  #countOf(group: string | null): number {
    return group === null ? 1 : (this.#groups.get(group) ?? 0);
  }

  #countStrangers(nowMs: number): number {
    let count = this.#open.size - this.#spares - this.#proxied;
    for (const group of this.#known.keys()) {
      if (this.#isKnown(group, nowMs)) count -= this.#countOf(group);
    }
    return count;
  }

  #isKnown(group: string, nowMs: number): boolean {
    const knownSinceMs = this.#known.get(group);
    return knownSinceMs !== undefined && nowMs - knownSinceMs < knownMs;
  }

  /** Notes where somebody has proven who they are. */
  #learn({ group, newest }: Connection): void {
    if (group === null || !newest || !isKnownSender(newest)) return;
    this.#known.delete(group);
    this.#known.set(group, monotonicMs());
    if (this.#known.size <= knownMax) return;
    for (const oldest of this.#known.keys()) {
      this.#known.delete(oldest);
      return;
    }
  }

  #look(): void {
    for (const [socket, connection] of this.#open) {
      this.#learn(connection);
      if (this.#isSlow(socket, connection)) this.cut(socket, 'slow');
    }
  }

  /** Has less of a body come than must, in as much waiting for it as a window has? */
  #isSlow(socket: Socket, connection: Connection): boolean {
    const { minRate, rateWindowMs } = this.#terms;
    const { newest } = connection;
    if (minRate === 0 || !newest || newest.raw.complete || !newest.isOpen) return false;
    if (connection.timed !== newest) {
      connection.timed = newest;
      connection.waitedMs = 0;
      connection.fromBytes = socket.bytesRead;
    }
    // Nobody reads it now: it is the gateway that is waited for.
    if (newest.raw.readableFlowing !== true) return false;
    // Where this thread was held up, that is not the client's time.
    connection.waitedMs += this.#tickMs;
    if (connection.waitedMs < rateWindowMs) return false;
    const cameBytes = socket.bytesRead - connection.fromBytes;
    connection.waitedMs = 0;
    connection.fromBytes = socket.bytesRead;
    return cameBytes * 1000 < minRate * rateWindowMs;
  }
}

/** Here, or in the thread that answers it. */
export function isKnownSender({ principal, isOfKnown }: Exchange): boolean {
  return isOfKnown || (principal !== null && principal !== anonymousName);
}

function isIdle({ newest }: Connection): boolean {
  return !newest || (newest.hasEnded && newest.response.writableFinished);
}

function readinessOf(connection: Connection): number {
  const { newest } = connection;
  if (!newest || isIdle(connection)) return idleGives;
  if (isKnownSender(newest)) return neverGives;
  return newest.raw.complete ? answeredGives : unknownGives;
}

/** Monotonic milliseconds; of one that is not idle, when its request came. */
function idleSince({ newest, sinceMs }: Connection): number {
  return newest ? newest.clock.startedMs + newest.durationMs : sinceMs;
}

function compare(a: readonly number[], b: readonly number[]): number {
  for (const [i, value] of a.entries()) if (value !== b[i]) return value - (b[i] as number);
  return 0;
}
