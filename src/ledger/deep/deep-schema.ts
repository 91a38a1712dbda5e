// What the database consists of. Invariant: tables and indexes are those that its history says, and
// there is nothing in it that acts or shows by itself: a gateway has its triggers in memory.
import type { Reader } from '../../core/database.ts';
import { digestSchema } from '../migrations/schema-state.ts';
import { schemaVersion } from '../migrations/steps.ts';
import type { Comparison } from './compared-things.ts';

export class DeepSchema {
  visit(): void {}

  async finish(read: Reader, { tell }: Comparison): Promise<void> {
    const strange = await read.all<{ type: string; name: string }>(
      "SELECT type, name FROM sqlite_schema WHERE type NOT IN ('table', 'index')",
    );
    for (const { type, name } of strange)
      tell({ where: `${type} ${name}`, what: 'no gateway made it' });
    const last = await read.get<{ schema: unknown; digest: unknown }>(
      'SELECT schema, digest_after AS digest FROM schema_history ORDER BY schema DESC LIMIT 1',
    );
    const isSaid = last?.schema === schemaVersion && last.digest === (await digestSchema(read));
    if (isSaid) return;
    tell({ where: 'tables of the database', what: 'they are not those that its history says' });
  }
}
