// Which file has which command of `bursar` in a checkout: those of the client, and those that serve
// or work on a data folder.
import type { Command } from 'commander';
import { addRows, clientTables, type Row, type Tables } from './client-table.ts';

const serving: Row[] = [
  ['serve', async () => (await import('./serve-command.ts')).addServeCommand],
];

/** They ask a gateway, and need code of the server besides. */
const overHttp: Row[] = [
  ['log', async () => (await import('./log-export-command.ts')).addLogExportCommand],
];

/** These commands talk to no gateway; the first of them exist for when its database is lost. */
const offline: Row[] = [
  ['database', async () => (await import('./database-commands.ts')).addDatabaseCommands],
  ['backup', async () => (await import('./backup-commands.ts')).addBackupCommands],
  ['restore', async () => (await import('./restore-command.ts')).addRestoreCommand],
  ['standby', async () => (await import('./standby-commands.ts')).addStandbyCommands],
  ['rebuild', async () => (await import('./rebuild-command.ts')).addRebuildCommand],
  ['store', async () => (await import('./store-adopt-command.ts')).addStoreAdoptCommand],
  ['log', async () => (await import('./log-fork-commands.ts')).addLogForkCommands],
  ['probe', async () => (await import('./probe-command.ts')).addProbeCommand],
  ['probe-supervised', async () => (await import('./serve-command.ts')).addSupervisedProbeCommand],
  [
    'ship-supervised',
    async () => (await import('./serve-command.ts')).addSupervisedShippingCommand,
  ],
  ['report', async () => (await import('./report-command.ts')).addReportCommand],
  ['verify', async () => (await import('./verify-deep-command.ts')).addVerifyDeepCommand],
];

const tables: Tables = {
  serving,
  overHttp: [...clientTables.overHttp, ...overHttp],
  offline: [...offline, ...clientTables.offline],
};

/** Adds the command that `word` names, or all of them. */
export function addCommands(program: Command, word: string | undefined): Promise<void> {
  return addRows(program, tables, word);
}
