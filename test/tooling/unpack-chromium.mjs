// Unpacks Chromium from the npm package @sparticuz/chromium, which has it and the libraries that it
// needs, compressed by Brotli, for x86-64 Linux: `node unpack-chromium.mjs PACKAGE FOLDER`.
import { spawnSync } from 'node:child_process';
import { createReadStream, createWriteStream, readFileSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { brotliDecompressSync, createBrotliDecompress } from 'node:zlib';

const [from, to] = process.argv.slice(2);
await pipeline(
  createReadStream(`${from}/bin/chromium.br`),
  createBrotliDecompress(),
  createWriteStream(`${to}/chromium`, { mode: 0o755 }),
);
for (const name of ['al2023', 'swiftshader', 'fonts']) {
  const input = brotliDecompressSync(readFileSync(`${from}/bin/${name}.tar.br`));
  const { status } = spawnSync('tar', ['-xf', '-', '-C', to], {
    input,
    stdio: ['pipe', 'inherit', 'inherit'],
  });
  if (status !== 0) throw new Error(`tar ended with ${status}`);
}
