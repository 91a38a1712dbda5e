// What is really in the bucket of an S3 store: its extents against those of the catalog.
import { basename, join } from 'node:path';
import { openDatabase } from '#bursar/core/database.js';
import { inlineStore, localStore } from '#bursar/core/manifest.js';
import { listFiles } from '../tooling/files.ts';
import { sleep } from './plain-start.ts';

const liveState = 1;
const quietMsMax = 20_000;

/**
 * Waits until the sweeper has nothing left to do, then tells what the bucket has and the catalog
 * does not name, and the other way round. `storeDir` is where the backend keeps the store's
 * objects.
 */
export async function findStrayObjects(storeDir: string, dataDir: string): Promise<string[]> {
  const end = performance.now() + quietMsMax;
  for (;;) {
    const findings = await compare(storeDir, dataDir);
    if (findings.length === 0 || performance.now() >= end) return findings;
    await sleep(100);
  }
}

async function compare(storeDir: string, dataDir: string): Promise<string[]> {
  const stored = listExtents(storeDir);
  const findings: string[] = [];
  const live = await listLive(dataDir);
  for (const id of live) if (!stored.delete(id)) findings.push(`extent ${id} is not in the bucket`);
  for (const id of stored) findings.push(`object ${id} is no live extent`);
  return findings;
}

function listExtents(storeDir: string): Set<string> {
  return new Set(listFiles(join(storeDir, 'extents')).map((path) => basename(path)));
}

async function listLive(dataDir: string): Promise<string[]> {
  const { tx, close } = openDatabase(join(dataDir, 'bursar.db'), {
    readonly: true,
    cacheKib: 1024,
  });
  try {
    const rows = await tx.all<{ id: string }>(
      'SELECT lower(hex(id)) AS id FROM extents WHERE state = ? AND store NOT IN (?, ?)',
      liveState,
      inlineStore,
      localStore,
    );
    return rows.map(({ id }) => id);
  } finally {
    close();
  }
}
