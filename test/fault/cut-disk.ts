// A disk that loses its power: an ext4 of its own on a loop device, whose unsynced pages and
// journal are dropped as a power cut drops them. It needs root, loop devices, mkfs.ext4 and a C
// compiler.
import { execFileSync } from 'node:child_process';
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Tool } from '../tooling/tools.ts';
import { compiler } from './compiler.ts';

const imageBytes = 1024 * 1024 * 1024;

export class CutDisk {
  /** Where it is mounted. */
  readonly folder: string;
  readonly #image: string;
  readonly #cutter: string;

  /** Makes it in a folder of the test's. Throws where a tool is missing, or the right to mount. */
  constructor(root: string, options: { sizeBytes?: number } = {}) {
    this.folder = join(root, 'disk');
    this.#image = join(root, 'disk.img');
    this.#cutter = join(root, 'power-cut');
    const source = join(import.meta.dirname, 'power-cut.c');
    run(compiler.path ?? 'cc', ['-O1', '-o', this.#cutter, source]);
    mkdirSync(this.folder);
    writeFileSync(this.#image, '');
    truncateSync(this.#image, options.sizeBytes ?? imageBytes);
    run('mkfs.ext4', ['-q', '-F', this.#image]);
    this.mount();
  }

  /** Its journal is committed when somebody syncs, and not by the clock. */
  mount(): void {
    run('mount', ['-o', 'loop,commit=900', this.#image, this.folder]);
  }

  unmount(): void {
    run('umount', [this.folder]);
  }

  /** The power goes, and comes back. Nobody has a file of it open any more. */
  cut(): void {
    run(this.#cutter, [this.folder]);
    this.unmount();
    this.mount();
  }
}

/** Whether there can be one here, tried in `root`. */
export function findCutDisks(root: string): Tool {
  const tool = { name: 'ext4 on a loop device, as root', variable: 'PATH' };
  try {
    mkdirSync(root, { recursive: true });
    const disk = new CutDisk(root, { sizeBytes: 16 * 1024 * 1024 });
    disk.cut();
    disk.unmount();
    return { ...tool, path: 'mkfs.ext4' };
  } catch {
    return { ...tool, path: undefined };
  }
}

function run(command: string, args: string[]): void {
  execFileSync(command, args, { stdio: 'pipe' });
}
