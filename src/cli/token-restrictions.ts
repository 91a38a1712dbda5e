// The flags with which a token is narrowed, and how people write scopes, limits and times.
import type { Command } from 'commander';
import type { Conditions } from '../authz/tokens/conditions.ts';
import type { Restrictions } from '../authz/tokens/issue.ts';
import type { PublicKey } from '../authz/tokens/keys.ts';
import { parseScope, type Scope, ScopeError } from '../authz/tokens/scope.ts';
import { nowMs } from '../core/clock.ts';
import { type Limits, meters, readLimits, windows } from '../core/quota-terms.ts';
import { CommandFailure, messageOfFailure } from './failure.ts';
import { parseCount, parseDuration, parseSize } from './quantities.ts';

export interface RestrictionFlags {
  scope?: string[];
  to?: string;
  bearer?: boolean;
  maxDepth?: string;
  network?: string[];
  class?: string[];
  maxObjectSize?: string;
  limit?: string[];
}

/** For options that may be given more than once. */
export function collect(value: string, before: string[] = []): string[] {
  return [...before, value];
}

export function addRestrictionFlags(command: Command): Command {
  return command
    .option('--to <file>', "the user's public key (FILE.pub of `bursar key new`)")
    .option('--bearer', 'no key: whoever has the token may use it')
    .option('--max-depth <number>', 'the deepest link that may follow')
    .option('--network <cidr>', 'only from there; repeatable', collect)
    .option('--class <name>', 'write only into this storage class; repeatable', collect)
    .option('--max-object-size <size>', 'write no larger object, such as 1GiB')
    .option('--limit <limit>', 'egressBytes=10GiB/day, spend=25/month, requests=1000; …', collect);
}

/** Throws CommandFailure that names the flag. */
export function readRestrictions(
  flags: RestrictionFlags,
  holder: PublicKey | undefined,
): Restrictions {
  const { maxDepth, limit } = flags;
  return {
    holder,
    depthMax: maxDepth === undefined ? undefined : named('--max-depth', maxDepth, parseCount),
    conditions: readConditionFlags(flags),
    limits: limit && readLimitFlags(limit),
  };
}

function readConditionFlags(flags: RestrictionFlags): Conditions | undefined {
  const { network, class: classes, maxObjectSize } = flags;
  if (!network && !classes && maxObjectSize === undefined) return undefined;
  const objectBytesMax =
    maxObjectSize === undefined ? undefined : named('--max-object-size', maxObjectSize, parseSize);
  return { networks: network, classes, objectBytesMax };
}

export function readScope(entries: readonly string[] = []): Scope {
  try {
    return parseScope(entries.join(' '));
  } catch (error) {
    if (error instanceof ScopeError) throw new CommandFailure('usage', `--scope ${error.message}`);
    throw error;
  }
}

/** Milliseconds since 1970 of so long from now. */
export function readExpiry(duration: string): number {
  return nowMs() + named('--expires', duration, parseDuration);
}

const limitForm = /^(?:rate\.(requests|bytes)|([A-Za-z]+))=([^/]+)(?:\/([a-z]+))?$/;

function readLimitFlags(texts: readonly string[]): Limits {
  const limits: Record<string, Record<string, number | string>> = {};
  for (const text of texts) {
    const [, rate, meter = 'rate', amount = '', window] = limitForm.exec(text) ?? [];
    const isKnown = rate === undefined || window === undefined;
    if (amount === '' || !isKnown) throw wrongLimit(text);
    limits[meter] ??= {};
    limits[meter][rate ?? window ?? 'total'] = readAmount(rate ?? meter, amount);
  }
  if (readLimits(limits) === undefined) throw wrongLimit(texts.join(' '));
  return limits as Limits;
}

function readAmount(what: string, amount: string): number | string {
  if (what === 'spend') return amount;
  return named('--limit', amount, what.toLowerCase().endsWith('bytes') ? parseSize : parseCount);
}

function wrongLimit(text: string): CommandFailure {
  const form = `NAME=AMOUNT[/WINDOW], with a name of ${meters.join(', ')}`;
  const rest = `and a window of ${windows.join(', ')}; or rate.requests=N, rate.bytes=SIZE`;
  return new CommandFailure('usage', `--limit ${text} must be ${form} ${rest}`);
}

function named<T>(flag: string, text: string, parse: (text: string) => T): T {
  try {
    return parse(text);
  } catch (error) {
    throw new CommandFailure('usage', `${flag} ${text} ${messageOfFailure(error)}`, error);
  }
}
