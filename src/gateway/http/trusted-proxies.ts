// Where a request came from when proxies stand between. Invariant: only a peer that the operator
// named as a proxy is believed, and of what it says only the part that no client could have
// written: the address furthest to the right that is not itself a proxy's.
// Specification: `X-Forwarded-For` and `X-Forwarded-Proto` as MDN describes them, "Selecting an IP
// address".
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { type Network, networkTest, plainAddress } from '../../authz/grants/networks.ts';

export interface Origin {
  /** Client address, without the IPv6 dress of an IPv4 client; `unknown` fits no network. */
  source: string;
  /** Did the client speak TLS? */
  isSecure: boolean;
}

const unknown = 'unknown';
/** Proxies that a request may have passed. */
const hopsMax = 16;

export class TrustedProxies {
  /** null: there are none. */
  readonly #isProxy: ((address: string) => boolean) | null;

  constructor(networks: readonly Network[]) {
    this.#isProxy = networks.length === 0 ? null : networkTest(networks);
  }

  /**
   * The address at the other end, without the IPv6 dress of an IPv4 one; `unknown` if it has gone.
   */
  peerOf({ remoteAddress }: Pick<Socket, 'remoteAddress'>): string {
    return plainAddress(remoteAddress ?? '') ?? unknown;
  }

  /** Is it a proxy, whose connections are everybody's? */
  isProxy(peer: string): boolean {
    return this.#isProxy?.(peer) ?? false;
  }

  /** Where a message came from. */
  locate({ socket, headers }: IncomingMessage): Origin {
    const peer = this.peerOf(socket);
    const isSecure = 'encrypted' in socket;
    if (!this.#isProxy?.(peer)) return { source: peer, isSecure };
    const scheme = lastOf(textOf(headers['x-forwarded-proto']) ?? '').toLowerCase();
    return {
      source: this.#clientOf(peer, textOf(headers['x-forwarded-for'])),
      isSecure: scheme === '' ? isSecure : scheme === 'https',
    };
  }

  /** The address that the nearest of the proxies did not take for another proxy's. */
  #clientOf(peer: string, forwarded: string | undefined): string {
    let source = peer;
    let end = forwarded?.length ?? -1;
    for (let hop = 0; hop < hopsMax; hop++) {
      if (forwarded === undefined || end < 0 || !this.#isProxy?.(source)) return source;
      const comma = end === 0 ? -1 : forwarded.lastIndexOf(',', end - 1);
      source = addressIn(forwarded.slice(comma + 1, end));
      end = comma;
    }
    return unknown;
  }
}

// Some proxies name the port too.
const withPort = /^(?:\[([0-9A-Fa-f:.]{2,45})\](?::\d{1,5})?|(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5})$/;

/** The address of one entry; `unknown` for anything else, and where it names a link of its own. */
function addressIn(entry: string): string {
  const text = entry.trim();
  if (text.includes('%')) return unknown;
  const [, bracketed, dotted] = withPort.exec(text) ?? [];
  return plainAddress(bracketed ?? dotted ?? text) ?? unknown;
}

/** Each proxy adds its word behind those that it was sent. */
function lastOf(list: string): string {
  return list.slice(list.lastIndexOf(',') + 1).trim();
}

function textOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(',') : value;
}
