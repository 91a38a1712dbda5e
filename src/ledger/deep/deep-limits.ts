// What accounts may use, against the records that set it. Invariant: of tokens nothing is compared,
// whose limits are in their links, as they were signed.
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import { ComparedThings, type Comparison } from './compared-things.ts';

const actions = new Set(['bursar:PutLimit', 'bursar:DeleteLimit', 'bursar:RestoreLimits']);

export class DeepLimits {
  readonly #things = new ComparedThings('limits of');

  visit(index: number, fields: RecordFields): void {
    const { action, limits, target = '' } = fields;
    if (!isDone(fields) || !actions.has(action)) return;
    const [, account] = /^limits\/(.+)$/.exec(target) ?? [];
    if (account === undefined) return;
    if (limits) this.#things.put(account, index, { amounts: limits });
    else this.#things.delete(account);
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    const rows = await read.all<{ account: string; limits: string }>(
      `SELECT account, limits FROM quota_accounts
         WHERE limits IS NOT NULL AND account NOT LIKE 'token:%'`,
    );
    const shown = rows.map(({ account, limits }) => {
      return { id: account, members: { amounts: amountsOf(limits) } };
    });
    this.#things.compare(shown, comparison);
  }
}

/** null: it is no JSON, and what no record set. */
function amountsOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
