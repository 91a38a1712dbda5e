// `bursar alarm`: where it is told that limits are used up to 50, 80 and 100 percent.
import type { Command } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type ApiRequest, type Connection, callApi } from './api-client.ts';
import { askWho, calling, pathIn } from './api-command.ts';
import { connect } from './command-arguments.ts';
import { print, printJson, printPairs } from './output.ts';

type Hook = Answers['GetTenantAlarmHook'] & Partial<Answers['PutTenantAlarmHook']>;

const whose =
  'of this tenant, or principal (cms/alice); default: your own, and for operators of all accounts';

/** What an answer says where it does not say why. */
const untold = 'it was not taken';

export function addAlarmCommands(program: Command): void {
  const alarm = program
    .command('alarm')
    .description('where it is told that a limit is used up to 50, 80 and 100%');
  alarm
    .command('set')
    .argument('<url>', 'a webhook, https://…, or an address, mailto:quotas@example.org')
    .argument('[whose]', whose)
    .description('tell alarms there; show a webhook’s secret, by which messages are signed')
    .action(calling((url: string, of: string | undefined) => at(of, 'PUT', { url }), showHook));
  alarm
    .command('show')
    .argument('[whose]', whose)
    .description('show where alarms are told, and how it goes with that')
    .action(calling((of: string | undefined) => at(of, 'GET'), showHook));
  alarm
    .command('test')
    .argument('[whose]', whose)
    .description('send a message that is no alarm, and say whether it was taken')
    .action(async (of: string | undefined, _given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const path = [...(await pathOf(connection, of)), 'test'];
      const request = { method: 'POST', path } as const;
      const { problem } = (await callApi(connection, request))
        .json as Answers['TestTenantAlarmHook'];
      if (problem !== null) {
        const why =
          problem === untold ? 'why is in the log of the gateway, for its operators' : problem;
        throw new CommandFailure('failed', `it was not taken: ${why}`);
      }
      if (flags.json) printJson({ problem });
      else print('it was taken');
    });
  alarm
    .command('delete')
    .argument('[whose]', whose)
    .description('tell alarms nowhere any more')
    .action(calling((of: string | undefined) => at(of, 'DELETE')));
}

function at(of: string | undefined, method: ApiRequest['method'], body?: object) {
  return async (connection: Connection): Promise<ApiRequest> => {
    return { method, path: await pathOf(connection, of), ...(body && { body }) };
  };
}

/** `of`: TENANT or TENANT/NAME; undefined: who asks, or, where that is an operator, everybody. */
async function pathOf(connection: Connection, of: string | undefined): Promise<string[]> {
  if (of === undefined) {
    const { tenant, principal, role } = await askWho(connection);
    if (role === 'operator') return ['alarm-hook'];
    return ['tenants', tenant, 'principals', principal, 'alarm-hook'];
  }
  if (!of.includes('/')) return ['tenants', of, 'alarm-hook'];
  return [...pathIn('principals', of), 'alarm-hook'];
}

function showHook({ tenant, principal, secret, ...hook }: Hook): void {
  const whole = tenant === null ? 'all accounts' : `tenant ${tenant}`;
  printPairs(12, [
    ['alarms of', principal === null ? whole : `principal ${tenant}/${principal}`],
    ['url', hook.url],
    ...(secret ? [['secret', secret] as const] : []),
    ['since', hook.createdAt],
    ['last taken', hook.toldAt ?? 'none yet'],
    ['waiting', String(hook.waiting)],
    ['problem', hook.problem ?? 'none'],
  ]);
}
