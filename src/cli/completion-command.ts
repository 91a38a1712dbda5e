// `bursar completion`: a script by which a shell completes words of the command line. It is made of
// the commands and flags that there are, so that completing starts no program.
import { Argument, type Command, type Option } from 'commander';
import { print } from './output.ts';

const shells = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof shells)[number];

const help = `
Examples:
  source <(bursar completion bash)            in ~/.bashrc
  source <(bursar completion zsh)             in ~/.zshrc, behind compinit
  bursar completion fish > ~/.config/fish/completions/bursar.fish`;

export function addCompletionCommand(program: Command): void {
  program
    .command('completion')
    .addArgument(new Argument('<shell>', 'whose script').choices(shells))
    .description('print a script by which bash, zsh or fish complete commands and flags')
    .addHelpText('after', help)
    .action((shell: Shell) => print(scripts[shell](wordsOf(program))));
}

interface Words {
  /** By the words before, `/tenant/create`, what can follow: commands, words and flags. */
  places: Map<string, readonly string[]>;
  /** By these and a flag, `/principal/create --role`, what it may be. */
  choices: Map<string, readonly string[]>;
  /** Flags behind which a value comes. */
  valued: Set<string>;
}

function wordsOf(program: Command): Words {
  const words: Words = { places: new Map(), choices: new Map(), valued: new Set() };
  const plain = new Set<string>();
  const visit = (command: Command, path: string): void => {
    const below = command.commands.filter((one) => !one.name().endsWith('-supervised'));
    const flags = command.options.flatMap(({ long }) => long ?? []);
    const said = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []);
    words.places.set(path, [...below.map((one) => one.name()), ...said, ...flags, '--help']);
    for (const option of command.options) {
      if (option.long === undefined || option.long === null) continue;
      const takesValue = option.required || option.optional;
      (takesValue ? words.valued : plain).add(option.long);
      const choices = choicesOf(option);
      if (takesValue && choices) words.choices.set(`${path} ${option.long}`, choices);
    }
    for (const one of below) visit(one, `${path}/${one.name()}`);
  };
  visit(program, '');
  for (const flag of plain) words.valued.delete(flag);
  return words;
}

function choicesOf({ argChoices, parseArg }: Option): readonly string[] | undefined {
  return argChoices ?? (parseArg as { words?: readonly string[] } | undefined)?.words;
}

const scripts: Readonly<Record<Shell, (words: Words) => string>> = {
  bash,
  zsh: (words) => `autoload -U +X bashcompinit && bashcompinit\n${bash(words)}`,
  fish,
};

function bash({ places, choices, valued }: Words): string {
  const cases = (of: Words['places']) =>
    [...of].map(([path, all]) => `    '${path}') known='${all.join(' ')}' ;;`).join('\n');
  return `_bursar() {
  local current=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} place= known= word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case " ${[...places.keys()].join(' ')} " in
      *" $place/\${COMP_WORDS[i]} "*) place=$place/\${COMP_WORDS[i]} ;;
    esac
  done
  case "$place $before" in
${cases(choices)}
    *" "${[...valued].join('|*" "')}) ;;
    *) case $place in
${cases(places)}
    esac ;;
  esac
  COMPREPLY=()
  for word in $known; do
    case $word in "$current"*) COMPREPLY+=("$word") ;; esac
  done
}
complete -o default -F _bursar bursar`;
}

function fish({ places, choices, valued }: Words): string {
  const cases = (of: Words['places']) =>
    [...of]
      .map(([path, all]) => `    case '${path}'\n      string split ' ' -- '${all.join(' ')}'`)
      .join('\n');
  return `function __bursar_words
  set -l place ''
  set -l before (commandline -opc)[-1]
  for word in (commandline -opc)[2..-1]
    if contains -- "$place/$word" ${[...places.keys()].filter(Boolean).join(' ')}
      set place "$place/$word"
    end
  end
  switch "$place $before"
${cases(choices)}
  end
  if contains -- $before ${[...valued].join(' ')}
    return
  end
  switch $place
${cases(places)}
  end
end
complete -c bursar -a '(__bursar_words)'`;
}
