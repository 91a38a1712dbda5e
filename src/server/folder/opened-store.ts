// An S3 store for a command that works without a gateway.

import { CommandFailure, messageOfFailure } from '../../core/command-failure.ts';
import { StoreMeter } from '../../instruments/store-meter.ts';
import type { S3Store } from '../../tiering/stores/s3/s3-store.ts';

/** Throws `CommandFailure` unless it answers. */
export async function openStore(settings: Parameters<typeof S3Store.open>[0]): Promise<S3Store> {
  // The SDK takes longer to load than all else that the other commands do.
  const s3 = await import('../../tiering/stores/s3/s3-store.ts');
  let store: S3Store;
  try {
    store = await s3.S3Store.open({ meter: new StoreMeter(), ...settings });
  } catch (error) {
    throw new CommandFailure('failed', `store ${settings.name}: ${messageOfFailure(error)}`, error);
  }
  if (store.state().ready) return store;
  const reason = store.state().lastFailure?.message ?? 'it does not answer';
  await store.close();
  throw new CommandFailure('failed', `store ${settings.name} cannot be reached: ${reason}`);
}
