// What accounts may use, against the records that set it. Invariant: of tokens nothing is compared,
// whose limits are in their links, as they were signed.
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import { parseJson } from '../../core/json.ts';
import { accountScope } from '../../core/seals/sealed-tables.ts';
import { ComparedThings, type Comparison, type Row } from './compared-things.ts';
import type { Staging } from './staging.ts';
import { walkTable } from './table-walk.ts';

const actions = new Set(['bursar:PutLimit', 'bursar:DeleteLimit', 'bursar:RestoreLimits']);

export class DeepLimits {
  readonly #things: ComparedThings;

  constructor(staging: Staging) {
    this.#things = new ComparedThings(
      staging,
      'limits of',
      (account) => accountScope(account)?.tenant,
    );
  }

  async visit(index: number, fields: RecordFields): Promise<void> {
    const { action, limits, target = '' } = fields;
    if (!isDone(fields) || !actions.has(action)) return;
    const [, account] = /^limits\/(.+)$/.exec(target) ?? [];
    if (account === undefined) return;
    if (limits) await this.#things.put(account, index, { amounts: limits });
    else await this.#things.delete(account);
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    await this.#things.compare(listLimits(read), comparison);
  }
}

async function* listLimits(read: Reader): AsyncGenerator<Row> {
  const rows = walkTable<{ account: string; limits: string }>(read, {
    columns: 'account, limits',
    from: 'quota_accounts',
    where: "limits IS NOT NULL AND account NOT LIKE 'token:%'",
    keys: ['account'],
  });
  for await (const { account, limits } of rows) {
    yield { id: String(account), members: { amounts: parseJson(limits) ?? null } };
  }
}
