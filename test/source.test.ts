// Files can be read as they are: no line is too long, whatever a file cites is in the tree or is
// public, and a test is in the folder of what it tests.
import { describe, expect, it } from 'vitest';
import {
  hastyWaits,
  longLines,
  lostCitations,
  readTreeFile,
  strayTestFolders,
  testKinds,
  treeFiles,
} from './tooling/source-text.ts';

/** They name what they look for. */
const self = ['test/source.test.ts', 'test/tooling/source-text.ts'];
const texts = treeFiles()
  .filter((path) => /\.(ts|mjs|js|py|go|c|sh|md|ya?ml)$|^\.ci\//.test(path))
  .map((path) => ({ path, text: readTreeFile(path) }));

describe('lines', () => {
  it('are within 100 columns', () => {
    expect(texts.length).toBeGreaterThan(1_000);
    const long = texts.flatMap(({ path, text }) =>
      longLines(path, text).map((line) => `${path}:${line}`),
    );
    expect(long).toEqual([]);
  });

  it('are found that are not', () => {
    const words = 'word '.repeat(20);
    expect(longLines('src/a.ts', `// ${words}`)).toEqual([1]);
    expect(longLines('src/a.ts', `\n  /** ${words} */`)).toEqual([2]);
    expect(longLines('src/a.ts', `/**\n * ${words}\n */`)).toEqual([2]);
    expect(longLines('src/a.ts', `call(); // ${words}`)).toEqual([1]);
    expect(longLines('test/a.py', `    name = "${words}"`)).toEqual([1]);
    expect(longLines('src/a.ts', `const text = '${words}';`)).toEqual([1]);
    expect(longLines('src/a.ts', `  /${words}/,\n  // ${words}/`)).toEqual([2]);
    expect(longLines('src/a.ts', `  'https://${words.replaceAll(' ', '/')}',`)).toEqual([]);
  });
});

describe('documents that are cited', () => {
  it('are in the tree', () => {
    const others = texts.filter(({ path }) => !self.includes(path));
    const lost = others.flatMap(({ path, text }) =>
      lostCitations(path, text).map((cited) => `${path}: ${cited}`),
    );
    expect(lost).toEqual([]);
  });

  it('are found that are not', () => {
    expect(lostCitations('src/a.ts', '// DESIGN section 7, house.md, docs/gone.md')).toEqual([
      'house.md',
      'docs/gone.md',
      'DESIGN',
    ]);
    expect(lostCitations('src/a.ts', '// Specification: docs/formats/log.md; §4')).toEqual(['§']);
  });
});

describe('waits of tests', () => {
  it('say how long they wait at most', () => {
    const tests = texts.filter(({ path }) => /^test\/.*\.ts$/.test(path) && !self.includes(path));
    const hasty = tests.flatMap(({ path, text }) =>
      hastyWaits(text).map((line) => `${path}:${line}`),
    );
    expect(hasty).toEqual([]);
  });

  it('are found that do not', () => {
    const waits = ['(a)', '(() => {\n  a(1, 2);\n})', "(() => ',', )", '(a, 20_000)', '(\n  a,\n)'];
    const found = waits.map((wait) => hastyWaits(`await vi.waitFor${wait};`).length);
    expect(found).toEqual([1, 1, 1, 0, 1]);
  });
});

describe('folders of tests', () => {
  it('are those of the source, and those that CONTRIBUTING.md names', () => {
    expect(strayTestFolders(treeFiles())).toEqual([]);
    const rows = [...readTreeFile('CONTRIBUTING.md').matchAll(/^\| `test\/([\w-]+)\/` \|/gm)];
    expect(rows.map(([, kind]) => kind)).toEqual(testKinds);
  });

  it('are found that are neither', () => {
    const planted = ['src/core/a.ts', 'test/core/seals/a.test.ts', 'test/elsewhere/a.test.ts'];
    expect(strayTestFolders(planted)).toEqual(['core/seals', 'elsewhere']);
    const placed = ['src/core/seals/a.ts', 'test/core/seals/a.test.ts', 'test/fault/limits/a.ts'];
    expect(strayTestFolders([...placed, 'test/source.test.ts'])).toEqual([]);
  });
});
