// Builds what runs, from `src/` into `app/`: the command (`app/main.js`), the threads that it
// starts, and the chunks that these share. Packages stay in `node_modules/`.
// docs/decisions/0141-bundle.md says why.
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const root = fileURLToPath(new URL('..', import.meta.url));
const source = join(root, 'src');
const out = join(root, 'app');
/** No build takes so long. */
const partMsMax = 60_000;

/** The file in `out` for a module that is started by its name; every file there is on one level. */
const entryName = (module) =>
  module === 'cli/main.ts' ? 'main.js' : module.replaceAll('/', '-').replace(/\.ts$/, '.js');

/**
 * A module that asks for a file beside it finds that file from `out` as well: another module, such
 * as a thread's, becomes an entry, and anything else stays where it is in the tree.
 */
const files = {
  name: 'files',
  transform(code, id) {
    if (!id.startsWith(source) || !code.includes('import.meta.url')) return null;
    return code.replace(/new URL\(\s*'([^']+)',\s*import\.meta\.url,?\s*\)/g, (_, reference) => {
      const target = join(dirname(id), reference);
      const module = relative(source, target).replace(/\.js$/, '.ts');
      if (module.startsWith('..'))
        return urlOf(join('..', relative(root, target), '/'.repeat(+reference.endsWith('/'))));
      const fileName = entryName(module);
      if (fileName !== 'main.js')
        this.emitFile({ type: 'chunk', id: join(source, module), fileName });
      return urlOf(`./${fileName}`);
    });
  },
};
const urlOf = (path) => `new URL(${JSON.stringify(path)}, import.meta.url)`;

const build = await rolldown({
  input: { main: join(source, 'cli/main.ts') },
  platform: 'node',
  // Packages, but not what rolldown has for `using`, which Node 22 does not know.
  external: (id) => !/^[./]|^@oxc-project\/runtime/.test(id),
  plugins: [files],
  transform: { target: 'es2023' },
});
const { output } = await build.generate({
  format: 'esm',
  entryFileNames: '[name].js',
  chunkFileNames: '[name]-[hash].js',
});
await build.close();

// A gateway may be running from the folder, or starting: what is the same stays, what is new is
// whole at once and comes before what imports it, and only then goes what an earlier build left.
mkdirSync(out, { recursive: true });
const rank = ({ isEntry, fileName }) => (fileName === 'main.js' ? 2 : Number(isEntry));
for (const { fileName, code } of output.toSorted((a, b) => rank(a) - rank(b))) {
  const file = join(out, fileName);
  if (existsSync(file) && readFileSync(file, 'utf8') === code) continue;
  const part = join(out, `${fileName}.${process.pid}`);
  writeFileSync(part, code);
  renameSync(part, file);
}
const built = new Set(output.map(({ fileName }) => fileName));
for (const name of readdirSync(out)) {
  const file = join(out, name);
  // What a build wrote that was killed; that of another may still be going on.
  const isOld = () => Date.now() - statSync(file).mtimeMs > partMsMax;
  if (name.endsWith('.js') ? !built.has(name) : isOld()) rmSync(file, { force: true });
}
