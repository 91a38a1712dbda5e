// `bursar serve`, with a flag for each setting.
import type { Command } from 'commander';
import { type Flags, loadConfig } from '../server/settings/config.ts';
import { addSettingFlags } from './setting-flags.ts';

export function addServeCommand(program: Command): void {
  const command = program.command('serve').description('run the gateway');
  addSettingFlags(command).action(async (flags: Flags) => {
    const config = loadConfig(flags);
    // The gateway takes longer to load than settings to be found wrong.
    const { serve } = await import('../server/main.ts');
    await serve(config);
  });
}
