import { mkdtempSync, rmSync } from 'node:fs';
import { benchEncryption, describeEncryption } from './encryption.mjs';
const dir = mkdtempSync('/tmp/xb-');
const m = await benchEncryption({
  dir,
  effort: { pairs: Number(process.argv[2]) },
  say: console.error,
  only: process.argv[3],
});
console.log(describeEncryption(m).join('\n'));
rmSync(dir, { recursive: true });
process.exit(0);
