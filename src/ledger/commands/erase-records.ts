// Erases what records say. That there were such records remains.
import {
  type EraseRecords as Erasure,
  eraseRecords as eraseRecordRows,
} from '../../audit/erasure.ts';
import { unchanged } from '../../catalog/outcome.ts';
import { nextUnsummed } from '../../quota/roll-up/usage-days.ts';
import type { Command } from './command.ts';

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
