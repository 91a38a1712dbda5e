// What writes the inventories of buckets, as a client of this gateway.
import { Inventories } from '../gateway/inventory/inventories.ts';
import type { RequestServices } from '../gateway/services.ts';
import type { Base } from './base.ts';
import { opened } from './closers.ts';
import type { Addresses } from './listening.ts';

/** To be started when the gateway listens. */
export function openInventories(
  { closers, log }: Base,
  services: RequestServices,
  addresses: Pick<Addresses, 'listenedUrl'>,
): Inventories {
  const { log: head } = services;
  const inventories = new Inventories({
    ...services,
    endpoint: () => addresses.listenedUrl,
    mayWrite: () => head.refusal === null,
    onProblem: (text) => log.warn(text),
    onError: (error) => log.warn('inventories were not written', error),
  });
  return opened(closers, inventories);
}
