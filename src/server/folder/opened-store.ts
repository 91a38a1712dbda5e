// A store for a command that works without a gateway.

import { CommandFailure, messageOfFailure } from '../../core/command-failure.ts';
import { StoreMeter } from '../../instruments/store-meter.ts';
import type { StoreDriver } from '../../tiering/stores/driver.ts';
import type { StoreOptions } from '../../tiering/stores/drivers.ts';

/** Throws `CommandFailure` unless it answers. */
export async function openStore(settings: StoreOptions): Promise<StoreDriver> {
  // The SDK takes longer to load than all else that the other commands do.
  const { openDriver } = await import('../../tiering/stores/drivers.ts');
  let store: StoreDriver;
  try {
    store = await openDriver({ meter: new StoreMeter(), ...settings });
  } catch (error) {
    throw new CommandFailure('failed', `store ${settings.name}: ${messageOfFailure(error)}`, error);
  }
  if (store.state().ready) return store;
  const reason = store.state().lastFailure?.message ?? 'it does not answer';
  await store.close();
  throw new CommandFailure('failed', `store ${settings.name} cannot be reached: ${reason}`);
}
