// `bursar log rotate-key` and `bursar log revoke-key`: the keys that sign the audit log.
import type { Command } from 'commander';
import { parseDuration } from '../server/settings/quantities.ts';
import { callApi } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { connect } from './command-arguments.ts';
import { printTable } from './output.ts';

type Rotation = Answers['RotateLogKey'];

/** `log`: the command that these are added to. */
export function addLogKeyCommands(log: Command): void {
  log
    .command('rotate-key')
    .description('sign the log with a new key; old receipts stay valid')
    .option('--overlap <DURATION>', 'how long the keys of before sign too', '7d')
    .action(async (given: { overlap: string }, command: Command) => {
      const { connection, flags } = connect(command);
      const overlapSeconds = Math.ceil(parseDuration(given.overlap) / 1000);
      const request = { path: ['log', 'keys', 'rotations'], body: { overlapSeconds } };
      const { json } = await callApi(connection, { method: 'POST', ...request });
      const { id, verifier, retiresAt } = json as Rotation;
      printTable(flags.json, {
        json,
        heading: ['ID', 'VERIFIER', 'OTHERS SIGN UNTIL'],
        rows: [[id, verifier, retiresAt]],
      });
    });
  log
    .command('revoke-key')
    .description('revoke a key of the log: nothing that it signed is to be believed any more')
    .argument('<ID>', 'of the key, as "bursar log key" shows it')
    .action(async (id: string, _given: object, command: Command) => {
      const { connection } = connect(command);
      await callApi(connection, { method: 'DELETE', path: ['log', 'keys', id] });
    });
}
