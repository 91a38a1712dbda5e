// That a command is loaded alone changes nothing of it.
import { Command } from 'commander';
import { expect, it } from 'vitest';
import { addCommands } from '#bursar/cli/command-table.js';

async function makeProgram(word: string | undefined): Promise<Command> {
  const program = new Command('bursar');
  await addCommands(program, word);
  return program;
}

const helpOf = (program: Command, name: string): string[] => {
  const found = program.commands.find((command) => command.name() === name);
  if (!found) throw new Error(`no command ${name}`);
  return [found, ...found.commands].map((command) => command.helpInformation());
};

it('a command that is asked for is the same as among all, and alone', async () => {
  const all = await makeProgram(undefined);
  expect(all.commands.length).toBeGreaterThan(20);
  for (const name of all.commands.map((command) => command.name())) {
    const alone = await makeProgram(name);
    expect(helpOf(alone, name)).toEqual(helpOf(all, name));
    expect(alone.commands.length).toBeLessThan(3);
  }
});

it('a word that is no command has all of them to be compared with', async () => {
  const all = await makeProgram(undefined);
  expect((await makeProgram('tenat')).commands).toHaveLength(all.commands.length);
});

/** These go on until they are stopped, or what they print is for another program. */
const withoutJson = ['serve', 'probe-supervised', 'ship-supervised', 'completion', 'credentials'];

it('every command answers with JSON, and every list with CSV, too', async () => {
  const ends = endsOf(await makeProgram(undefined), []);
  expect(ends.length).toBeGreaterThan(120);
  const lacking = (flag: string, words: RegExp) =>
    ends.filter(({ name, flags }) => words.test(name) && !flags.includes(flag));
  expect(lacking('--json', /./).map(({ name }) => name)).toEqual(withoutJson);
  expect(lacking('--csv', / list$/)).toEqual([]);
});

interface End {
  name: string;
  flags: (string | null | undefined)[];
}

/** The commands that do something, by all of their words. */
function endsOf(command: Command, words: readonly string[]): End[] {
  const parts = command.commands.filter((one) => one.name() !== 'help');
  if (parts.length > 0) return parts.flatMap((one) => endsOf(one, [...words, one.name()]));
  return [{ name: words.join(' '), flags: command.options.map(({ long }) => long) }];
}
