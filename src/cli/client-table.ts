// Which file has which command of `bursar` for members, admins and auditors, in the order of the
// help. Invariants: nothing here leads to code of the server, so that the client can be packaged
// without it; and only the files of the command that is asked for are loaded, since loading most of
// them takes longer than running them. All files are loaded for the help, and where the word is no
// command, to say so.
import type { Command } from 'commander';

type Add = (program: Command) => void;
export type Row = readonly [command: string, load: () => Promise<Add>];

const overHttp: Row[] = [
  ['tenant', async () => (await import('./identity-commands.ts')).addTenantCommands],
  ['principal', async () => (await import('./identity-commands.ts')).addPrincipalCommands],
  ['group', async () => (await import('./identity-commands.ts')).addGroupCommands],
  ['key', async () => (await import('./key-commands.ts')).addKeyCommands],
  ['token', async () => (await import('./token-commands.ts')).addIssuedTokenCommands],
  ['apply', async () => (await import('./apply-command.ts')).addApplyCommands],
  ['dump', async () => (await import('./apply-command.ts')).addApplyCommands],
  ['grant', async () => (await import('./grant-commands.ts')).addGrantCommands],
  ['mount', async () => (await import('./mount-commands.ts')).addMountCommands],
  ['bucket', async () => (await import('./bucket-commands.ts')).addBucketCommands],
  ['rename', async () => (await import('./rename-command.ts')).addRenameCommand],
  ['undelete', async () => (await import('./undelete-command.ts')).addUndeleteCommand],
  ['snapshot', async () => (await import('./snapshot-commands.ts')).addSnapshotCommands],
  ['explain', async () => (await import('./grant-commands.ts')).addExplainCommands],
  ['whoami', async () => (await import('./grant-commands.ts')).addExplainCommands],
  ['issuer', async () => (await import('./issuer-commands.ts')).addIssuerCommands],
  ['class', async () => (await import('./class-commands.ts')).addClassCommands],
  ['share', async () => (await import('./share-command.ts')).addShareCommands],
  ['keys', async () => (await import('./store-commands.ts')).addRootKeyCommands],
  ['clock', async () => (await import('./store-commands.ts')).addClockCommands],
  ['store', async () => (await import('./store-commands.ts')).addStoreCommands],
  ['limit', async () => (await import('./limit-commands.ts')).addLimitCommands],
  ['usage', async () => (await import('./usage-command.ts')).addUsageCommand],
  ['alarm', async () => (await import('./alarm-commands.ts')).addAlarmCommands],
  ['target', async () => (await import('./target-commands.ts')).addTargetCommands],
  ['find', async () => (await import('./find-command.ts')).addFindCommand],
  ['dataset', async () => (await import('./dataset-commands.ts')).addDatasetCommands],
  ['inventory', async () => (await import('./inventory-commands.ts')).addInventoryCommands],
  ['work', async () => (await import('./work-commands.ts')).addWorkCommands],
  ['recipe', async () => (await import('./recipe/recipe-commands.ts')).addRecipeCommands],
  ['changes', async () => (await import('./changes-command.ts')).addChangesCommand],
  ['records', async () => (await import('./records-command.ts')).addRecordsCommand],
  ['why', async () => (await import('./why-command.ts')).addWhyCommand],
  ['audit', async () => (await import('./audit-commands.ts')).addAuditCommands],
  ['receipt', async () => (await import('./records-command.ts')).addReceiptCommands],
  ['log', async () => (await import('./log-commands.ts')).addLogCommands],
  ['cost', async () => (await import('./cost-command.ts')).addCostCommand],
  ['tiering', async () => (await import('./tiering/tiering-commands.ts')).addTieringCommands],
  ['price', async () => (await import('./price-commands.ts')).addPriceCommands],
  ['verify', async () => (await import('./verify-commands.ts')).addVerifyCommands],
];

/** These commands talk to no gateway. */
const offline: Row[] = [
  ['completion', async () => (await import('./completion-command.ts')).addCompletionCommand],
  ['price', async () => (await import('./price-commands.ts')).addPriceCheckCommand],
  ['cost', async () => (await import('./cost-example-command.ts')).addCostExampleCommand],
  ['key', async () => (await import('./key-commands.ts')).addKeyPairCommands],
  ['token', async () => (await import('./token-commands.ts')).addTokenCommands],
  ['credentials', async () => (await import('./credentials-command.ts')).addCredentialsCommand],
  ['verify', async () => (await import('./verify-commands.ts')).addVerifyOfflineCommands],
];

/** Rows by what is added to their commands. */
export interface Tables {
  /** Of the server itself. */
  readonly serving: readonly Row[];
  readonly overHttp: readonly Row[];
  readonly offline: readonly Row[];
}

export const clientTables: Tables = { serving: [], overHttp, offline };

/** Adds the command that `word` names, or all of them. */
export async function addRows(
  program: Command,
  { serving, overHttp, offline }: Tables,
  word: string | undefined,
): Promise<void> {
  const isKnown = [...serving, ...overHttp, ...offline].some(([command]) => command === word);
  const add = async (rows: readonly Row[]): Promise<void> => {
    const wanted = rows.filter(([command]) => !isKnown || command === word);
    // A set, because two words can lead to one function.
    for (const add of new Set(await Promise.all(wanted.map(([, load]) => load())))) add(program);
  };
  await add(serving);
  const served = program.commands.length;
  await add(overHttp);
  for (const command of program.commands.slice(served)) addClientFlags(command);
  await add(offline);
  for (const command of program.commands) addFormFlags(command);
}

/** Those of all lists, so that no command has to. */
function addFormFlags(command: Command): void {
  for (const one of command.commands) addFormFlags(one);
  if (command.name() === 'list') command.option('--csv', 'answer with CSV');
}

/** Adds the flags that lead to a gateway to each command that does something. */
function addClientFlags(command: Command): void {
  if (command.commands.length > 0) {
    for (const one of command.commands) addClientFlags(one);
    return;
  }
  command
    .option('--json', 'answer with JSON')
    .option('--endpoint <url>', 'gateway to talk to')
    .option('--credentials <file>', 'credentials file')
    .option('--profile <name>', 'profile in the credentials file');
}
