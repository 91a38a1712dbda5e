// Where the gateway listens, how clients reach it there, and how many connections it takes.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { listenAt } from '../gateway/listening.ts';
import { type Gateway, startGateway } from '../gateway/server.ts';
import type { Services } from '../gateway/services.ts';
import type { OperatorLog } from '../instruments/operator-log.ts';
import type { Base } from './base.ts';
import type { Config } from './settings/config.ts';

/** How the gateway is reached. It is known once it listens. */
export class Addresses {
  #public: string | undefined;
  #listened = '';
  #admin: string | null = null;

  constructor({ publicUrl }: Pick<Config, 'publicUrl'>) {
    this.#public = publicUrl;
  }

  /** How clients reach it. Throws until it listens, unless the settings say it. */
  get publicUrl(): string {
    if (this.#public === undefined) throw new Error('the gateway does not listen yet');
    return this.#public;
  }

  /** From this machine, past proxies. */
  get listenedUrl(): string {
    return this.#listened;
  }

  /** Where the administration is, if that has an address of its own. */
  get adminUrl(): string | null {
    return this.#admin;
  }

  /** `url` is the address that it listens on. */
  set(url: string): void {
    this.#listened = reachable(url);
    this.#public ??= this.#listened;
  }

  setAdmin(url: string): void {
    this.#admin = reachable(url);
  }
}

/** 0.0.0.0 and [::] stand for all addresses of the machine: nobody can connect to them. */
function reachable(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}

/**
 * Serves from now on. Throws `CommandFailure` that names the address it cannot listen on.
 * `passedOnAt`: see `GatewayOptions`.
 */
export async function listen(
  { config, closers, log }: Base,
  services: Services,
  { addresses, passedOnAt }: { addresses: Addresses; passedOnAt: string | null },
): Promise<Gateway> {
  const { adminListen } = config;
  let place = config.listen;
  try {
    // Who listens so that others may do so too would not be told that somebody else does.
    if (passedOnAt !== null) await checkFree(place);
    const gateway = await startGateway({
      services,
      ...config.listen,
      onListening: (url) => {
        addresses.set(url);
        place = adminListen ?? place;
      },
      administration: adminListen
        ? { ...adminListen, onListening: (url) => addresses.setAdmin(url) }
        : null,
      acceptHosts: config.acceptHosts ?? [],
      stallTimeoutMs: config.stallTimeoutMs,
      connectionsMax: connectionsWithin(config.connectionsMax, log),
      minRate: config.minRate,
      trustedProxies: config.trustedProxies ?? [],
      serverTiming: config.serverTiming,
      passedOnAt,
    });
    closers.push(() => gateway.close(config.shutdownTimeoutMs));
    return gateway;
  } catch (error) {
    const { host, port } = place;
    const reason = messageOfFailure(error);
    throw new CommandFailure('failed', `cannot listen on ${host} port ${port}: ${reason}`, error);
  }
}

/** Rejects with the system's error where somebody listens there already. */
async function checkFree(place: { host: string; port: number }): Promise<void> {
  if (place.port === 0) return;
  const server = createServer();
  await listenAt(server, place);
  await new Promise((resolve) => server.close(resolve));
}

/** The database, its readers, threads, logs, and connections to stores. */
const ownFiles = 512;
/** A connection's socket, and a file that it reads or writes. */
const filesPerConnection = 2;
const connectionsMin = 16;

/** The limit that the kernel enforces; Infinity: there is none, or nobody can tell. */
function openFilesMax(): number {
  const text = limitsText();
  const [, soft] = /^Max open files\s+(\d+)\s/m.exec(text) ?? [];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}

/** proc(5); only Linux has it. */
function limitsText(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return '';
  }
}

/** As many connections as were asked for or, where files would run out before, fewer; says so. */
function connectionsWithin(asked: number, log: OperatorLog): number {
  const filesMax = openFilesMax();
  const most = Math.max(Math.floor((filesMax - ownFiles) / filesPerConnection), connectionsMin);
  if (asked <= most) return asked;
  log.warn(
    `this process may open ${filesMax} files (ulimit -n), ` +
      `which is enough for ${most} connections, not ${asked}`,
  );
  return most;
}
