// audit/record-log.ts without salts, commitments, leaves and tree: the records alone.
import { renderRecord } from '#bursar/audit/record.js';
import { writeRoots } from '#bursar/audit/record-log.js';

export { readPseudonym, writeRoots } from '#bursar/audit/record-log.js';

const none = Buffer.alloc(0);

export class RecordLog {
  #tx;

  static async open(tx) {
    const log = new RecordLog();
    log.#tx = tx;
    await log.discard();
    return log;
  }

  root() {
    return Buffer.alloc(32);
  }

  async append(draft, seal) {
    this.size += 1;
    await this.#tx.run(
      'INSERT INTO records VALUES (?, ?, ?, ?, ?, NULL, ?, NULL)',
      seal.index,
      seal.timeMs,
      draft.tenant,
      draft.bucketTenant || null,
      none,
      renderRecord(draft, seal),
    );
  }

  get isHeld() {
    return false;
  }

  async write() {}

  setRoots(roots) {
    return writeRoots(this.#tx, this.size - 1, roots);
  }

  async flush() {}

  async discard() {
    const newest = await this.#tx.get('SELECT max(idx) AS idx FROM records');
    this.size = (newest?.idx ?? -1) + 1;
  }
}
