// The project's Markdown, as far as tests need it: its files, code blocks, tables and links.
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const root = resolve(import.meta.dirname, '../..');

export interface Page {
  /** Relative to the root. */
  path: string;
  text: string;
}

export interface Block {
  language: string;
  code: string;
}

/** README.md, ARCHITECTURE.md and everything under docs/. */
export function readPages(): Page[] {
  const top = readdirSync(root).filter((name) => name.endsWith('.md'));
  const below = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name));
  return [...top, ...below].sort().map(readPage);
}

export function readPage(path: string): Page {
  return { path, text: readFileSync(join(root, path), 'utf8') };
}

/** Fenced code blocks, in order. */
export function blocksOf(text: string): Block[] {
  const found = text.matchAll(/^```(\w*)\n(.*?)^```$/gms);
  return [...found].map(([, language = '', code = '']) => ({ language, code }));
}

/** The text without its code blocks. */
export function proseOf(text: string): string {
  return text.replaceAll(/^```\w*\n.*?^```$/gms, '');
}

/** The part under a `## heading`, up to the next of its rank. Throws when there is none. */
export function sectionOf(text: string, heading: string): string {
  const part = text.split(/^## /m).find((one) => one.startsWith(`${heading}\n`));
  if (part === undefined) throw new Error(`no section "${heading}"`);
  return part;
}

/** Cells of all table rows but headings, without backquotes. */
export function rowsOf(text: string): string[][] {
  const lines = text.split('\n');
  return lines
    .filter((line, i) => line.startsWith('|') && !/^\|[\s:|-]+\|$/.test(lines[i + 1] ?? ''))
    .filter((line) => !/^\|[\s:|-]+\|$/.test(line))
    .map((line) => line.slice(1, -1).split('|'))
    .map((cells) => cells.map((cell) => cell.trim().replaceAll('`', '')));
}

/** The anchor that a heading gets. */
export function anchorOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}
