// Makes the checkout ready to run: installs the locked dependencies when they are missing or have
// changed, then builds. Runs before `npm start` and `npm test`, so each works as the first command.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

const stamp = 'node_modules/.bursar-lock';
const wanted = createHash('sha256')
  .update(readFileSync('package-lock.json'))
  .update(process.versions.modules)
  .digest('hex');
const installed = existsSync(stamp) ? readFileSync(stamp, 'utf8') : '';

if (installed !== wanted) {
  run('npm', ['ci', '--no-audit', '--no-fund']);
  writeFileSync(stamp, wanted);
}
run('node_modules/.bin/tsc', ['-p', 'tsconfig.json']);

function run(command, args) {
  try {
    execFileSync(command, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  } catch (error) {
    process.exit(error.status ?? 1);
  }
}
