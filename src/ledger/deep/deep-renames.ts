// Client tokens of renames, against the records of these. A token is forgotten after seven days.
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import { isObject } from '../../core/json.ts';
import { renameTokenKeptMs } from '../../core/limits.ts';
import { ComparedThings, type Comparison, type Row, walkTable } from './compared-things.ts';
import type { Staging } from './staging.ts';

export class DeepRenames {
  /** By the index of the record. */
  readonly #things: ComparedThings;

  constructor(staging: Staging) {
    this.#things = new ComparedThings(staging, 'client token of rename');
  }

  async visit(index: number, fields: RecordFields): Promise<void> {
    const { action, version, change, time } = fields;
    if (!isDone(fields) || action !== 's3:RenameObject' || version !== index) return;
    const token = change?.clientToken;
    if (!isObject(token)) return;
    const { id, request } = token;
    await this.#things.put(`${index}`, index, { id, request, madeMs: Date.parse(time) });
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    const forgottenMs = Date.now() - renameTokenKeptMs;
    await this.#things.compare(
      listTokens(read),
      comparison,
      (_, { members }) => (members.madeMs as number) < forgottenMs,
    );
  }
}

async function* listTokens(read: Reader): AsyncGenerator<Row> {
  const rows = walkTable<Record<string, unknown>>(read, {
    columns: 'seq, lower(hex(id)) AS id, lower(hex(request)) AS request, made_ms AS madeMs',
    from: 'rename_tokens',
    keys: ['bucket_id', 'id'],
  });
  for await (const { seq, ...members } of rows) yield { id: String(seq), members };
}
