// The drivers of stores, by what their URLs name.
import type { DriverOptions, OpenedStore, StoreDriver } from './driver.ts';
import { FolderStore } from './folder/folder-store.ts';
import type { LoadCredentials } from './s3/credentials.ts';
import type { S3StoreOptions } from './s3/options.ts';
import { S3Store } from './s3/s3-store.ts';
import { kindOf } from './store-place.ts';

export type StoreOptions = DriverOptions & S3StoreOptions;

/** See `S3Store.open` and `FolderStore.open`. */
export function openDriver(options: StoreOptions): Promise<StoreDriver> {
  return kindOf(options.url) === 'folder' ? FolderStore.open(options) : S3Store.open(options);
}

/** See `S3Store.join` and `FolderStore.join`. */
export function joinDriver(
  options: StoreOptions & { loadCredentials: LoadCredentials },
  opened: OpenedStore,
): StoreDriver {
  return opened.kind === 'folder' ? FolderStore.join(options) : S3Store.join(options, opened);
}
