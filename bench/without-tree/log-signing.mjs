// ledger/log-signing.ts that signs once, so that the gateway serves, and never again.
import { LogSigning as Signing } from '#bursar/ledger/log-signing.js';

export { signerOf } from '#bursar/ledger/log-signing.js';

export class LogSigning extends Signing {
  #isDone = false;

  sign(log, timeMs) {
    if (this.#isDone) return null;
    const note = super.sign(log, timeMs);
    this.#isDone = note !== null;
    return note;
  }
}
