// The flags that say limits, of accounts and of tokens, and how people write them: an amount for
// each window, as in `--spend month=12.50 --egress day=50GiB,month=1TiB`. Invariant: they say what
// the native API's limits can say, and nothing else; a wrong one is named.
import type { Command } from 'commander';
import { CommandFailure, orFail } from '../core/command-failure.ts';
import {
  isLevel,
  type Limits,
  type Meter,
  moneyForm,
  readLimits,
  windowsOf,
} from '../core/quota-terms.ts';
import { parseCount, parseSize } from '../server/settings/quantities.ts';
import { collect } from './command-arguments.ts';

export interface LimitFlags {
  spend?: string[];
  storedBytes?: string[];
  storedObjects?: string[];
  ingress?: string[];
  egress?: string[];
  requests?: string[];
  rate?: string[];
}

/** Limits to be merged with the present ones: null takes one away. */
export type LimitsPatch = Record<string, Record<string, number | string | null> | null>;

type Parse = (text: string) => number | string;

interface Form {
  flag: string;
  given: keyof LimitFlags;
  name: Meter | 'rate';
  parts: readonly string[];
  /** What an amount without a name is for; null: such an amount is refused. */
  alone: string | null;
  parse: (part: string) => Parse;
  help: string;
}

const flow = (given: keyof LimitFlags, name: Meter, parse: Parse): Omit<Form, 'help'> => ({
  flag: `--${given}`,
  ...{ given, name, parts: windowsOf(name), alone: isLevel(name) ? 'total' : null },
  parse: () => parse,
});

const forms: readonly Form[] = [
  { ...flow('spend', 'spend', parseMoney), help: 'USD, such as month=12.50; repeatable' },
  { ...flow('egress', 'egressBytes', parseSize), help: 'bytes sent, such as day=50GiB' },
  { ...flow('ingress', 'ingressBytes', parseSize), help: 'bytes received, such as hour=10GiB' },
  { ...flow('requests', 'requests', parseCount), help: 'such as hour=1000' },
  {
    ...flow('storedBytes', 'storedBytes', parseSize),
    ...{ flag: '--stored-bytes', help: 'bytes stored at any time, such as 1TiB' },
  },
  {
    ...flow('storedObjects', 'storedObjects', parseCount),
    ...{ flag: '--stored-objects', help: 'objects stored at any time, such as 100000' },
  },
  {
    ...{ flag: '--rate', given: 'rate', name: 'rate', parts: ['requests', 'bytes'], alone: null },
    parse: (part) => (part === 'bytes' ? parseSize : parseCount),
    help: 'most a second, such as requests=50,bytes=10MiB',
  },
];

export function addLimitFlags(command: Command): Command {
  for (const { flag, name, help } of forms) {
    const isAmount = name !== 'rate' && isLevel(name);
    command.option(`${flag} <${isAmount ? 'amount' : 'limit'}>`, help, collect);
  }
  return command;
}

/** The limits that flags say; undefined: none. Throws CommandFailure that names the flag. */
export function readLimitFlags(flags: LimitFlags): Limits | undefined {
  const patch = readLimitsPatch(flags);
  if (Object.keys(patch).length === 0) return undefined;
  const limits = readLimits(patch);
  if (limits) return limits;
  throw new CommandFailure('usage', 'none is no limit here: leave the flag out');
}

/** The same, where `none` takes a limit away. */
export function readLimitsPatch(flags: LimitFlags): LimitsPatch {
  const patch: LimitsPatch = {};
  for (const form of forms) {
    const texts = flags[form.given]?.flatMap((text) => text.split(',')) ?? [];
    if (texts.length > 0) patch[form.name] = texts.includes('none') ? null : readParts(form, texts);
  }
  return patch;
}

function readParts(form: Form, texts: readonly string[]): Record<string, number | string | null> {
  const amounts: Record<string, number | string | null> = {};
  for (const text of texts) {
    const equals = text.indexOf('=');
    const part = equals < 0 ? form.alone : text.slice(0, equals);
    const amount = text.slice(equals + 1);
    if (part === null || !form.parts.includes(part)) throw wrong(form, text);
    if (part in amounts) throw new CommandFailure('usage', `${form.flag} says ${part} twice`);
    amounts[part] =
      amount === 'none'
        ? null
        : orFail('usage', `${form.flag} ${text} `, () => form.parse(part)(amount));
  }
  return amounts;
}

function wrong({ flag, name, parts }: Form, text: string): CommandFailure {
  if (name !== 'rate' && parts.length > 1 && !text.includes('=')) {
    const choices = parts.map((part) => `${part}=${text}`).join(', ');
    return new CommandFailure('usage', `${flag} ${text} says no window: ${choices}`);
  }
  const form = parts.length > 1 ? `NAME=AMOUNT, with a name of ${parts.join(', ')}` : 'an amount';
  return new CommandFailure('usage', `${flag} ${text} must be ${form}`);
}

function parseMoney(text: string): string {
  if (moneyForm.test(text)) return text;
  throw new Error('must be USD such as 12.50, with at most 12 decimals');
}
