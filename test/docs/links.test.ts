// What the project's pages refer to is there: files, headings, commands and their flags.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Command } from 'commander';
import { beforeAll, describe, expect, it } from 'vitest';
import { addCommands } from '#bursar/cli/command-table.js';
import { treeFiles } from '../tooling/source-text.ts';
import { anchorOf, blocksOf, type Page, proseOf, readPage, readPages, root } from './markdown.ts';

const pages = readPages();

describe('links', () => {
  const links = pages.flatMap((page) =>
    [...proseOf(page.text).matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, target]) => String(target))
      .filter((target) => !/^[a-z]+:/.test(target))
      .map((target) => ({ page, target, title: `${page.path} to ${target}` })),
  );

  it.each(links)('leads somewhere: $title', ({ page, target }) => {
    const [path = '', anchor] = target.split('#', 2);
    const file = path === '' ? page.path : join(dirname(page.path), path);
    expect(existsSync(join(root, file))).toBe(true);
    if (anchor !== undefined) expect(anchorsOf(readPage(file))).toContain(anchor);
  });

  it('are on more pages than the README', () => {
    expect(new Set(links.map(({ page }) => page.path)).size).toBeGreaterThan(5);
  });
});

function anchorsOf(page: Page): string[] {
  return [...page.text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchorOf(String(heading)));
}

interface Documented {
  page: string;
  line: string;
  words: string[];
}

const start = /(?:npx bursar|node (?:app|dist\/cli)\/main\.js|npm start --)((?: +[^ |;&()>]+)*)/g;

/** The `bursar` commands of all shell blocks, one for each time one is called. */
const commands: Documented[] = pages.flatMap(({ path, text }) =>
  blocksOf(text)
    .filter(({ language }) => language === 'sh' || language === 'bash')
    .flatMap(({ code }) => code.split('\n'))
    .flatMap((line) => [...line.matchAll(start)])
    .map(([line, given = '']) => ({
      page: path,
      line,
      words: [
        ...(line.startsWith('npm start') ? ['serve'] : []),
        ...given.split(' ').filter((word) => word !== ''),
      ],
    })),
);

describe('documented commands', () => {
  it('were found', () => {
    expect(commands.length).toBeGreaterThan(30);
  });

  it.each(commands)('$page: $line', ({ words }) => {
    const known = helpOf([]);
    const [first = '', given = ''] = words;
    expect(known.commands).toContain(first);
    const group = helpOf([first]);
    // `share` and `changes` go without the word for the one that takes a URL alone.
    const usual = group.commands.includes('create') ? 'create' : 'list';
    const second = given.startsWith('s3://') ? usual : given;
    // What acts by itself, as `cost` does beside its subcommands, has flags besides --help.
    const acts = group.commands.length === 0 || group.flags.length > 1;
    if (!acts) expect(group.commands).toContain(second);
    const help = group.commands.includes(second) ? helpOf([first, second]) : group;
    // What is behind a bare `--` is another command.
    const own = words.includes('--') ? words.slice(0, words.indexOf('--')) : words;
    const flags = own.filter((word) => word.startsWith('--'));
    for (const flag of flags) expect(help.flags).toContain(flag);
  });
});

interface Help {
  commands: string[];
  flags: string[];
}

const program = new Command('bursar');

beforeAll(() => addCommands(program, undefined));

/** Of the program, of one of its commands, or of one of those of a group. */
function helpOf(names: string[]): Help {
  let command = program;
  for (const name of names) {
    const found = command.commands.find((one) => one.name() === name);
    if (!found) throw new Error(`no command ${name}`);
    command = found;
  }
  const flags = ['--help', ...command.options.map(({ long }) => String(long))];
  return { commands: command.commands.map((one) => one.name()), flags };
}

describe('pages', () => {
  it('name no path that is not there', () => {
    const named = pages.flatMap(({ path, text }) =>
      [...proseOf(text).matchAll(/`((?:src|test|docs|docker|scripts|bench)\/[\w./-]+)`/g)].map(
        ([, target]) => ({ path, target: String(target) }),
      ),
    );
    expect(named.length).toBeGreaterThan(5);
    const missing = named.filter(({ target }) => !existsSync(join(root, target)));
    expect(missing).toEqual([]);
  });

  it('of how it is made name no file or folder that is not there, by the end of its path', () => {
    const paths = treeFiles().map((path) => `/${path}`);
    const isThere = (name: string): boolean =>
      paths.some(
        (path) => path.endsWith(`/${name}`) || path.includes(`/${name.replace(/\/?$/, '/')}`),
      );
    const name = /`((?!(?:app|dist)\/)[a-z][\w./-]*(?:\.ts|\.mjs|\w\/))`/g;
    const named = ['ARCHITECTURE.md', 'CONTRIBUTING.md', 'docs/way-of-a-request.md'].flatMap(
      (path) => [...readPage(path).text.matchAll(name)].map(([, one]) => String(one)),
    );
    expect(named.length).toBeGreaterThan(100);
    const missing = [...named, 'gateway/gone.ts', 'gone/'].filter((one) => !isThere(one));
    expect(missing).toEqual(['gateway/gone.ts', 'gone/']);
  });
});
