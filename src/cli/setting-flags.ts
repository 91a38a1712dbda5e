// The settings' table as flags and help of a command.
import { type Command, Option } from 'commander';
import { flagOf, type Setting, variableOf } from '../server/settings/setting.ts';
import { type Config, settings } from '../server/settings/settings.ts';

/** Flags that may be given several times, instead of with commas. */
const repeatable: ReadonlySet<keyof Config> = new Set([
  'acceptHosts',
  'domains',
  'witnesses',
  'privateIssuers',
  'privateWebhooks',
  'mailDomains',
]);

/** The settings that lead to the stores, and to the keys of what is in them. */
export const placeSettings = [
  ...(['data', 'config', 'store', 'storeEndpoint', 'storeRegion', 'storePathStyle'] as const),
  ...(['stores', 'kmsKey', 'kmsRegion', 'kmsEndpoint'] as const),
] as const satisfies (keyof Config)[];

/** Adds a flag for each of the settings, and says where those are given that have none. */
export function addSettingFlags(
  command: Command,
  wanted: readonly (keyof Config)[] = Object.keys(settings) as (keyof Config)[],
): Command {
  const hidden: Setting<unknown>[] = [];
  for (const property of wanted) {
    const one: Setting<unknown> = settings[property];
    if (one.secret || one.isMapping) {
      hidden.push(one);
      continue;
    }
    const fallback = one.default === undefined ? '' : ` (default: ${one.default})`;
    const names = `[${variableOf(one)}${one.notInFile ? '' : `, ${one.key}`}]`;
    const value = one.isSwitch ? `[${one.placeholder}]` : `<${one.placeholder}>`;
    const option = new Option(
      `${flagOf(one)} ${value}`,
      `${one.description}${fallback} ${names}`,
    ).preset('yes');
    option.attributeName = () => property;
    command.addOption(repeatable.has(property) ? option.argParser(joinRepeated) : option);
  }
  const rows = hidden.map((one) => `  ${variableOf(one)}, ${one.key}: ${one.description}`);
  if (rows.length > 0) {
    command.addHelpText(
      'after',
      `\nIn the environment or the config file only:\n${rows.join('\n')}`,
    );
  }
  return command.addHelpText(
    'after',
    '\nA flag wins over [its variable], that over its key in the config file.',
  );
}

function joinRepeated(value: string, before: string | undefined): string {
  return before === undefined ? value : `${before},${value}`;
}
