// `bursar tenant delete`: shows what goes with a tenant and asks, or, where buckets are in the way,
// names them and the command for each. Invariant: nothing is deleted before somebody said yes.
import type { Command } from 'commander';
import { type Connection, callApi, listAll } from './api-client.ts';
import { type CommandFlags, connect } from './command-arguments.ts';
import { confirm } from './confirmation.ts';
import { linesOf, listHoldings, locksOf } from './holdings.ts';
import { print, printJson } from './output.ts';

/** Names of what is deleted with a tenant. */
interface Contents {
  principals: string[];
  groups: string[];
  grants: string[];
  issuers: string[];
  mounts: string[];
  /** Of its principals: `alice/data`. */
  ownMounts: string[];
  classes: string[];
}

/** With what each is called in the singular. */
const kinds: Readonly<Record<keyof Contents, string>> = {
  ...{ principals: 'principal', groups: 'group', grants: 'grant', issuers: 'issuer' },
  ...{ mounts: 'mount', ownMounts: 'personal mount', classes: 'storage class' },
};
const collections = Object.keys(kinds) as readonly (keyof Contents)[];

interface DeletionFlags extends CommandFlags {
  yes?: true;
}

export async function deleteTenant(name: string, _: object, command: Command): Promise<void> {
  const { connection } = connect(command);
  const flags = command.optsWithGlobals<DeletionFlags>();
  const path = ['tenants', name];
  await callApi(connection, { method: 'GET', path });
  const contents = await readContents(connection, name);
  const buckets = await readBuckets(connection, name, contents);
  if (buckets.length > 0) {
    refuse(name, buckets, flags);
    return;
  }
  if (!flags.yes) await ask(name, contents, flags);
  await callApi(connection, { method: 'DELETE', path });
  if (flags.json) printJson({ deleted: name, ...contents });
  else for (const line of [`tenant ${name} is deleted`, ...describe(contents)]) print(line);
}

async function readContents(connection: Connection, tenant: string): Promise<Contents> {
  const contents = Object.fromEntries(collections.map((what) => [what, []])) as never as Contents;
  for (const what of collections) {
    const isOwn = what === 'ownMounts';
    const path = ['tenants', tenant, isOwn ? 'own-mounts' : what];
    const all = await listAll<Named>(connection, path, isOwn ? 'mounts' : what);
    // Classes that are everybody's stay.
    const own = all.filter((one) => (one.tenant ?? tenant) === tenant);
    contents[what] = own.map(({ principal, name }) => (isOwn ? `${principal}/${name}` : name));
  }
  return contents;
}

interface Named {
  tenant?: string;
  principal?: string;
  name: string;
}

/** The buckets that the tenant's principals own: each is somebody's. */
async function readBuckets(
  connection: Connection,
  tenant: string,
  { principals }: Contents,
): Promise<Bucket[]> {
  const buckets: Bucket[] = [];
  for (const principal of principals) {
    const held = await listHoldings(connection, `${tenant}/${principal}`);
    buckets.push(...held.filter(({ blocks }) => blocks));
  }
  return buckets.sort((a, b) => (a.name < b.name ? -1 : 1));
}

interface Bucket {
  name: string;
  hasObjectLock: boolean;
}

/** A bucket stays in its tenant, so it can only be deleted. */
function refuse(tenant: string, found: readonly Bucket[], { json }: CommandFlags): void {
  const buckets = found.map(({ name }) => name);
  process.exitCode = 1;
  const reason = `${tenant} has ${count(buckets.length, 'bucket')}, which would have to go first`;
  const commands = buckets.map((bucket) => `bursar bucket delete ${tenant}/${bucket} --all`);
  const locked = found.filter(({ hasObjectLock }) => hasObjectLock).map(({ name }) => name);
  const lockCommands = locked.map((bucket) => locksOf(tenant, bucket));
  if (json) {
    printJson({ deleted: false, reason, buckets, commands, locked, lockCommands });
    return;
  }
  const way = `In the way (with a key of an admin of ${tenant}):`;
  const lines = [`bursar: ${reason}`, '', way, ...linesOf(commands)];
  if (locked.length > 0) {
    const heading =
      'Of what is locked in them, until when; with --commands, how what can goes before:';
    lines.push('', heading, ...linesOf(lockCommands));
  }
  process.stderr.write(`${lines.join('\n')}\n`);
}

async function ask(tenant: string, contents: Contents, flags: CommandFlags): Promise<void> {
  const heading = `With tenant ${tenant} go, for good:`;
  const lines = [heading, ...describe(contents), 'Its name is not given again.'];
  await confirm(lines, `Delete tenant ${tenant}?`, flags);
}

function describe(contents: Contents): string[] {
  return collections.map((what) => {
    const names = contents[what];
    const keys = what === 'principals' && names.length > 0 ? ', with their keys and tokens' : '';
    const shown = names.slice(0, namesMax).join(', ');
    const more = names.length > namesMax ? ', …' : '';
    return `  ${count(names.length, kinds[what])}${keys}${shown === '' ? '' : `: ${shown}${more}`}`;
  });
}

const namesMax = 10;

function count(number: number, kind: string): string {
  if (number === 0) return `no ${kind}`;
  return `${number} ${kind}${number === 1 ? '' : kind.endsWith('s') ? 'es' : 's'}`;
}
