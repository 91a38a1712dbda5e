// The hidden commands that `bursar serve` runs beside itself. They end here: none outlives its
// gateway.
import type { Command } from 'commander';

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
