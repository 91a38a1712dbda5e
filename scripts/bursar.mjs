#!/usr/bin/env node
// The `bursar` command of a checkout. It is in the tree, so that npm can link it before anything is
// built: npm does not link later what was not there, and `npx bursar` would never be found.
try {
  await import('../dist/cli/main.js');
} catch (error) {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  process.stderr.write(
    'bursar: it is not built yet: wait for `npm start`, or run `npm ci && npm run build`\n',
  );
  process.exitCode = 1;
}
