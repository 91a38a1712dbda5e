// Commands of the keys that sign the log.
import { renderVerifier } from '../../audit/log/note.ts';
import { unchanged } from '../../catalog/outcome.ts';
import { isoTime } from '../../core/clock.ts';
import { type LogKey, signerOf } from '../log-signing.ts';
import type { Command } from './command.ts';

export interface RotateLogKey {
  kind: 'rotateLogKey';
  key: LogKey;
  /** Until when those of before sign. */
  retireMs: number;
}

/**
 * Signs the log with another key, which is durable in its file already. Those of before sign for a
 * while besides.
 */
export const rotateLogKey: Command<RotateLogKey> = {
  apply: async (tx, change, { signing, seq, timeMs }) => {
    await signing.rotate(tx, change, { fromSize: seq + 1, timeMs });
    return unchanged;
  },
  takesFrom: null,
  told: null,
  account: ({ key, retireMs }) => ({
    verifier: renderVerifier(signerOf(key).key),
    othersSignUntil: isoTime(retireMs),
  }),
  // Only the ledger's thread signs the log; others read which keys did.
  causes: null,
};

export interface RevokeLogKey {
  kind: 'revokeLogKey';
  id: string;
}

/** Refuses a key of the log from now on. */
export const revokeLogKey: Command<RevokeLogKey> = {
  apply: async (tx, { id }, { signing, timeMs }) => {
    const revoked = await signing.revoke(tx, id, timeMs);
    if (revoked) return unchanged;
    return { ok: false, code: revoked === undefined ? 'NotFound' : 'InUse' };
  },
  takesFrom: null,
  told: null,
  account: ({ id }) => ({ keyId: id }),
  // Only the ledger's thread signs the log; others read which keys did.
  causes: null,
};
