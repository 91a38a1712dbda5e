// Why a request is refused whose sender is known: the credential was good, but may not be used any
// more, or not from there. It is thrown like any refusal, so nobody can forget to refuse, and says
// who asked, so that the refusal can be recorded.
import { type ErrorCode, Refusal, type RefusalDetail } from '../core/errors.ts';
import type { Identity } from './identity.ts';

export class RefusedUse extends Refusal {
  readonly who: Identity;

  constructor(who: Identity, code: ErrorCode, detail: RefusalDetail = {}) {
    super(code, detail);
    this.who = who;
  }
}
