// Whoever opens the documents finds each page from one index, and the page for contributors names
// only what is there.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';
import { blocksOf, proseOf, readPage, readPages, root, sectionOf } from './markdown.ts';

/** The files that a text on a page leads to. */
function targetsOf(path: string, text: string): string[] {
  const targets = [...proseOf(text).matchAll(/\]\(([^)\s#]+)(?:#[^)\s]*)?\)/g)];
  return targets
    .map(([, target]) => String(target))
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => normalize(join(dirname(path), target)));
}

describe('the index of the documents', () => {
  const index = readPage('docs/README.md');
  const targets = targetsOf(index.path, index.text);

  it('has each page once', () => {
    const pages = readPages().map(({ path }) => path);
    // Decisions have an index of their own; this page and the README lead here.
    const isListed = (path: string) =>
      !path.startsWith('docs/decisions/0') && ![index.path, 'README.md'].includes(path);
    expect(targets.toSorted()).toEqual(pages.filter(isListed).toSorted());
  });

  it('says something of each role', () => {
    const roles = [...index.text.matchAll(/^## (\w+)/gm)].map(([, role]) => role);
    expect(roles).toEqual(['Members', 'Admins', 'Auditors', 'Operators', 'Developers']);
  });

  it('is where the README leads, which has few links of its own', () => {
    const list = targetsOf('README.md', sectionOf(readPage('README.md').text, 'Read on'));
    expect(list[0]).toBe(index.path);
    expect(list.length).toBeLessThanOrEqual(15);
  });
});

describe('the page for contributors', () => {
  const { text } = readPage('CONTRIBUTING.md');
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

  it('names scripts that there are, and all of the loop', () => {
    const named = [...text.matchAll(/npm (?:run ([\w:]+)|(test|start)\b)/g)];
    const names = named.map(([, run, own]) => run ?? own);
    for (const name of names) expect(Object.keys(scripts)).toContain(name);
    for (const name of ['dev', 'test:file', 'check', 'test', 'test:full', 'bench']) {
      expect(names).toContain(name);
    }
  });

  it('names files that there are', () => {
    const code = blocksOf(text).map((block) => block.code);
    const inline = [...text.matchAll(/`([^`\n]+)`/g)].map(([, one]) => String(one));
    const paths = [...code, ...inline].flatMap(
      (one) => one.match(/(?<![\w./-])(?:src|test|docs|scripts|bench|\.ci)\/[\w./-]*\w/g) ?? [],
    );
    expect(paths.length).toBeGreaterThan(3);
    expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  it('belongs to a project that has what others expect', () => {
    const { license } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    expect(license).toBe('Apache-2.0');
    expect(readFileSync(join(root, 'LICENSE'), 'utf8')).toContain('Version 2.0, January 2004');
    for (const file of ['SECURITY.md', 'CHANGELOG.md', '.editorconfig', '.github/ISSUE_TEMPLATE']) {
      expect([file, existsSync(join(root, file))]).toEqual([file, true]);
    }
  });
});
