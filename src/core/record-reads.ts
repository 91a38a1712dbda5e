// When the record of a read is written, and whether each read has one of its own. A bucket's word
// goes before its tenant's. Specification: docs/admin/record-reads.md.

export const recordReadsModes = [
  /** Within 100 ms after the read has ended. */
  'prompt',
  /** Before the last byte is sent. */
  'strict',
  /** Like `prompt`, but the reads of an object by anybody become one record a minute. */
  'aggregate',
] as const;
export type RecordReads = (typeof recordReadsModes)[number];

export const recordReadsDefault: RecordReads = 'prompt';
