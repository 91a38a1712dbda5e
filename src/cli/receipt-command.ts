// `bursar receipt get`: the proof that an operation is in the audit log, for whoever wants to keep
// it.
import { type Command, InvalidArgumentError } from 'commander';
import { callApi } from './api-client.ts';
import { connect } from './command-arguments.ts';
import { writeOutput } from './output-file.ts';

export function addReceiptCommands(program: Command): void {
  const receipt = program.command('receipt').description('proofs of what was done');
  receipt
    .command('get')
    .description('get the receipt of an operation; "bursar verify receipt" needs no gateway')
    .argument(
      '<index>',
      'the x-bursar-receipt of its answer, or the index of its record',
      parseIndex,
    )
    .option('--out <file>', 'write it to this file (default: to stdout)')
    .action(async (index: string, { out }: { out?: string }, command: Command) => {
      const { connection } = connect(command);
      const { text } = await callApi(connection, { method: 'GET', path: ['receipts', index] });
      if (out === undefined) process.stdout.write(text);
      else writeOutput(out, text, { mode: 0o600, ifExists: 'replace' });
    });
}

function parseIndex(value: string): string {
  if (/^(?:0|[1-9][0-9]{0,15})$/.test(value)) return value;
  throw new InvalidArgumentError('Must be a whole number from 0 on.');
}
