// What each of several HTTP threads has of what is bounded for the gateway as one.
import { defaultConnectionsMax } from '../../tiering/stores/store-place.ts';
import type { Config } from '../settings/config.ts';
import type { StoreSettings } from '../settings/store-settings.ts';

const divided = [
  'bufferMemoryBytes',
  'objectMemoryBytes',
  'connectionsMax',
  'refusalRecords',
] as const satisfies readonly (keyof Config)[];

/** The settings of one of `count` threads. */
export function shareOf(config: Config, count: number): Config {
  if (count === 1) return config;
  const share = { ...config };
  for (const name of divided) share[name] = Math.ceil(config[name] / count);
  return share;
}

/** The connections that one of `count` threads may have to a store. */
export function connectionsOf(
  {
    url,
    connectionsMax = defaultConnectionsMax(url),
  }: Pick<StoreSettings, 'url' | 'connectionsMax'>,
  count: number,
): number {
  return Math.ceil(connectionsMax / count);
}
