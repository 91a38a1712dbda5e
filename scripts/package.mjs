// Makes what members install, into `.package/` or another folder: a package for npm, and one file
// for each platform that needs neither npm nor Node. Two runs give the same bytes.
//
//   npm run package [-- --out FOLDER] [PLATFORM...]
//
// Platforms are linux-x64, linux-arm64, darwin-x64 and darwin-arm64; all, if none is named.
//
// What is in both is `src/cli/client-main.ts` with all that it imports, and its dependencies.
// docs/decisions/0106-client.md says why it is made in this way.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { create } from 'tar';
import { bring, folderOf, packages } from './node-programs.mjs';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));

const { values, positionals } = parseArgs({
  options: { out: { type: 'string', default: '.package' } },
  allowPositionals: true,
});
const { out } = values;
const app = join(out, 'bursar');
const entrance = 'dist/cli/client-main.js';
const bytesMax = 80_000_000;

const { version, license, description, dependencies } = JSON.parse(
  readFileSync('package.json', 'utf8'),
);

/** Of `import … from`, `export … from`, `import`, `import()` and `require()`, as they are built. */
const specifiers = new RegExp(
  [
    /^(?:import|export)\s[^'"=;]*?\bfrom '([^']+)'/,
    /^import '([^']+)'/,
    /\b(?:import|require)\('([^']+)'\)/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'gm',
);

/** The files of ours that a file leads to, and the packages that they import. */
function follow(file, files = new Set(), names = new Set()) {
  if (files.has(file)) return { files, names };
  files.add(file);
  for (const found of readFileSync(file, 'utf8').matchAll(specifiers)) {
    const specifier = found[1] ?? found[2] ?? found[3];
    if (specifier.startsWith('.')) follow(normalize(join(dirname(file), specifier)), files, names);
    else if (!specifier.startsWith('node:')) names.add(specifier);
  }
  return { files, names };
}

/** Packages, and those that they depend on. */
function withDependencies(names, all = new Set()) {
  for (const name of names) {
    if (all.has(name)) continue;
    all.add(name);
    const text = readFileSync(join('node_modules', name, 'package.json'), 'utf8');
    withDependencies(Object.keys(JSON.parse(text).dependencies ?? {}), all);
  }
  return all;
}

/** The package, as npm will pack it. */
function layOut() {
  rmSync(out, { recursive: true, force: true });
  const { files, names } = follow(entrance);
  for (const file of files) {
    mkdirSync(dirname(join(app, file)), { recursive: true });
    cpSync(file, join(app, file));
  }
  chmodSync(join(app, entrance), 0o755);
  for (const file of ['LICENSE', 'price-books']) cpSync(file, join(app, file), { recursive: true });
  const wanted = [...names].sort().map((name) => [name, dependencies[name]]);
  const manifest = {
    ...{ name: 'bursar', version, description, license, type: 'module' },
    bin: { bursar: entrance },
    engines: { node: '>=22.14' },
    dependencies: Object.fromEntries(wanted),
    // In the package, as they are locked: whoever installs it needs no registry.
    bundleDependencies: wanted.map(([name]) => name),
  };
  writeFileSync(join(app, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  for (const name of withDependencies(names)) {
    cpSync(join('node_modules', name), join(app, 'node_modules', name), { recursive: true });
  }
}

/** What the first start of the one file does. Nothing of the user's PATH is needed for it. */
function launcher(platform, digest) {
  const script = `#!/bin/sh
# bursar ${version} for ${platform}. Behind the last line of this script is a gzipped tar
# file with Node and the command. The first start unpacks it into ~/.cache/bursar, and all start it
# there.
set -eu
home=\${XDG_CACHE_HOME:-\${HOME:?is not set}/.cache}/bursar
there=$home/${digest}
if [ ! -x "$there/bin/node" ]; then (
  PATH=/usr/bin:/bin:/usr/sbin:/sbin
  umask 077
  mkdir -p "$home"
  [ -O "$home" ] || { echo "bursar: $home is somebody else's: set XDG_CACHE_HOME" >&2; exit 1; }
  incoming=$home/incoming-$$
  trap 'rm -rf "$incoming"' EXIT
  mkdir "$incoming" "$incoming/all"
  tail -n +LINES "$0" | gzip -dc > "$incoming/all.tar"
  tar -xf "$incoming/all.tar" -C "$incoming/all"
  sync
  # Another, who unpacked the same at the same time, may have been first.
  [ -d "$there" ] || mv "$incoming/all" "$there"
); fi
exec "$there/bin/node" "$there/${entrance}" "$@"
`;
  return script.replace('LINES', String(script.split('\n').length));
}

/** One file for a platform. */
async function bundle(platform) {
  const wanted = packages[platform];
  if (!wanted) throw new Error(`npm has no Node for ${platform}`);
  const node = folderOf(wanted) ?? bring(wanted, platform);
  const tree = join(out, 'tree');
  rmSync(tree, { recursive: true, force: true });
  cpSync(app, tree, { recursive: true });
  mkdirSync(join(tree, 'bin'));
  cpSync(join(node, 'node'), join(tree, 'bin/node'));
  chmodSync(join(tree, 'bin/node'), 0o755);
  const payload = gzipSync(await pack(tree), { level: 6 });
  rmSync(tree, { recursive: true });
  const digest = createHash('sha256').update(payload).digest('hex').slice(0, 32);
  const file = join(out, `bursar-${version}-${platform}`);
  const bytes = Buffer.concat([Buffer.from(launcher(platform, digest)), payload]);
  if (bytes.length > bytesMax) throw new Error(`${file} has ${bytes.length} bytes`);
  writeFileSync(file, bytes);
  chmodSync(file, 0o755);
}

/** Without what differs from one machine to the next: owners, times, the order of folders. */
async function pack(folder) {
  const files = readdirSync(folder, { recursive: true })
    .filter((name) => statSync(join(folder, name)).isFile())
    .sort();
  const pieces = [];
  const packed = create({ cwd: folder, portable: true, mtime: new Date(0), noPax: true }, files);
  for await (const piece of packed) pieces.push(piece);
  return Buffer.concat(pieces);
}

function writeDigests() {
  const files = readdirSync(out).filter((name) => statSync(join(out, name)).isFile());
  const lines = files.sort().map((name) => {
    const digest = createHash('sha256')
      .update(readFileSync(join(out, name)))
      .digest('hex');
    return `${digest}  ${name}\n`;
  });
  writeFileSync(join(out, 'SHA256SUMS'), lines.join(''));
  for (const line of lines) process.stdout.write(line);
}

const platforms = positionals.length > 0 ? positionals : Object.keys(packages);
layOut();
const quietly = ['--silent', '--ignore-scripts', '--pack-destination', out];
execFileSync('npm', ['pack', ...quietly, app.startsWith('/') ? app : `./${app}`], {
  stdio: ['ignore', 'ignore', 'inherit'],
});
for (const platform of platforms) await bundle(platform);
writeDigests();
