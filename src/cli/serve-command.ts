// `bursar serve`, with a flag for each setting, and the hidden commands that it runs in processes
// of their own. None of those outlives its gateway.
import { setFlagsFromString } from 'node:v8';
import type { Command } from 'commander';
import { type Flags, loadConfig } from '../server/settings/config.ts';
import { addSettingFlags } from './setting-flags.ts';

export function addServeCommand(program: Command): void {
  const command = program.command('serve').description('run the gateway');
  addSettingFlags(command).action(async (flags: Flags) => {
    const config = loadConfig(flags);
    // What was garbage of the heap may become a third of what is alive, not several times as much:
    // the buffers of bodies, which V8 is not told of (core/spent-bytes.ts), let it wait long. It
    // looks at this flag at each collection.
    setFlagsFromString('--heap-growing-percent=30');
    // Settings are checked first, since the gateway takes a while to load.
    const { serve } = await import('../server/main.ts');
    await serve(config);
  });
}

const endMsMax = 2000;

export function addSupervisedProbeCommand(program: Command): void {
  program.command('probe-supervised', { hidden: true }).action(async () => {
    // What hangs in a system call, or in a server, must not outlive the gateway.
    process.once('disconnect', () => setTimeout(() => process.exit(1), endMsMax).unref());
    const { runSupervisedProbe } = await import('../server/processes/supervised-probe.ts');
    await runSupervisedProbe();
  });
}

export function addSupervisedShippingCommand(program: Command): void {
  program.command('ship-supervised', { hidden: true }).action(async () => {
    // Another may already ship for the gateway that took this one's place.
    process.once('disconnect', () => process.exit(1));
    const { runSupervisedShipping } = await import('../server/processes/supervised-shipping.ts');
    await runSupervisedShipping();
    process.exit(0);
  });
}
