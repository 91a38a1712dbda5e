// `bursar target`: where the buckets of a tenant can have changes told, and how it goes there.
import { type Command, InvalidArgumentError } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { callApi } from './api-client.ts';
import { type Columns, calling, listing, pathIn } from './api-command.ts';
import { connect } from './command-arguments.ts';
import { print, printJson, printPairs } from './output.ts';

type Target = Answers['GetTarget'] & Partial<Pick<Answers['PutTarget'], 'secret'>>;

const targets: Columns<Target> = {
  heading: ['TARGET', 'ARN', 'BEHIND', 'LAG', 'DEAD', 'STATE'],
  row: ({ tenant, name, arn, behind, lagSeconds, deadLetters, stuck, problem }) => [
    ...[`${tenant}/${name}`, arn, String(behind), `${lagSeconds} s`, String(deadLetters)],
    stuck ? 'stuck' : problem === null ? 'ok' : 'failing',
  ],
};

type DeadLetter = Answers['ListDeadLetters']['deadLetters'][number];

const deadLetters: Columns<DeadLetter> = {
  heading: ['RECORD', 'GIVEN UP', 'REASON'],
  row: ({ index, at, reason }) => [String(index), at, reason],
};

interface CreateFlags {
  region?: string;
}

const named = (id: string) => pathIn('targets', id);

export function addTargetCommands(program: Command): void {
  const target = program
    .command('target')
    .description('webhooks and queues that buckets can have changes told to');
  target
    .command('create <name> <url>')
    .description(
      'register a webhook or, for operators, a queue of Amazon SQS by its URL, as TENANT/NAME; ' +
        'a webhook gets a new secret, which is shown once',
    )
    .option('--region <region>', 'of a queue, where its URL does not say it')
    .action(
      calling((id: string, url: string, { region }: CreateFlags) => {
        const kind = region !== undefined || isQueueUrl(url) ? 'sqs' : 'webhook';
        const body = { kind, url, ...(region !== undefined && { region }) };
        return { method: 'PUT', path: named(id), body };
      }, showTarget),
    );
  target
    .command('list <tenant>')
    .description("list a tenant's targets, and how it goes with them")
    .action(listing(targets, 'targets', (tenant: string) => ['tenants', tenant, 'targets']));
  target
    .command('show <name>')
    .description('show a target: what notifications name it by, and how it goes with it')
    .action(calling((id: string) => ({ method: 'GET', path: named(id) }), showTarget));
  target
    .command('test <name>')
    .description('send it a message that tells of no change, and say whether it was taken')
    .action(async (id: string, _: object, command: Command) => {
      const { connection, flags } = connect(command);
      const call = { method: 'POST', path: [...named(id), 'test'] } as const;
      const { problem } = (await callApi(connection, call)).json as Answers['TestTarget'];
      if (problem !== null) throw new CommandFailure('failed', `it was not taken: ${problem}`);
      if (flags.json) printJson({ problem });
      else print('it was taken');
    });
  target
    .command('dead-letters <name>')
    .description('list the changes that it refused for good')
    .action(listing(deadLetters, 'deadLetters', (id: string) => [...named(id), 'dead-letters']));
  target
    .command('resend <name>')
    .description('tell it again, in order, of all that concerns it behind a record of the log')
    .requiredOption('--after <index>', 'a log index, such as before a dead letter', parseIndex)
    .action(
      calling(
        (id: string, { after }: { after: number }) => ({
          ...{ method: 'POST', path: [...named(id), 'resend'], body: { after } },
        }),
        showTarget,
      ),
    );
  target
    .command('delete <name>')
    .description('tell it of nothing any more')
    .action(calling((id: string) => ({ method: 'DELETE', path: named(id) })));
}

function isQueueUrl(url: string): boolean {
  return URL.canParse(url) && /^sqs\./.test(new URL(url).hostname);
}

function parseIndex(value: string): number {
  if (/^(?:-1|\d{1,15})$/.test(value)) return Number(value);
  throw new InvalidArgumentError('Must be a log index, or -1.');
}

function showTarget({ tenant, name, secret, ...target }: Target): void {
  printPairs(13, [
    ['target', `${tenant}/${name}`],
    ['arn', target.arn],
    ['url', target.url],
    ...(secret ? [['secret', secret] as const] : []),
    ['since', target.createdAt],
    ['told up to', `record ${target.cursor}, ${target.behind} and ${target.lagSeconds} s behind`],
    ['last taken', target.toldAt ?? 'none yet'],
    ['dead letters', String(target.deadLetters)],
    ['problem', `${target.problem ?? 'none'}${target.stuck ? ' (stuck)' : ''}`],
  ]);
}
