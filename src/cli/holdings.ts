// `bursar principal delete` and `transfer`: what is a principal's, or names it, and has to be given
// to somebody else when they leave. A transfer is a commit of the gateway's for each thing that is
// still the principal's: so it can be stopped at any moment and run again.
import type { Command } from 'commander';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { ApiRefusal, type Connection, callApi, listAll } from './api-client.ts';
import { askOwnId, type Columns, pathIn, printEntries } from './api-command.ts';
import { awsParameters } from './aws-parameters.ts';
import { type CommandFlags, connect, splitId } from './command-arguments.ts';
import { confirm } from './confirmation.ts';
import { print, printJson } from './output.ts';
import { CountProgress } from './progress.ts';

type Holding = Answers['ListHoldings']['holdings'][number];

export function listHoldings(connection: Connection, id: string): Promise<Holding[]> {
  return listAll<Holding>(connection, [...pathIn('principals', id), 'holdings'], 'holdings');
}

/** What is in the way of a deletion, and the command by which each of it goes. */
export async function deletePrincipal(
  id: string,
  { yes }: { yes?: true },
  command: Command,
): Promise<void> {
  const { connection, flags } = connect(command);
  const path = pathIn('principals', id);
  if (!yes && id === (await askOwnId(connection))) {
    const lines = ['That is you: none of your keys will work, and nobody gets the name again.'];
    await confirm(lines, `Delete principal ${id}?`, flags);
  }
  try {
    await callApi(connection, { method: 'DELETE', path });
  } catch (error) {
    if (!(error instanceof ApiRefusal) || error.status !== 409) throw error;
    await explain(connection, id, { error, flags });
  }
}

async function explain(
  connection: Connection,
  id: string,
  { error, flags }: { error: ApiRefusal; flags: CommandFlags },
): Promise<void> {
  const parties = splitId(id);
  const [tenant] = parties;
  const holdings = await listHoldings(connection, id);
  if (!holdings.some(({ blocks }) => blocks)) throw error;
  process.exitCode = 1;
  const all = `bursar principal transfer ${id} --to ${tenant}/OTHER`;
  const shown = holdings.map((one) => ({ ...one, command: commandFor(parties, one) }));
  if (flags.json) {
    printJson({ deleted: false, reason: error.message, holdings: shown, transfer: all });
    return;
  }
  const lines = [
    `bursar: ${messageOfFailure(error)}`,
    ...['', 'In the way:', ...linesOf(commandsOf(shown.filter(({ blocks }) => blocks)))],
  ];
  const others = shown.filter(({ blocks }) => !blocks);
  if (others.length > 0) {
    const heading = `Of no use any more when it is gone (aws: with a key of ${tenant}):`;
    lines.push('', heading, ...linesOf(commandsOf(others)));
  }
  const locked = holdings.filter(({ hasObjectLock }) => hasObjectLock);
  if (locked.length > 0) {
    const heading = 'What object lock keeps is given with its bucket. Which, and until when:';
    lines.push('', heading, ...linesOf(locked.map(({ name }) => locksOf(tenant, name))));
  }
  lines.push('', `All of it at once: ${all}`, '');
  process.stderr.write(lines.join('\n'));
}

const commandsOf = (all: readonly { command: string }[]) => all.map(({ command }) => command);

/** By which one sees what is locked in a bucket. */
export function locksOf(tenant: string, bucket: string): string {
  return `bursar bucket locks ${tenant}/${bucket}`;
}

/** Commands, as many as one reads. */
export function linesOf(commands: readonly string[]): string[] {
  const shown = commands.slice(0, shownMax).map((command) => `  ${command}`);
  const more = commands.length - shown.length;
  return more > 0 ? [...shown, `  and ${more} more (--json names all)`] : shown;
}

const shownMax = 20;

/** By which a thing is given to OTHER, or goes. */
function commandFor(
  [tenant, principal]: readonly [string, string],
  { kind, name, bucket, key }: Holding,
): string {
  switch (kind) {
    case 'bucket':
      return `bursar bucket chown ${tenant}/${name} OTHER`;
    case 'upload': {
      // By a key of the tenant: the AWS CLI refuses the name that a bucket has elsewhere.
      const upload = { Bucket: bucket, Key: key, UploadId: name };
      return `aws s3api abort-multipart-upload ${awsParameters(upload)}`;
    }
    case 'share':
      return `bursar share delete ${name}`;
    case 'grant':
      return `bursar grant delete ${tenant}/${name}`;
    case 'policy':
      // What else it says stays: somebody has to edit it.
      return `aws s3api get-bucket-policy --bucket ${name}`;
    case 'group':
      return `bursar group remove ${tenant}/${name} ${principal}`;
    case 'limit':
      return `bursar limit delete ${name}`;
    case 'token':
      return `bursar token delete ${name}`;
    case 'mount':
      // Its own, by its own key; it goes with the principal.
      return `bursar mount delete ${tenant}/${principal}/${name}`;
    default:
      throw new CommandFailure('failed', `the gateway tells of a ${kind}, which is not known here`);
  }
}

interface TransferFlags extends CommandFlags {
  to: string;
  dryRun?: true;
}

const plan: Columns<Holding> = {
  heading: ['KIND', 'NAME', 'BUCKET', 'KEY'],
  row: ({ kind, name, bucket, key }) => [kind, name, bucket ?? '', key ?? ''],
};

export async function transfer(id: string, _: object, command: Command): Promise<void> {
  const { connection } = connect(command);
  const flags = command.optsWithGlobals<TransferFlags>();
  const [[tenant, from], [toTenant, to]] = [splitId(id), splitId(flags.to)];
  if (tenant !== toTenant) {
    const why = "what is a tenant's stays in it (docs/admin/ownership.md#another-tenant)";
    throw new CommandFailure('usage', `--to must be a principal of ${tenant}: ${why}`);
  }
  if (from === to) throw new CommandFailure('usage', 'both are the same');
  await callApi(connection, { method: 'GET', path: pathIn('principals', flags.to) });
  const all = await listHoldings(connection, id);
  const holdings = all.filter(
    ({ kind }) => !['policy', 'group', 'limit', 'token', 'mount'].includes(kind),
  );
  if (flags.dryRun) return printEntries(flags.json, plan, holdings, holdings);
  const failed: (Holding & { reason: string })[] = [];
  let done = 0;
  {
    using progress = new CountProgress(process.stderr, `of ${holdings.length} given`);
    for (const one of holdings) {
      try {
        await give(connection, one, { tenant, from, to });
        progress.show(++done);
      } catch (error) {
        if (!(error instanceof ApiRefusal)) throw error;
        // It ended meanwhile, or was given to somebody else.
        if (error.status === 404) continue;
        failed.push({ ...one, reason: messageOfFailure(error) });
      }
    }
  }
  if (failed.length > 0) process.exitCode = 1;
  if (flags.json) return printJson({ from: id, to: flags.to, given: done, failed });
  print(`${done} of ${holdings.length} given to ${flags.to}`);
  for (const { kind, name, reason } of failed) {
    process.stderr.write(`bursar: ${kind} ${name} stays: ${reason}\n`);
  }
}

interface Parties {
  tenant: string;
  from: string;
  to: string;
}

async function give(
  connection: Connection,
  { kind, name, bucket }: Holding,
  { tenant, from, to }: Parties,
): Promise<void> {
  const of = ['tenants', tenant];
  switch (kind) {
    case 'bucket': {
      const path = [...of, 'buckets', name, 'owner'];
      await callApi(connection, { method: 'PUT', path, body: { owner: to, from } });
      return;
    }
    case 'upload': {
      const path = [...of, 'buckets', bucket ?? '', 'uploads', name, 'initiator'];
      await callApi(connection, { method: 'PUT', path, body: { initiator: to, from } });
      return;
    }
    case 'share': {
      const path = ['shares', name, 'principal'];
      await callApi(connection, { method: 'PUT', path, body: { principal: to } });
      return;
    }
    case 'grant':
      return giveGrant(connection, [...of, 'grants', name], { tenant, from, to });
    default:
      throw new CommandFailure('failed', `the gateway tells of a ${kind}, which is not known here`);
  }
}

/** The grant names the one in the place of the other, unless it was replaced meanwhile. */
async function giveGrant(
  connection: Connection,
  path: readonly string[],
  { tenant, from, to }: Parties,
): Promise<void> {
  const { json } = await callApi(connection, { method: 'GET', path });
  const { tenant: _, name: _2, createdAt, warnings: _3, ...rule } = json as Answers['GetGrant'];
  const named = (principal: string) => `principal:${tenant}/${principal}`;
  const subjects = rule.subjects.map((one) => (one === named(from) ? named(to) : one));
  const body = { ...rule, subjects: [...new Set(subjects)] };
  await callApi(connection, { method: 'PUT', path, query: { replaces: createdAt }, body });
}
