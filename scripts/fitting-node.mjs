// Prints a PATH on which a Node comes first that runs Bursar: PATH as it is where this one does,
// and else one with a Node that npm brings into `.node/` of the checkout, once. So `npm start` and
// `npm test` work where an older Node is installed:
//
//   PATH=$(node scripts/fitting-node.mjs) && node …
//
// What is here has to run on the old Node.
import { bring, folderOf, packages } from './node-programs.mjs';

/** Of Node-API. SQLite's module needs it, and crashes without. Node has it since 22.14 and 23.6. */
const napiMin = 10;

const platform = `${process.platform}-${process.arch}`;

try {
  process.stdout.write(`${fittingPath()}\n`);
} catch (error) {
  process.stderr.write(`bursar: ${error.message}\n`);
  process.exitCode = 1;
}

function fittingPath() {
  if (Number(process.versions.napi) >= napiMin) return process.env.PATH;
  const needed = `Node 22.14 or newer is needed, and this is ${process.version}`;
  const wanted = packages[platform];
  if (!wanted) throw new Error(`${needed}; npm has none for ${platform}: please install one`);
  return `${folderOf(wanted) ?? bringNode(wanted, needed)}:${process.env.PATH}`;
}

function bringNode(wanted, needed) {
  process.stderr.write(`bursar: ${needed}: npm brings ${wanted.version} into .node/\n`);
  try {
    return bring(wanted, platform);
  } catch (error) {
    throw new Error(`${needed}; none could be brought: ${error.message}`);
  }
}
