// `bursar inventory`: lists of a bucket's objects, which S3's clients configure.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi } from './api-client.ts';
import { type Columns, printEntries } from './api-command.ts';
import { findPlace } from './bucket-names.ts';
import { connect } from './command-arguments.ts';
import { printJson, printPairs } from './output.ts';

type Inventory = Answers['ListInventories']['inventories'][number];

const inventories: Columns<Inventory> = {
  heading: ['INVENTORY', 'FREQUENCY', 'FORMAT', 'INTO', 'STATE', 'ENDED'],
  row: ({ id, frequency, format, destination, prefix, state, endedAt, enabled }) => [
    ...[id, enabled ? frequency : 'disabled', format, `s3://${destination}/${prefix}`],
    ...[state, endedAt ?? ''],
  ],
};

export function addInventoryCommands(program: Command): void {
  const inventory = program
    .command('inventory')
    .description('lists of all objects in a bucket, written daily or weekly (CSV or Parquet)');
  inventory
    .command('list <bucket>')
    .description("list a bucket's inventories: s3://raw, or of another tenant s3://cms:raw")
    .action(async (bucket: string, _: object, command: Command) => {
      const { connection, flags } = connect(command);
      const found = await listAll(connection, await pathOf(connection, bucket));
      printEntries(flags.json, inventories, found, found);
    });
  inventory
    .command('show <bucket> <id>')
    .description('show an inventory, and what became of the last one')
    .action(async (bucket: string, id: string, _: object, command: Command) => {
      const { connection, flags } = connect(command);
      const found = await listAll(connection, await pathOf(connection, bucket));
      const one = found.find((each) => each.id === id);
      if (!one) throw new CommandFailure('failed', `${bucket} has no inventory ${id}`);
      if (flags.json) printJson(one);
      else show(one);
    });
  inventory
    .command('run <bucket> <id>')
    .description('write an inventory now; show says what becomes of it')
    .action(async (bucket: string, id: string, _: object, command: Command) => {
      const { connection, flags } = connect(command);
      const path = [...(await pathOf(connection, bucket)), id, 'run'];
      const { json } = await callApi(connection, { method: 'POST', path });
      if (flags.json) printJson(json);
      else show(json as Inventory);
    });
}

async function listAll(connection: Connection, path: string[]): Promise<Inventory[]> {
  const { json } = await callApi(connection, { method: 'GET', path });
  return (json as Answers['ListInventories']).inventories;
}

/** Throws `CommandFailure` for what is no bucket. */
async function pathOf(connection: Connection, text: string): Promise<string[]> {
  const { tenant, bucket, key } = await findPlace(connection, text);
  if (key !== '') throw new CommandFailure('usage', `${text} must be a bucket: s3://BUCKET`);
  return ['tenants', tenant, 'buckets', bucket, 'inventories'];
}

function show(one: Inventory): void {
  printPairs(11, [
    ['inventory', one.id],
    ['by', one.by],
    ['due', one.enabled ? `${one.frequency}, last at ${one.lastDueAt}` : 'never: it is disabled'],
    ['into', `s3://${one.destination}/${one.prefix} as ${one.format}`],
    ['last one', [one.state, one.endedAt ?? ''].join(' ').trim()],
    ['manifest', one.manifest ?? 'none yet'],
    ['objects', one.objects === null ? 'not known' : String(one.objects)],
    ['problem', one.problem ?? 'none'],
  ]);
}
