// What FindObjects answers, as the description of the API shows it and commands read it.
import { answerObject, integer, type Json, next, text, textOrNull } from '../native/schemas.ts';

const texts = { type: 'object', additionalProperties: { type: 'string' } } as const;

const foundObject = answerObject({
  key: text('The key.'),
  size: integer('Bytes.'),
  etag: text('The entity tag, without quotes.'),
  sha256: textOrNull('Of all of it, hexadecimal; null of what was uploaded in parts.'),
  class: text('Storage class.'),
  type: textOrNull('`content-type`'),
  modified: { type: 'string', format: 'date-time' },
  versionId: textOrNull('null: the bucket does not keep versions, or did not then.'),
  index: integer('Log index of the record that made it: its receipt.'),
  metadata: { ...texts, description: 'User metadata.' },
});

export const foundObjects = answerObject({
  objects: {
    type: 'array',
    description: 'In the order of keys; absent with `form=totals`. `tags` where the query has any.',
    items: foundObject,
  },
  count: integer('Objects of this page.'),
  bytes: integer('Their sizes together.'),
  looked: integer(
    'Objects looked at for this page that the caller may read; where the index led, that fit.',
  ),
  next,
});

export type FoundObject = Json<typeof foundObject> & { tags?: Record<string, string> };

/** A run of the index, as `explain=true` shows it. */
export interface ExplainedRun {
  field: string;
  kind: string;
  low: string | number | null;
  high: string | number | null;
}

export interface FoundObjects {
  objects: FoundObject[];
  count: number;
  bytes: number;
  looked: number;
  next: string | null;
  plan: { any: ExplainedRun[] | null; all: ExplainedRun[] };
}

export const findQuery = {
  where: text('What objects must fit: docs/formats/query.md.'),
  prefix: text('Only keys that begin so.'),
  after: text('The `next` of the page before.'),
  limit: text('Objects a page at most, 1 to 1000; 1000 if absent.'),
  form: text('`totals`: only how many they are, and their size.'),
  explain: text('`true`: also which runs of the index lead to them; `any` null: none.'),
};
