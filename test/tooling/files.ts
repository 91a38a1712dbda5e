// Folders of files with known content, for the clients to carry to and fro.
import { createCipheriv, createHash } from 'node:crypto';
import { type Dirent, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * `sizeBytes` bytes that look random and are the same for the same seed (AES-256 in counter mode).
 */
export function seededBytes(seed: number, sizeBytes: number): Buffer {
  const key = createHash('sha256').update(`bursar test bytes ${seed}`).digest();
  return createCipheriv('aes-256-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(sizeBytes));
}

export function sha256Hex(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Writes `files` (path → content) under `dir`, with the folders that they need. */
export function writeTree(dir: string, files: Record<string, Uint8Array | string>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), content);
  }
}

/** The relative paths of all files under `dir`, each with its SHA-256, in order. */
export function digestTree(dir: string): Record<string, string> {
  const paths = listFiles(dir)
    .map((path) => path.slice(dir.length + 1))
    .sort();
  return Object.fromEntries(paths.map((path) => [path, sha256Hex(readFileSync(join(dir, path)))]));
}

/**
 * The paths of all files under `dir`, none where it is not there. A server at work may remove files
 * meanwhile, and a folder with its last file.
 */
export function listFiles(dir: string): string[] {
  let entries: Dirent[];
  try {
    entries = readdirSync(dir, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  return entries.flatMap((entry) => {
    const path = join(dir, entry.name);
    return entry.isDirectory() ? listFiles(path) : [path];
  });
}
