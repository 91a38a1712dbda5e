// `bursar class`: storage classes, in which durability, availability and speed are chosen apart.
// Classes are written TENANT/NAME; those of the tenant `default` are everybody's.
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { isObject } from '../core/json.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { parseDocument } from '../server/settings/yaml-text.ts';
import { callApi } from './api-client.ts';
import { type Columns, calling, listing, pathIn, printEntries } from './api-command.ts';
import { connect } from './command-arguments.ts';
import { print, printPairs } from './output.ts';

type StorageClass = Answers['GetClass'];

const fileBytesMax = 1024 * 1024;

const classes: Columns<StorageClass> = {
  heading: ['CLASS', 'ALIASES', 'LEGS', 'ACK', 'ACCESS', 'LOSS', 'WRITABLE'],
  row: ({ tenant, name, aliases, durability, access, loss, notWritable }) => [
    ...[`${tenant}/${name}`, aliases.join(',')],
    ...[durability.legs.map(({ store }) => store).join(','), String(durability.ack)],
    ...[access, loss, notWritable === null ? 'yes' : 'no'],
  ],
};

export function addClassCommands(program: Command): void {
  const group = program
    .command('class')
    .description('storage classes: durability, availability and speed, chosen and paid apart');
  group
    .command('create <tenant> <file>')
    .description(
      'create the classes that a file of YAML or JSON has under "classes"; - reads standard ' +
        'input. Those of the tenant default are for everybody',
    )
    .action(create);
  group
    .command('list <tenant>')
    .description("list the classes that a tenant can use: its own and everybody's")
    .action(listing(classes, 'classes', (tenant: string) => ['tenants', tenant, 'classes']));
  group
    .command('show <tenant/name>')
    .description('show a class')
    .action(calling((id: string) => ({ method: 'GET', path: pathIn('classes', id) }), showClass));
  group
    .command('explain <tenant/name>')
    .description('say what one pays for what: copies, expected loss, absence, prices')
    .action(
      calling(
        (id: string) => ({ method: 'GET', path: pathIn('classes', id) }),
        ({ explanation, notWritable }: StorageClass) => {
          for (const sentence of explanation.sentences) print(sentence);
          if (notWritable !== null) print(`Nothing can be written to it: ${notWritable}`);
        },
      ),
    );
  group
    .command('delete <tenant/name>')
    .description('delete a class in which no bucket that is there has had anything')
    .action(calling((id: string) => ({ method: 'DELETE', path: pathIn('classes', id) })));
}

async function create(tenant: string, file: string, _: object, command: Command): Promise<void> {
  const { connection, flags } = connect(command);
  const wanted = readClasses(file);
  const made: StorageClass[] = [];
  for (const body of wanted) {
    try {
      const path = ['tenants', tenant, 'classes'];
      made.push((await callApi(connection, { method: 'POST', path, body })).json as StorageClass);
    } catch (error) {
      if (!(error instanceof CommandFailure)) throw error;
      const before = made.map(({ name }) => name).join(', ');
      const done = made.length === 0 ? 'none was made' : `made before: ${before}`;
      const which = typeof body.name === 'string' ? body.name : `class ${made.length + 1}`;
      throw new CommandFailure('failed', `${which}: ${error.message}; ${done}`, error);
    }
  }
  printEntries(flags.json, classes, { classes: made }, made);
}

/** Throws `CommandFailure` (usage). */
function readClasses(file: string): Record<string, unknown>[] {
  const name = file === '-' ? 'standard input' : file;
  const wrong = (why: string, cause?: unknown) =>
    new CommandFailure('usage', `${name}: ${why}`, cause);
  let text: string;
  try {
    text = readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw wrong(`cannot be read: ${(error as Error).message}`, error);
  }
  if (text.length > fileBytesMax) throw wrong(`it has more than ${fileBytesMax} bytes`);
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error) throw wrong(error.message.split('\n')[0] ?? 'it is no YAML');
  const value: unknown = document.toJS({ maxAliasCount: 0 });
  const list = isObject(value) ? value.classes : undefined;
  if (!Array.isArray(list) || list.length === 0 || !list.every(isObject)) {
    throw wrong('must have a list of classes under "classes"');
  }
  return list;
}

function showClass(one: StorageClass): void {
  const { durability, availability, minimum } = one;
  printPairs(17, [
    ['class', `${one.tenant}/${one.name}`],
    ['aliases', one.aliases.join(', ') || 'none'],
    ['legs', durability.legs.map(({ store }) => store).join(', ')],
    ['acknowledged by', `${durability.ack} of ${durability.legs.length}`],
    ['repaired within', `${durability.repairHours} h`],
    ['answers', availability.answer],
    ['may be away', `${availability.maxOfflineHoursPerMonth} h a month`],
    ['access', one.access],
    ...(one.restoreWithinHours === null
      ? []
      : [['restored within', `${one.restoreWithinHours} h`] as const]),
    ['loss', one.loss],
    ['minimum', `${minimum.days} days, ${minimum.bytes} bytes`],
    ['writable', one.notWritable === null ? 'yes' : `no: ${one.notWritable}`],
    ['created', one.createdAt],
  ]);
}
