// What the project's own files must look like beyond what the formatter and the linter see: how
// long lines are, and which documents comments may name.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

export const columnsMax = 100;

const root = resolve(import.meta.dirname, '../..');
const folders = ['src', 'test', 'bench', 'scripts', '.ci', 'docs', 'docker', 'price-books'];
const isScript = (path: string): boolean => /\.(ts|mjs|js)$/.test(path);
const isShell = (path: string): boolean => path.startsWith('.ci');
const hasLines = (path: string): boolean =>
  isScript(path) || isShell(path) || /\.(py|go|c|sh)$/.test(path);

/** Paths of the tree's files below its own folders, and of its pages. */
export function treeFiles(): string[] {
  const below = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1)),
  );
  const pages = readdirSync(root).filter((name) => name.endsWith('.md'));
  return [...below, ...pages].sort();
}

export const readTreeFile = (path: string): string => readFileSync(join(root, path), 'utf8');

/**
 * The lines, counted from 1, that are too long. The formatter breaks the code of scripts wherever
 * that can be broken, so of scripts only comments are looked at; of other languages every line is.
 */
export function longLines(path: string, text: string): number[] {
  if (!hasLines(path)) return [];
  const isTooLong = (line: string): boolean =>
    [...line].length > columnsMax &&
    (!isScript(path) || /^\s*(\/\/|\/\*|\*)|[\s;]\/\/ /.test(line));
  return text.split('\n').flatMap((line, i) => (isTooLong(line) ? [i + 1] : []));
}

/**
 * What the file cites that a reader cannot open: a page that is not in the tree, or a section of a
 * document that has no public name. Links between pages are tried elsewhere (test/docs/).
 */
export function lostCitations(path: string, text: string): string[] {
  const cited = path.endsWith('.md') ? [] : text.matchAll(/(?<![\w./{}-])[\w./-]*\w\.md\b/g);
  const lost = [...cited].map(([page]) => page).filter((page) => !isThere(path, page));
  const nameless = [...text.matchAll(/§|\b(?:DESIGN|REQUIREMENTS)\b/g)].map(([word]) => word);
  return [...lost, ...nameless];
}

function isThere(path: string, page: string): boolean {
  const places = ['', 'docs', 'docs/formats', 'bench', dirname(path)];
  return places.some((place) => existsSync(join(root, place, page)));
}
