// `bursar alarm`: where it is told that limits are used up to 50, 80 and 100 percent.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import { callApi } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { type CommandFlags, connect } from './command-arguments.ts';
import { print, printJson } from './output.ts';

type Hook = Answers['GetTenantAlarmHook'] & Partial<Answers['PutTenantAlarmHook']>;

interface AlarmFlags extends CommandFlags {
  tenant?: string;
}

export function addAlarmCommands(program: Command): void {
  const alarm = program
    .command('alarm')
    .description('webhooks that are told when a limit is used up to 50, 80 and 100%');
  addTenant(alarm.command('set <url>'))
    .description(
      'tell alarms to this webhook, and show the secret that its messages are signed with',
    )
    .action(async (url: string, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const request = { method: 'PUT', path: pathOf(flags), body: { url } } as const;
      showHook(flags, (await callApi(connection, request)).json as Hook);
    });
  addTenant(alarm.command('show'))
    .description('show the webhook, and how it goes with it')
    .action(async (_given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const request = { method: 'GET', path: pathOf(flags) } as const;
      showHook(flags, (await callApi(connection, request)).json as Hook);
    });
  addTenant(alarm.command('test'))
    .description('send the webhook a message that is no alarm, and say whether it was taken')
    .action(async (_given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const request = { method: 'POST', path: [...pathOf(flags), 'test'] } as const;
      const { problem } = (await callApi(connection, request))
        .json as Answers['TestTenantAlarmHook'];
      if (problem !== null) throw new CommandFailure('failed', `it was not taken: ${problem}`);
      if (flags.json) printJson({ problem });
      else print('it was taken');
    });
  addTenant(alarm.command('remove'))
    .description('tell no webhook any more')
    .action(async (_given: object, command: Command) => {
      const { connection, flags } = connect(command);
      await callApi(connection, { method: 'DELETE', path: pathOf(flags) });
    });
}

function addTenant(command: Command): Command {
  return command.option(
    '--tenant <name>',
    "of this tenant's accounts (default: of all, for operators)",
  );
}

function pathOf({ tenant }: AlarmFlags): string[] {
  return tenant === undefined ? ['alarm-hook'] : ['tenants', tenant, 'alarm-hook'];
}

function showHook(flags: CommandFlags, hook: Hook): void {
  if (flags.json) {
    printJson(hook);
    return;
  }
  const rows = [
    ['alarms of', hook.tenant === null ? 'all accounts' : `tenant ${hook.tenant}`],
    ['url', hook.url],
    ...(hook.secret === undefined ? [] : [['secret', hook.secret]]),
    ['since', hook.createdAt],
    ['last taken', hook.toldAt ?? 'none yet'],
    ['waiting', String(hook.waiting)],
    ['problem', hook.problem ?? 'none'],
  ];
  for (const [name = '', value = ''] of rows) print(`${name.padEnd(12)}${printable(value)}`);
}
