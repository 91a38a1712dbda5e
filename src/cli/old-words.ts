// What commands were called before all resources had the same five verbs: create, list, show, set
// and delete. An old word does what the new one does, with a note on standard error, until 1.0.

interface Old {
  /** The resource, and its old verb. */
  readonly old: string;
  readonly verb: string;
}

export const oldVerbs: readonly Old[] = [
  { old: 'tenant update', verb: 'set' },
  { old: 'principal update', verb: 'set' },
  { old: 'bucket update', verb: 'set' },
  { old: 'grant put', verb: 'set' },
  { old: 'mount add', verb: 'create' },
  { old: 'mount remove', verb: 'delete' },
  { old: 'issuer add', verb: 'set' },
  { old: 'issuer remove', verb: 'delete' },
  { old: 'limit remove', verb: 'delete' },
  { old: 'alarm remove', verb: 'delete' },
  { old: 'token revoke', verb: 'delete' },
  { old: 'share revoke', verb: 'delete' },
  { old: 'receipt get', verb: 'show' },
  { old: 'log status', verb: 'show' },
  { old: 'standby status', verb: 'show' },
];

/**
 * Flags that named what a command is about, which is an argument now. `before`: whether it comes
 * before the other arguments.
 */
export const oldFlags = [
  { command: 'alarm set', flag: '--tenant', before: false },
  { command: 'alarm show', flag: '--tenant', before: false },
  { command: 'alarm test', flag: '--tenant', before: false },
  { command: 'alarm delete', flag: '--tenant', before: false },
  { command: 'audit export', flag: '--tenant', before: true },
  { command: 'audit erase', flag: '--tenant', before: true },
  { command: 'audit report', flag: '--tenant', before: true },
  { command: 'key proof', flag: '--principal', before: true },
  { command: 'token issue', flag: '--principal', before: true },
  { command: 'verify data', flag: '--tenant', before: true },
  { command: 'cost', flag: '--account', before: true },
  { command: 'snapshot create', flag: '--name', before: false },
  { command: 'snapshot restore', flag: '--from', before: false },
  { command: 'explain', flag: '--action', before: true },
  { command: 'explain', flag: '--resource', before: false },
] as const;

/** Arguments as they are said today, and what the user should be told of them. */
export interface Reworded {
  readonly words: readonly string[];
  readonly notes: readonly string[];
}

/** `words`: what follows `bursar` on the command line. */
export function reword(words: readonly string[]): Reworded {
  const [resource = '', verb = '', ...rest] = words;
  const renamed = oldVerbs.find(({ old }) => old === `${resource} ${verb}`);
  if (!renamed) return rewordFlags(words, []);
  const note = `"bursar ${renamed.old}" is called "bursar ${resource} ${renamed.verb}" now`;
  return rewordFlags([resource, renamed.verb, ...rest], [note]);
}

function rewordFlags(words: readonly string[], notes: readonly string[]): Reworded {
  for (const { command, flag, before } of oldFlags) {
    const path = command.split(' ');
    if (!path.every((word, i) => words[i] === word)) continue;
    const taken = takeFlag(words.slice(path.length), flag);
    if (!taken) continue;
    const { value, others } = taken;
    const given = before ? [value, ...others] : placedLast(value, others);
    const note = `"${flag}" is an argument now: bursar ${[...path, ...given].join(' ')}`;
    return rewordFlags([...path, ...given], [...notes, note]);
  }
  return { words, notes };
}

/** Behind the first argument, before the flags that may follow. */
function placedLast(value: string, others: readonly string[]): string[] {
  const [first, ...rest] = others;
  return first === undefined || first.startsWith('-')
    ? [...others, value]
    : [first, value, ...rest];
}

function takeFlag(
  words: readonly string[],
  flag: string,
): { value: string; others: readonly string[] } | null {
  const end = words.indexOf('--');
  const flags = end < 0 ? words : words.slice(0, end);
  const at = flags.findIndex((word) => word === flag || word.startsWith(`${flag}=`));
  if (at < 0) return null;
  const isJoined = words[at] !== flag;
  const value = isJoined ? (words[at] as string).slice(flag.length + 1) : words[at + 1];
  if (value === undefined) return null;
  return { value, others: [...words.slice(0, at), ...words.slice(at + (isJoined ? 1 : 2))] };
}
