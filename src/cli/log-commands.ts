// `bursar log`: the audit log that everything is recorded in.

import type { Command } from 'commander';
import { printable } from '../core/printable.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { parseDuration } from '../server/settings/quantities.ts';
import { callApi } from './api-client.ts';
import { type Columns, calling, printEntries } from './api-command.ts';
import { connect } from './command-arguments.ts';
import { print } from './output.ts';

type LogState = Answers['GetLog'];
type LogKey = Answers['ListLogKeys']['keys'][number];
type Witness = LogState['witnesses'][number];

export function addLogCommands(program: Command): void {
  const log = program.command('log').description('the audit log: its state, keys and copies');
  log
    .command('show')
    .description('show how far the log is signed, by which keys, and what its witnesses have seen')
    .action(
      calling(
        () => ({ method: 'GET', path: ['log'] }),
        (state: LogState) => {
          for (const line of describe(state)) print(printable(line));
        },
      ),
    );
  log
    .command('key')
    .description('print the verifier keys of the log, the newest first, for "bursar verify"')
    .option('--all', 'list all keys that there ever were, with their state')
    .action(async ({ all }: { all?: boolean }, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: ['log', 'keys'] });
      const { keys } = json as Answers['ListLogKeys'];
      if (all || flags.json) printEntries(flags.json, logKeys, json, keys);
      else for (const key of keys) if (key.state !== 'revoked') print(key.verifier);
    });
  addLogKeyCommands(log);
}

function describe({ origin, refusal, size, root, keys, witnesses }: LogState): string[] {
  const head =
    origin === null
      ? [`not signed: ${refusal ?? 'nothing was signed since the start'}`]
      : [`origin   ${origin}`, `records  ${size}`, `root     ${root}`];
  return [
    ...head,
    ...keys.map(({ id, state, createdAt }) => `key      ${id}  ${state}  since ${createdAt}`),
    ...witnesses.map((witness) => `witness  ${describeWitness(witness)}`),
  ];
}

function describeWitness({ name, cosignedSize, cosignedAt, problem }: Witness): string {
  const seen =
    cosignedSize === null ? 'has cosigned nothing' : `cosigned ${cosignedSize} at ${cosignedAt}`;
  return problem === null ? `${name}  ${seen}` : `${name}  ${seen}; ${problem}`;
}

const logKeys: Columns<LogKey> = {
  heading: ['ID', 'STATE', 'CREATED', 'ENDED', 'VERIFIER'],
  row: ({ id, state, createdAt, retiredAt, revokedAt, verifier }) => [
    ...[id, state, createdAt, revokedAt ?? retiredAt ?? '', verifier],
  ],
};

const rotations: Columns<Answers['RotateLogKey']> = {
  heading: ['ID', 'VERIFIER', 'OTHERS SIGN UNTIL'],
  row: ({ id, verifier, retiresAt }) => [id, verifier, retiresAt],
};

/** `log`: the command that these are added to. */
function addLogKeyCommands(log: Command): void {
  log
    .command('rotate-key')
    .description('sign the log with a new key; old receipts stay valid')
    .option('--overlap <DURATION>', 'how long the keys of before sign too', '7d')
    .action(
      calling((given: { overlap: string }) => {
        const overlapSeconds = Math.ceil(parseDuration(given.overlap) / 1000);
        return { method: 'POST', path: ['log', 'keys', 'rotations'], body: { overlapSeconds } };
      }, rotations),
    );
  log
    .command('revoke-key')
    .description('revoke a key of the log: nothing that it signed is to be believed any more')
    .argument('<ID>', 'of the key, as "bursar log key" shows it')
    .action(calling((id: string) => ({ method: 'DELETE', path: ['log', 'keys', id] })));
}
