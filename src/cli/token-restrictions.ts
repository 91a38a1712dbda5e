// The flags with which a token is narrowed, and how people write scopes and times.
import type { Command } from 'commander';
import type { Conditions } from '../authz/tokens/conditions.ts';
import type { Restrictions } from '../authz/tokens/issue.ts';
import type { PublicKey } from '../authz/tokens/keys.ts';
import { parseScope, type Scope, ScopeError } from '../authz/tokens/scope.ts';
import { nowMs } from '../core/clock.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { parseCount, parseDuration, parseSize } from '../server/settings/quantities.ts';
import { collect, readFlag } from './command-arguments.ts';
import { addLimitFlags, type LimitFlags, readLimitFlags } from './limit-flags.ts';

export interface RestrictionFlags extends LimitFlags {
  scope?: string[];
  to?: string;
  bearer?: boolean;
  maxDepth?: string;
  network?: string[];
  class?: string[];
  maxObjectSize?: string;
}

export function addRestrictionFlags(command: Command): Command {
  command
    .option('--to <file>', "the user's public key (FILE.pub of `bursar key new`)")
    .option('--bearer', 'no key: whoever has the token may use it')
    .option('--max-depth <number>', 'the deepest link that may follow')
    .option('--network <cidr>', 'only from there; repeatable', collect)
    .option('--class <name>', 'write only into this storage class; repeatable', collect)
    .option('--max-object-size <size>', 'write no larger object, such as 1GiB');
  return addLimitFlags(command);
}

/** Throws CommandFailure that names the flag. */
export function readRestrictions(
  flags: RestrictionFlags,
  holder: PublicKey | undefined,
): Restrictions {
  const { maxDepth } = flags;
  return {
    holder,
    depthMax: maxDepth === undefined ? undefined : readFlag('--max-depth', maxDepth, parseCount),
    conditions: readConditionFlags(flags),
    limits: readLimitFlags(flags),
  };
}

function readConditionFlags(flags: RestrictionFlags): Conditions | undefined {
  const { network, class: classes, maxObjectSize } = flags;
  if (!network && !classes && maxObjectSize === undefined) return undefined;
  const objectBytesMax =
    maxObjectSize === undefined
      ? undefined
      : readFlag('--max-object-size', maxObjectSize, parseSize);
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

const lifetimeDaysMax = 366;

/** How long something that is made is to be valid, in seconds. */
export function readLifetime(text: string): number {
  const seconds = Math.round(readFlag('--expires', text, parseDuration) / 1000);
  if (seconds <= lifetimeDaysMax * 86_400) return seconds;
  throw new CommandFailure('usage', `--expires ${text}: at most ${lifetimeDaysMax}d`);
}

/** Beside what was made, which is alone where it goes into a variable or a file. */
export function noteMade(id: string, expiresAt: string): void {
  if (process.stdout.isTTY) process.stderr.write(`bursar: ${id}, valid until ${expiresAt}\n`);
}

/** The time in so long from now, in milliseconds since 1970. */
export function readExpiry(duration: string): number {
  return nowMs() + readFlag('--expires', duration, parseDuration);
}
