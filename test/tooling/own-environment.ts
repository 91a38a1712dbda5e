// Nothing of the person who runs the tests reaches them: before the first test, the environment of
// the run is cut down to what is named here, with a home of its own, UTC, a plain locale and the
// usual umask. What tests start inherits that.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { toolVariables } from './tools.ts';

/**
 * Where programs and temporary files are, what the runner tells its workers, and what tests are
 * told.
 */
const kept = [
  /^(PATH|TMPDIR|CC|CI|LD_LIBRARY_PATH|NODE_COMPILE_CACHE|NODE_ENV|NODE_V8_COVERAGE)$/,
  // Version managers put launchers on PATH, which ask these where the programs are.
  /^(PYENV|ASDF|MISE|VOLTA|NVM)_/,
  /^(VITEST|VITE|TEST|DEV|PROD|MODE|BASE_URL|SSR)(_|$)/,
  /^BURSAR_(FULL|KILLS|CUTS|KILL_SEED|LIMITS_SEED|FUZZ_SECONDS|TEST_\w+)$/,
  /^BURSAR_(CHANGE_KILLS|CHANGE_EVENTS|FIND_KILLS|TELL_KILLS)$/,
];

export default function setUp(): () => void {
  const personalHome = homedir();
  const home = mkdtempSync(join(tmpdir(), 'bursar-home-'));
  for (const name of Object.keys(process.env)) {
    if (!toolVariables.has(name) && !kept.some((one) => one.test(name))) delete process.env[name];
  }
  Object.assign(process.env, { HOME: home, TZ: 'UTC', LANG: 'C.UTF-8', LC_ALL: 'C.UTF-8' });
  // Packages that somebody installed for himself are programs, as those on PATH are.
  const packages = join(personalHome, '.local');
  if (existsSync(packages)) process.env.PYTHONUSERBASE = packages;
  process.umask(0o022);
  return () => rmSync(home, { recursive: true, force: true });
}
