// What commands share: flags, and the forms of their arguments.
import { type Command, InvalidArgumentError } from 'commander';
import { CommandFailure, orFail } from '../core/command-failure.ts';
import type { Connection } from './api-client.ts';
import { type ConnectionFlags, findConnection } from './find-connection.ts';

export interface CommandFlags extends ConnectionFlags {
  json?: boolean;
  csv?: boolean;
}

/** The flags of a command and of the program around it, and the gateway that they lead to. */
export function connect(command: Command): { connection: Connection; flags: CommandFlags } {
  const flags = command.optsWithGlobals<CommandFlags>();
  return { connection: findConnection(flags), flags };
}

/** What the text of a flag means. */
export function readFlag<T>(flag: string, text: string, parse: (text: string) => T): T {
  return orFail('usage', `${flag} ${text} `, () => parse(text));
}

/** The two names of `cms/alice`. */
export function splitId(id: string): [tenant: string, name: string] {
  const [tenant, name, ...rest] = id.split('/');
  if (!tenant || !name || rest.length > 0) {
    throw new CommandFailure('usage', `${id} must be TENANT/NAME, such as cms/alice`);
  }
  return [tenant, name];
}

/** For options that may be given more than once. */
export function collect(value: string, before: string[] = []): string[] {
  return [...before, value];
}

/** A parser of flags that takes one of some words, which shells complete. */
export function choice(words: readonly string[]) {
  const parse = (value: string): string => {
    if (words.includes(value)) return value;
    throw new InvalidArgumentError(`Must be one of ${words.join(', ')}.`);
  };
  return Object.assign(parse, { words });
}

export const parseBoolean = Object.assign(
  (value: string): boolean => {
    if (value === 'yes' || value === 'true') return true;
    if (value === 'no' || value === 'false') return false;
    throw new InvalidArgumentError('Must be yes or no.');
  },
  { words: ['yes', 'no'] },
);

export function parsePositive(value: string): number {
  const count = Number(value);
  if (/^\d+$/.test(value) && count >= 1 && Number.isSafeInteger(count)) return count;
  throw new InvalidArgumentError('Must be a whole number from 1 on.');
}

export function addPlaceFlags(command: Command): Command {
  return command
    .option('--s3-endpoint <url>', 'S3 server of s3:// (default: of AWS)')
    .option('--s3-region <region>', 'its region')
    .option('--s3-path-style', 'its bucket goes into the path, not into the host name')
    .option('--s3-profile <name>', 'profile of the AWS configuration files with its credentials');
}

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

const units: Readonly<Record<string, number>> = {
  ...{ s: 1000, m: 60_000 },
  ...{ h: 3_600_000, d: 86_400_000 },
};

export const durationForm = /^(\d{1,6})([smhd])$/;

/** Milliseconds. Throws `CommandFailure`. */
export function duration(written: string): number {
  const [, count, unit] = durationForm.exec(written) ?? [];
  if (count && unit) return Number(count) * (units[unit] ?? 0);
  throw new CommandFailure('usage', `${written} must be a time such as 30m, 12h or 90d`);
}

/** As it is written: the shortest way. */
export function durationText(ms: number): string {
  const unit = (['d', 'h', 'm'] as const).find((one) => ms % (units[one] ?? 0) === 0) ?? 's';
  return `${Math.round(ms / (units[unit] ?? 1))}${unit}`;
}
