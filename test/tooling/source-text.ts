// What the project's own files must look like beyond what the formatter and the linter see: how
// long lines are, which documents comments may name, and in which folder a test is.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

export const columnsMax = 100;

/** Folders of tests that concern more than one room: CONTRIBUTING.md says what is in each. */
export const testKinds = [
  'attacks',
  'browser',
  'clients',
  'conformance',
  'docs',
  'fault',
  'fixtures',
  'fuzz',
  'interop',
  'limits',
  'protocol',
  'stores',
  'tooling',
];

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
 * The lines, counted from 1, that are too long. Those of scripts may be that have no place to break
 * them: one word, such as a URL, or one regular expression, and nothing else.
 */
export function longLines(path: string, text: string): number[] {
  if (!hasLines(path)) return [];
  const isTooLong = (line: string): boolean =>
    [...line].length > columnsMax &&
    !(isScript(path) && /^\s*(?:\S+|\/(?![/*]).*\/[a-z]*[,;]?)$/.test(line));
  return text.split('\n').flatMap((line, i) => (isTooLong(line) ? [i + 1] : []));
}

/**
 * The lines, counted from 1, where `vi.waitFor` is called without a timeout of its own: it waits a
 * second then, which a busy machine may take.
 */
export function hastyWaits(text: string): number[] {
  const calls = [...text.matchAll(/\bvi\.waitFor\(/g)].map(({ index, 0: call }) => ({
    line: text.slice(0, index).split('\n').length,
    from: index + call.length,
  }));
  return calls.flatMap(({ line, from }) => (hasSecondArgument(text, from) ? [] : [line]));
}

/** Of a call whose arguments begin there, as the formatter writes them. */
function hasSecondArgument(text: string, from: number): boolean {
  let depth = 1;
  let quote: string | null = null;
  for (let at = from; at < text.length && depth > 0; at++) {
    const sign = text[at] as string;
    if (quote !== null) {
      if (sign === '\\') at += 1;
      else if (sign === quote) quote = null;
    } else if (`'"\``.includes(sign)) quote = sign;
    else if ('([{'.includes(sign)) depth += 1;
    else if (')]}'.includes(sign)) depth -= 1;
    else if (sign === ',' && depth === 1) return /^\s*[^\s)]/.test(text.slice(at + 1));
  }
  return false;
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

/** Folders of tests that are neither a folder of `src` nor of what concerns more than one room. */
export function strayTestFolders(paths: readonly string[]): string[] {
  const sources = new Set(paths.flatMap((path) => foldersOf(path, 'src')));
  const folders = new Set(paths.flatMap((path) => foldersOf(path, 'test')));
  const isKind = (folder: string): boolean => testKinds.includes(String(folder.split('/')[0]));
  return [...folders].filter((folder) => !sources.has(folder) && !isKind(folder)).sort();
}

/** The folders that a file is in below `top`, from the outermost to its own. */
function foldersOf(path: string, top: string): string[] {
  const [first, ...below] = dirname(path).split('/');
  return first === top ? below.map((_, i) => below.slice(0, i + 1).join('/')) : [];
}
