// The import rules of the rooms (ARCHITECTURE.md): `npm run check` runs this, and fails with a line
// for each import that is against them.
//
//   node scripts/check-imports.mjs [FOLDER]
//
// FOLDER holds the rooms (`src`).
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/**
 * The rooms by floor, the lowest first. A room may import itself and the rooms on floors below its
 * own. To add a room is to put its name on a floor.
 */
const floors = [
  ['core'],
  ['authz', 'quota', 'catalog', 'audit', 'tiering', 'instruments'],
  ['ledger', 'search'],
  ['state'],
  ['backup', 'gateway'],
  ['server'],
  ['cli'],
];

/** Rooms of which others may import only these files and folders. */
const entrances = {
  // What commands run of the server, its settings, and what works on a data folder without it.
  server: ['main.ts', 'settings/', 'folder/', 'processes/'],
};

/** Packages that few places alone import: folders or files. */
const places = {
  '@aws-sdk/client-s3': ['tiering/stores/', 'gateway/inventory/'],
  '@aws-sdk/client-sqs': ['gateway/notifications/'],
  'better-sqlite3': ['core/database.ts'],
  fastify: ['gateway/'],
  'hyparquet-writer': ['gateway/inventory/'],
  jose: ['authz/oidc/'],
};

/** Of `import … from`, `export … from`, `import`, `import()`, `require()`, and workers' files. */
const specifiers =
  /\b(?:from|import|import\(|require\(|new Worker\(new URL\()\s*'([^']+)'|[rR]equire\(.*\)\('([^']+)'\)/g;

const folder = process.argv[2] ?? 'src';
const floorOf = (room) => floors.findIndex((rooms) => rooms.includes(room));
const roomOf = (path) => path.split('/', 1)[0];

/** What is wrong with the import of `specifier` by a file, or undefined. */
function faultOf(path, specifier) {
  if (!specifier.startsWith('.')) {
    const [name] = Object.keys(places).filter((one) => `${specifier}/`.startsWith(`${one}/`));
    if (name === undefined || places[name].some((one) => path.startsWith(one))) return undefined;
    return `only ${places[name].join(' and ')} imports ${name}`;
  }
  const target = normalize(join(dirname(path), specifier));
  const room = roomOf(path);
  const other = roomOf(target);
  if (other === room || other === '..') return undefined;
  if (floorOf(other) < 0 || floorOf(other) >= floorOf(room)) {
    return `the room ${room} may not import ${other}, which is not on a floor below it`;
  }
  const open = entrances[other] ?? [''];
  if (open.some((one) => target.startsWith(`${other}/${one}`))) return undefined;
  return `others may import of ${other} only ${open.join(', ')}`;
}

const files = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
for (const path of files) {
  if (floorOf(roomOf(path)) < 0) complain(path, `${roomOf(path)} is no room`);
  for (const [, imported, required] of readFileSync(join(folder, path), 'utf8').matchAll(
    specifiers,
  )) {
    const specifier = imported ?? required;
    const fault = faultOf(path, specifier);
    if (fault !== undefined) complain(path, `imports ${specifier}: ${fault}`);
  }
}

function complain(path, what) {
  process.stderr.write(`${join(folder, path)} ${what} (ARCHITECTURE.md, Rooms)\n`);
  process.exitCode = 1;
}
