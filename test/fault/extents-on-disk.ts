// What is really in a data folder: the store's files against the catalog's extents, and each
// extent's references against the manifests that name it.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '#bursar/core/database.js';
import { decodeManifest } from '#bursar/core/manifest.js';

const intentState = 0;
const liveState = 1;
const quietMsMax = 20_000;

/** Waits until the sweeper has nothing left to do, then tells what should not be as it is. */
export async function findStrayExtents(dataDir: string): Promise<string[]> {
  const end = performance.now() + quietMsMax;
  let findings = await inspect(dataDir);
  while (findings.length > 0 && performance.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    findings = await inspect(dataDir);
  }
  return findings;
}

/** Names of the files that hold extents, finished or not. */
export function listExtentFiles(dataDir: string): { finished: string[]; temporary: string[] } {
  const root = join(dataDir, 'extents');
  const finished: string[] = [];
  if (!existsSync(root)) return { finished, temporary: [] };
  for (const first of readdirSync(root)) {
    if (first === 'temporary') continue;
    for (const second of readdirSync(join(root, first))) {
      finished.push(...readdirSync(join(root, first, second)));
    }
  }
  return { finished, temporary: readdirSync(join(root, 'temporary')) };
}

interface ExtentRow {
  id: string;
  state: number;
  refs: number;
  isInline: number;
}

async function inspect(dataDir: string): Promise<string[]> {
  const { rows, references } = await readCatalog(dataDir);
  const { finished, temporary } = listExtentFiles(dataDir);
  const files = new Set(finished);
  const findings = temporary.map((name) => `${name} is left in the temporary folder`);
  for (const { id, state, refs, isInline } of rows) {
    // An id that was declared ahead, and nothing is written under it.
    if (state === intentState && !files.has(id)) continue;
    if (state !== liveState) findings.push(`extent ${id} is in state ${state}`);
    const named = references.get(id) ?? 0;
    if (state === liveState && named !== refs) {
      findings.push(`extent ${id} has ${refs} references and is named ${named} times`);
    }
    if (isInline) continue;
    if (state === liveState && !files.has(id)) findings.push(`live extent ${id} has no file`);
    files.delete(id);
  }
  for (const name of files) findings.push(`file ${name} is no extent of the catalog`);
  const known = new Set(rows.map((row) => row.id));
  for (const [id] of references) if (!known.has(id)) findings.push(`extent ${id} has no row`);
  return findings;
}

/** In one read transaction, so that a sweep cannot come between the tables. */
async function readCatalog(dataDir: string) {
  const { tx, exec, close } = openDatabase(join(dataDir, 'bursar.db'), {
    readonly: true,
    cacheKib: 1024,
  });
  try {
    exec('BEGIN');
    const rows = await tx.all<ExtentRow>(
      'SELECT lower(hex(id)) AS id, state, refs, body IS NOT NULL AS isInline FROM extents',
    );
    const manifests = await tx.all<{ manifest: Uint8Array }>(
      `SELECT manifest FROM versions UNION ALL SELECT manifest FROM noncurrent_versions
         UNION ALL SELECT manifest FROM ended_versions UNION ALL SELECT manifest FROM parts
         UNION ALL SELECT manifest FROM held_versions UNION ALL SELECT manifest FROM record_packs`,
    );
    const references = new Map<string, number>();
    for (const { manifest } of manifests) {
      for (const run of decodeManifest(manifest)) {
        const id = run.id.toString('hex');
        references.set(id, (references.get(id) ?? 0) + 1);
      }
    }
    return { rows, references };
  } finally {
    close();
  }
}
