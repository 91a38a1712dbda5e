// The second machine of a gateway that ships: a folder that follows, is promoted and served.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { vi } from 'vitest';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import type { RebuildRig } from './rebuild-rig.ts';
import { S3Client } from './s3-client.ts';
import { place, waitMsMax } from './shipping-rig.ts';

const main = resolve(import.meta.dirname, '../../app/main.js');

export class Standby {
  readonly dataDir = mkdtempSync(join(tmpdir(), 'bursar-standby-'));
  readonly #rig: RebuildRig;
  readonly #environment: Record<string, string>;
  #child: ChildProcess | null = null;
  #told = '';
  gateway: ServedGateway | null = null;

  /** `environment`: what all its processes have more. */
  constructor(rig: RebuildRig, environment: Record<string, string> = {}) {
    this.#rig = rig;
    this.#environment = environment;
    cpSync(join(rig.dataDir, 'keys'), join(this.dataDir, 'keys'), { recursive: true });
  }

  get told(): string {
    return this.#told;
  }

  follow(): void {
    const where = ['--s3-endpoint', this.#rig.backend.endpoint, '--s3-path-style'];
    const words = ['standby', 'follow', place, '--data', this.dataDir, '--every', '100ms'];
    this.#child = spawn(process.execPath, [main, ...words, ...where], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: this.#env(),
    });
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#told += text;
    });
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((done) => child.once('close', done));
    child.kill('SIGKILL');
    await ended;
  }

  async status() {
    const { code, stdout } = await this.run(['standby', 'show', '--json'], []);
    return code === 0 ? JSON.parse(stdout) : null;
  }

  /** Waits until it has all that had been shipped. */
  async untilFollowed(): Promise<void> {
    const sinceMs = Date.now();
    const isFollowed = async () => {
      const askedMs = Date.now();
      const status = await this.status();
      return status?.segment && askedMs - status.secondsBehind * 1000 > sinceMs;
    };
    await vi.waitUntil(isFollowed, { timeout: waitMsMax, interval: 200 });
  }

  run(words: string[], flags = this.#storeFlags(), killAt?: string) {
    const all = [main, ...words, '--data', this.dataDir, ...flags];
    return new Promise<{ code: number; stdout: string; stderr: string }>((done) => {
      const child = execFile(process.execPath, all, { env: this.#env() }, (_, stdout, stderr) =>
        done({ code: child.exitCode ?? -1, stdout, stderr }),
      );
      if (killAt === undefined) return;
      child.stderr?.on('data', (text: string) => {
        if (text.includes(killAt)) child.kill('SIGKILL');
      });
    });
  }

  promote(killAt?: string) {
    return this.run(['standby', 'promote', '--json'], this.#storeFlags(), killAt);
  }

  async serve(): Promise<S3Client> {
    const { dataDir } = this;
    const env = this.#env();
    this.gateway = await startServedGateway({ dataDir, args: this.#storeFlags(), env });
    return new S3Client(this.gateway);
  }

  async remove(): Promise<void> {
    await this.kill();
    await this.gateway?.stop();
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  #storeFlags(): string[] {
    const { endpoint } = this.#rig.backend;
    return ['--store', 's3://backend/store', '--store-endpoint', endpoint, '--store-path-style'];
  }

  #env(): Record<string, string> {
    const { accessKeyId, secretAccessKey } = this.#rig.backend.credentials;
    return {
      ...bareEnvironment(),
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
      AWS_EC2_METADATA_DISABLED: 'true',
      ...this.#environment,
    };
  }
}
