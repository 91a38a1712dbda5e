// Commands of the gateway itself: its root keys, the keys that sign its log, its clock and its
// records.

import {
  type EraseRecords as Erasure,
  eraseRecords as eraseRecordRows,
} from '../../audit/erasure.ts';
import { renderVerifier } from '../../audit/log/note.ts';
import { unchanged } from '../../catalog/outcome.ts';
import { isoTime } from '../../core/clock.ts';
import type { RootKey } from '../../core/keyring.ts';
import { nextUnsummed } from '../../quota/roll-up/usage-days.ts';
import { noteRootKey } from '../key-epochs.ts';
import { type LogKey, signerOf } from '../log-signing.ts';
import type { Command } from './command.ts';

export interface AddRootKey {
  kind: 'addRootKey';
  key: RootKey;
}

export const addRootKey: Command<AddRootKey> = {
  apply: async (tx, { key }, { keyring }) => {
    await noteRootKey(tx, keyring, key);
    return unchanged;
  },
  takesFrom: null,
  told: null,
  account: ({ key }) => ({ epoch: key.epoch }),
  causes: ({ key: { epoch } }) => [{ kind: 'rootKey', epoch }],
};

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

// Confirms that the system's clock is right, however far it stepped. The ledger confirms it before
// the record of this command gets its time.

/** A slice of a drill, which hides or shows what is in a store, behind the commit. */
export interface DrillStore {
  kind: 'drillStore';
  /** What is hidden, decimal, and by which seed; null: all is shown again. */
  lose: string | null;
  seed: number | null;
  after: string;
}

export const drillStore: Command<DrillStore> = {
  apply: async () => unchanged,
  takesFrom: null,
  told: null,
  account: ({ lose, seed, after }) =>
    lose === null ? { undo: true, after } : { lose, seed, after },
  causes: null,
};

export interface ConfirmClock {
  kind: 'confirmClock';
  stepMs: number;
}

export const confirmClock: Command<ConfirmClock> = {
  apply: async () => unchanged,
  takesFrom: null,
  told: null,
  account: ({ stepMs }) => ({ stepMs }),
  causes: () => [{ kind: 'clock' }],
};

// Erases what records say. That there were such records remains.

export interface EraseRecords extends Erasure {
  kind: 'eraseRecords';
  reason: string;
}

export const eraseRecords: Command<EraseRecords> = {
  apply: async (tx, erasure, { seq }) => {
    const summedEnd = await nextUnsummed(tx);
    const fault = await eraseRecordRows(tx, erasure, { byIndex: seq, summedEnd });
    if (!fault) return unchanged;
    return { ok: false, code: fault.code, fields: { message: fault.message } };
  },
  takesFrom: null,
  told: null,
  account: ({ indexes, reason }) => ({ erased: indexes, reason }),
  // Records are read where they are asked for.
  causes: null,
};

// Changes nothing. It commits a record, and what is charged for it.

export interface None {
  kind: 'none';
}

export const none: Command<None> = {
  apply: async () => unchanged,
  takesFrom: null,
  told: null,
  account: null,
  causes: null,
};
