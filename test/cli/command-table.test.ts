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
