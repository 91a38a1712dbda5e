// `bursar tenant delete`: shows what goes with a tenant and asks, or, where buckets are in the way,
// names them and the command for each. Invariant: nothing is deleted before somebody said yes.
import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { type Connection, callApi, listAll } from './api-client.ts';
import { type CommandFlags, connect } from './command-arguments.ts';
import { listHoldings } from './holdings.ts';
import { print, printJson } from './output.ts';

/** Names of what is deleted with a tenant. */
interface Contents {
  principals: string[];
  groups: string[];
  grants: string[];
  issuers: string[];
  mounts: string[];
  classes: string[];
}

const collections: readonly (keyof Contents)[] = [
  ...(['principals', 'groups', 'grants', 'issuers', 'mounts', 'classes'] as const),
];

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
  else for (const line of [`tenant ${name} is deleted`, ...linesOf(contents)]) print(line);
}

async function readContents(connection: Connection, tenant: string): Promise<Contents> {
  const contents = Object.fromEntries(collections.map((what) => [what, []])) as never as Contents;
  for (const what of collections) {
    const path = ['tenants', tenant, what];
    const all = await listAll<{ tenant?: string; name: string }>(connection, path, what);
    // Classes that are everybody's stay.
    const own = all.filter((one) => (one.tenant ?? tenant) === tenant);
    contents[what] = own.map(({ name }) => name);
  }
  return contents;
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
  const commands = buckets.map((bucket) => `aws s3 rb --force s3://${bucket}`);
  const locked = found.filter(({ hasObjectLock }) => hasObjectLock).map(({ name }) => name);
  if (json) {
    printJson({ deleted: false, reason, buckets, locked, commands });
    return;
  }
  const shown = commands.slice(0, shownMax).map((line) => `  ${line}`);
  const more = commands.length - shown.length;
  if (more > 0) shown.push(`  and ${more} more (--json names all)`);
  const lines = [`bursar: ${reason}`, '', `In the way (aws: with a key of ${tenant}):`, ...shown];
  if (locked.length > 0) {
    const until = 'what is locked there goes when its time is over, or with';
    lines.push(
      '',
      `With object lock, ${locked.join(', ')}: ${until}`,
      ...unlocking(locked[0] ?? ''),
    );
  }
  process.stderr.write(`${lines.join('\n')}\n`);
}

/** Commands that show what is locked, and delete what is locked in governance mode. */
function unlocking(bucket: string): string[] {
  const version = `--bucket ${bucket} --key KEY --version-id ID`;
  return [
    `  aws s3api list-object-versions --bucket ${bucket}`,
    `  aws s3api put-object-legal-hold ${version} --legal-hold Status=OFF`,
    `  aws s3api delete-object ${version} --bypass-governance-retention`,
  ];
}

const shownMax = 20;

/** Throws `CommandFailure` unless somebody says yes. */
async function ask(tenant: string, contents: Contents, { json }: CommandFlags): Promise<void> {
  const heading = `With tenant ${tenant} go, for good:`;
  const lines = [heading, ...linesOf(contents), 'Its name is not given again.'];
  process.stderr.write(`${lines.join('\n')}\n`);
  const answer = json ? '' : await readAnswer(`Delete tenant ${tenant}? [y/N] `);
  if (/^y(?:es)?$/i.test(answer.trim())) return;
  throw new CommandFailure('failed', 'nothing was deleted: say yes, or give --yes');
}

/** A line of stdin; empty at its end. */
async function readAnswer(question: string): Promise<string> {
  const reader = createInterface({ input: process.stdin, output: process.stderr });
  const ended = new Promise<string>((end) => reader.once('close', () => end('')));
  try {
    return await Promise.race([reader.question(question), ended]);
  } finally {
    reader.close();
  }
}

function linesOf(contents: Contents): string[] {
  return collections.map((what) => {
    const names = contents[what];
    const kind = what === 'classes' ? 'storage class' : what.slice(0, -1);
    const keys = what === 'principals' && names.length > 0 ? ', with their keys and tokens' : '';
    const shown = names.slice(0, namesMax).join(', ');
    const more = names.length > namesMax ? ', …' : '';
    return `  ${count(names.length, kind)}${keys}${shown === '' ? '' : `: ${shown}${more}`}`;
  });
}

const namesMax = 10;

function count(number: number, kind: string): string {
  if (number === 0) return `no ${kind}`;
  return `${number} ${kind}${number === 1 ? '' : kind.endsWith('s') ? 'es' : 's'}`;
}
