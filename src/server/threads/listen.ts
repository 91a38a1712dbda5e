// The gateway listens: on the main thread alone, or on several that share one port.
import { closeSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Turns } from '../../core/turns.ts';
import type { Services } from '../../gateway/services.ts';
import type { Recalls } from '../../quota/leases/recalls.ts';
import { type DecidingRooms, RoomDesk } from '../../quota/remote-rooms.ts';
import type { Base } from '../base.ts';
import type { Closers } from '../closers.ts';
import { type Addresses, listen } from '../listening.ts';
import type { OpenStores } from '../stores.ts';
import { HttpThreads } from './http-threads.ts';
import type { SharedMemory } from './links.ts';
import { shareOf } from './share.ts';
import { StoreDesk } from './store-desk.ts';

/** The socket's name must be short: unix(7). It lies where only the gateway's user gets to. */
const socketName = 'http.sock';
const socketPathMax = 100;

interface OfThreads {
  addresses: Addresses;
  shared: SharedMemory;
  recalls: Recalls;
  rooms: DecidingRooms;
  stores: Pick<OpenStores, 'storeList' | 'journals' | 'upkeep'>;
  bulkTurns: Turns;
}

/** Serves from now on. Throws `CommandFailure`. */
export async function listenOnThreads(
  base: Base,
  services: Services,
  { addresses, shared, recalls, rooms, stores, bulkTurns }: OfThreads,
): Promise<void> {
  const { config, folder, closers, metrics, log, writeLines, keepSamples } = base;
  const { httpThreads: count } = config;
  if (count === 1) {
    await listen(base, services, { addresses, passedOnAt: null });
    return;
  }
  const socketPath = socketIn(folder.path, closers);
  // What a gateway that died has left.
  rmSync(socketPath, { force: true });
  const own = { ...base, config: shareOf(config, count) };
  const gateway = await listen(own, services, { addresses, passedOnAt: socketPath });
  const { ledger, sealFaults, log: head, leases, rootKeys } = services;
  const threads = new HttpThreads({
    onUnsealed: (unsealed) => sealFaults.add(unsealed),
    onIntegrityFailure: (failure) => gateway.integrity.count(failure),
    onLines: writeLines,
    onSamples: keepSamples,
    onWarning: (text) => log.warn(text),
    onFatal: (reason) => log.stop(reason),
    onRecall: (thread, accounts) => recalls.recall(thread, accounts),
    openDesk: () => new RoomDesk(rooms),
    storeDesk: new StoreDesk(stores),
    bulkTurns,
  });
  // Before the main thread's own server closes, to which they pass on.
  closers.push(() => threads.close(config.shutdownTimeoutMs));
  sealFaults.onChanged((found) => threads.tellUnsealed(found));
  head.onRefusal((reason) => threads.tellRefusal(reason));
  rootKeys.onAdded((key) => threads.tellRootKey(key));
  const { storeList } = stores;
  storeList.onDoor((door) => threads.tellDoor(door));
  leases.addOthers((ids) => threads.heldOf(ids));
  metrics.registry.addOthers(() => threads.measure());
  base.recentRequests.addOthers((id) => threads.recount(id));
  const { port } = new URL(addresses.listenedUrl);
  await Promise.all(
    Array.from({ length: count - 1 }, (_, i) => {
      const thread = i + 1;
      recalls.add(thread, (accounts) => threads.giveUp(thread, accounts));
      return threads.add({
        ...{ config, thread, count, socketPath, shared },
        rootKeys: rootKeys.keys,
        end: ledger.addEnd(),
        place: { host: config.listen.host, port: Number(port || 80) },
        publicUrl: addresses.publicUrl,
        doors: storeList.doors,
        defaultStore: storeList.defaultName,
        unsealed: sealFaults.found,
        refusal: head.refusal,
      });
    }),
  );
}

/** Where the path is too long for a socket, the folder is named by its descriptor: proc(5). */
function socketIn(folder: string, closers: Closers): string {
  const path = join(folder, socketName);
  if (Buffer.byteLength(path) <= socketPathMax) return path;
  const descriptor = openSync(folder, 'r');
  closers.push(() => closeSync(descriptor));
  return `/proc/self/fd/${descriptor}/${socketName}`;
}
