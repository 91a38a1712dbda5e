// `bursar completion`: a script by which a shell completes words of the command line. It is made of
// the commands and flags that there are, so that completing starts no program.
import { Argument, type Command } from 'commander';
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

/** By the words before, `/tenant/create`, what can follow: commands, and flags. */
type Words = ReadonlyMap<string, readonly string[]>;

function wordsOf(program: Command): Words {
  const words = new Map<string, string[]>();
  const visit = (command: Command, path: string): void => {
    const below = command.commands.filter((one) => !one.name().endsWith('-supervised'));
    const flags = command.options.flatMap(({ long }) => long ?? []);
    words.set(path, [...below.map((one) => one.name()), ...flags, '--help']);
    for (const one of below) visit(one, `${path}/${one.name()}`);
  };
  visit(program, '');
  return words;
}

const scripts: Readonly<Record<Shell, (words: Words) => string>> = {
  bash,
  zsh: (words) => `autoload -U +X bashcompinit && bashcompinit\n${bash(words)}`,
  fish,
};

function bash(words: Words): string {
  const cases = [...words].map(([path, all]) => `    '${path}') known='${all.join(' ')}' ;;`);
  return `_bursar() {
  local current=\${COMP_WORDS[COMP_CWORD]} place= known= word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case " ${[...words.keys()].join(' ')} " in
      *" $place/\${COMP_WORDS[i]} "*) place=$place/\${COMP_WORDS[i]} ;;
    esac
  done
  case $place in
${cases.join('\n')}
  esac
  COMPREPLY=()
  for word in $known; do
    case $word in "$current"*) COMPREPLY+=("$word") ;; esac
  done
}
complete -o default -F _bursar bursar`;
}

function fish(words: Words): string {
  const cases = [...words].map(([path, all]) => {
    return `    case '${path}'\n      string split ' ' -- '${all.join(' ')}'`;
  });
  return `function __bursar_words
  set -l place ''
  for word in (commandline -opc)[2..-1]
    if contains -- "$place/$word" ${[...words.keys()].filter(Boolean).join(' ')}
      set place "$place/$word"
    end
  end
  switch $place
${cases.join('\n')}
  end
end
complete -c bursar -a '(__bursar_words)'`;
}
