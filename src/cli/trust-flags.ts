// The flags of the verifying commands that say whose signatures count.
import { type Command, InvalidArgumentError } from 'commander';
import { collect } from './command-arguments.ts';

export function addTrustFlags(command: Command): Command {
  return command
    .option(
      '--key <key>',
      "the log's verifier line, or a file with such lines; repeatable",
      collect,
    )
    .option('--keys <file>', 'all keys of the log, as GET /_/v1/log/keys answers')
    .option('--witness <key>', "a witness's verifier line, or a file with such lines", collect)
    .option(
      '--witnesses-min <number>',
      'how many of the witnesses must have signed (default: all)',
      parseCount,
    );
}

function parseCount(text: string): number {
  if (/^[0-9]{1,3}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Must be a number.');
}
