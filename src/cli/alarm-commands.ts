// `bursar alarm`: where it is told that limits are used up to 50, 80 and 100 percent.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { callApi } from './api-client.ts';
import { calling } from './api-command.ts';
import { connect } from './command-arguments.ts';
import { print, printJson, printPairs } from './output.ts';

type Hook = Answers['GetTenantAlarmHook'] & Partial<Answers['PutTenantAlarmHook']>;

const whose = 'of this tenant (default: of all accounts, for operators)';

export function addAlarmCommands(program: Command): void {
  const alarm = program
    .command('alarm')
    .description('where it is told that a limit is used up to 50, 80 and 100%');
  alarm
    .command('set')
    .argument('<url>', 'a webhook, https://…, or an address, mailto:quotas@example.org')
    .argument('[tenant]', whose)
    .description('tell alarms there; of a webhook, show the secret that messages are signed with')
    .action(
      calling((url: string, tenant: string | undefined) => {
        return { method: 'PUT', path: pathOf(tenant), body: { url } };
      }, showHook),
    );
  alarm
    .command('show')
    .argument('[tenant]', whose)
    .description('show where alarms are told, and how it goes with that')
    .action(
      calling((tenant: string | undefined) => ({ method: 'GET', path: pathOf(tenant) }), showHook),
    );
  alarm
    .command('test')
    .argument('[tenant]', whose)
    .description('send a message that is no alarm, and say whether it was taken')
    .action(async (tenant: string | undefined, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const request = { method: 'POST', path: [...pathOf(tenant), 'test'] } as const;
      const { problem } = (await callApi(connection, request))
        .json as Answers['TestTenantAlarmHook'];
      if (problem !== null) throw new CommandFailure('failed', `it was not taken: ${problem}`);
      if (flags.json) printJson({ problem });
      else print('it was taken');
    });
  alarm
    .command('delete')
    .argument('[tenant]', whose)
    .description('tell alarms nowhere any more')
    .action(calling((tenant: string | undefined) => ({ method: 'DELETE', path: pathOf(tenant) })));
}

function pathOf(tenant: string | undefined): string[] {
  return tenant === undefined ? ['alarm-hook'] : ['tenants', tenant, 'alarm-hook'];
}

function showHook({ tenant, secret, ...hook }: Hook): void {
  printPairs(12, [
    ['alarms of', tenant === null ? 'all accounts' : `tenant ${tenant}`],
    ['url', hook.url],
    ...(secret ? [['secret', secret] as const] : []),
    ['since', hook.createdAt],
    ['last taken', hook.toldAt ?? 'none yet'],
    ['waiting', String(hook.waiting)],
    ['problem', hook.problem ?? 'none'],
  ]);
}
