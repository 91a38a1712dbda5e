// What `npm run bench` measures is made with the gateway's own modules, so a change of those can
// break a section that nothing else runs. BURSAR_FULL=1 runs each of them, as quickly as it goes.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const run = promisify(execFile);
const timeoutMs = 1_200_000;

describe.runIf(process.env.BURSAR_FULL === '1')('the bench', () => {
  it('measures each of its sections', { timeout: timeoutMs }, async () => {
    const args = ['bench/main.mjs', '--quick', '--no-peers', '--out', '-'];
    const { stderr } = await run(process.execPath, args, { maxBuffer: 64 * 1024 * 1024 });
    expect(stderr).not.toContain('NOT MEASURED');
  });
});
