// Whom records name for a request: who asked, and by what they proved it.
import type { RecordActor } from '../audit/record-draft.ts';
import type { Identity } from '../authz/identity.ts';

type Known = Pick<
  Identity,
  'principal' | 'accessKeyId' | 'keyThumbprint' | 'delegation' | 'evidence'
>;

/** `tenant`: in which they asked, where that is not their own. */
export function actorOf(who: Known, tenant = who.principal.tenant): RecordActor {
  return {
    tenant,
    principal: who.principal.name,
    accessKeyId: who.accessKeyId,
    keyThumbprint: who.keyThumbprint,
    tokens: who.delegation?.ids ?? null,
    evidence: who.evidence,
  };
}
