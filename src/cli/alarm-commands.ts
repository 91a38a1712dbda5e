// `bursar alarm`: where it is told that limits are used up to 50, 80 and 100 percent.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { callApi } from './api-client.ts';
import { calling } from './api-command.ts';
import { connect } from './command-arguments.ts';
import { print, printJson, printPairs } from './output.ts';

type Hook = Answers['GetTenantAlarmHook'] & Partial<Answers['PutTenantAlarmHook']>;

interface AlarmFlags {
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
    .action(
      calling((url: string, given: AlarmFlags) => {
        return { method: 'PUT', path: pathOf(given), body: { url } };
      }, showHook),
    );
  addTenant(alarm.command('show'))
    .description('show the webhook, and how it goes with it')
    .action(calling((given: AlarmFlags) => ({ method: 'GET', path: pathOf(given) }), showHook));
  addTenant(alarm.command('test'))
    .description('send the webhook a message that is no alarm, and say whether it was taken')
    .action(async (given: AlarmFlags, command: Command) => {
      const { connection, flags } = connect(command);
      const request = { method: 'POST', path: [...pathOf(given), 'test'] } as const;
      const { problem } = (await callApi(connection, request))
        .json as Answers['TestTenantAlarmHook'];
      if (problem !== null) throw new CommandFailure('failed', `it was not taken: ${problem}`);
      if (flags.json) printJson({ problem });
      else print('it was taken');
    });
  addTenant(alarm.command('delete'))
    .description('tell no webhook any more')
    .action(calling((given: AlarmFlags) => ({ method: 'DELETE', path: pathOf(given) })));
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

function showHook({ tenant, secret, ...hook }: Hook): void {
  printPairs(12, [
    ['alarms of', tenant === null ? 'all accounts' : `tenant ${tenant}`],
    ['url', hook.url],
    ...(secret === undefined ? [] : [['secret', secret] as const]),
    ['since', hook.createdAt],
    ['last taken', hook.toldAt ?? 'none yet'],
    ['waiting', String(hook.waiting)],
    ['problem', hook.problem ?? 'none'],
  ]);
}
