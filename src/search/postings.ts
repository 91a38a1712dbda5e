// What the index has of an object: a posting for each value by which it is found. Pure.
import { type Described, Facts } from './facts.ts';
import { indexed, type ValueKind } from './plan.ts';
import { type FieldName, numberOf, objectFields, timeOf } from './query.ts';

/** `[field, kind, value]` */
export type Posting = readonly [field: FieldName, kind: ValueKind, value: string | number];

/** Which names of metadata are indexed: all, or these. */
export type IndexedMetadata = 'all' | readonly string[];

/** Is an object found by this field? Whether its values lead to all objects that have it. */
export function isIndexed(field: FieldName, metadata: IndexedMetadata): boolean {
  if (!field.startsWith('meta.') || metadata === 'all') return true;
  return metadata.includes(field.slice('meta.'.length));
}

/** What an object is found by. S3 bounds how much metadata and how many tags one has. */
export function postingsOf(version: Described, metadata: IndexedMetadata): Posting[] {
  const facts = new Facts(version);
  const postings: Posting[] = [];
  for (const field of objectFields.keys()) {
    const value = facts.valueOf(field);
    if (field === 'key' || value === undefined) continue;
    if (typeof value === 'string') postings.push([field, 'text', indexed(value)]);
    else postings.push([field, field === 'size' ? 'number' : 'time', value]);
  }
  for (const [field, value] of facts.named) {
    if (!isIndexed(field, metadata)) continue;
    postings.push([field, 'text', indexed(value)]);
    const number = numberOf(value);
    if (number !== null) postings.push([field, 'number', number]);
    const time = timeOf(value);
    if (time !== null) postings.push([field, 'time', time]);
  }
  return postings;
}
