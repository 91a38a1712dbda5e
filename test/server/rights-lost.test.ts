// What is kept in memory of rights must follow what is committed. Where it cannot, the gateway ends
// with a clear word, and a start reads everything anew.
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, expect, it, vi } from 'vitest';
import { type Served, Workplace } from '../cli/command.ts';
import { compiler } from '../fault/compiler.ts';
import { S3Client } from '../fault/s3-client.ts';
import { describeWithTool } from '../tooling/tools.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const place = new Workplace();
afterAll(() => place.remove());

async function put(served: Served, key: { accessKeyId: string; secretAccessKey: string }) {
  const client = new S3Client({ endpoint: served.endpoint, ...key });
  try {
    return (await client.send('PUT', '/raw')).status;
  } finally {
    client.close();
  }
}

describeWithTool(compiler, 'a gateway that cannot read what was committed of rights', (path) => {
  it('ends, and a start is all it takes', async () => {
    const library = join(place.folder, 'fault-at.so');
    const faultFile = join(place.folder, 'fault-at');
    const source = resolve('test/fault/fault-at.c');
    execFileSync(path, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
    let served = await place.serve([], { LD_PRELOAD: library, FAULT_AT: faultFile });
    expect((await place.run(['tenant', 'create', 'cms'])).code).toBe(0);
    expect((await place.run(['principal', 'create', 'cms/alice'])).code).toBe(0);
    const made = await place.run(['key', 'create', 'cms/alice', '--json']);
    const alice = JSON.parse(made.stdout);
    const add = ['issuer', 'set', 'cms/ci', '--url', 'https://ci.example'];
    const more = ['--audience', 'https://bursar.example/cms', '--path-prefix', '/'];
    let hasEnded = false;
    served.process.once('close', () => {
      hasEnded = true;
    });
    // The first thread reads from SQLite's log what the ledger's has written: first to decide, of
    // which a failure is an internal error and changes nothing, then what was committed.
    for (let read = 1; !hasEnded; read++) {
      // Without the file, and begins to count anew.
      expect((await place.run(['tenant', 'list'])).code).toBe(0);
      writeFileSync(faultFile, `read bursar.db-wal ${read}+ EIO`);
      const added = await place.run([...add, ...more, '--default-principal', 'alice']);
      expect(added.code).toBe(1);
      rmSync(faultFile);
    }
    expect(await served.ended()).toBe(1);
    expect(served.stderr()).toMatch(
      /^bursar: the ledger cannot go on, stopping: memory could not follow what was committed: .*disk/m,
    );
    // The log has it too, though the process ended at once.
    expect(served.stdout()).toMatch(/^\{"level":"fatal",.*memory could not follow/m);
    served = await place.serve();
    expect(await put(served, alice)).toBe(200);
    const listed = await place.run(['issuer', 'list', 'cms', '--json']);
    expect(listed.stdout).toContain('https://ci.example');
    expect(await served.stop()).toBe(0);
  });
});
