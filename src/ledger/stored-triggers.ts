// The triggers that see what is stored come and go, and what they call. Each row of a version, held
// or not, and of a part counts for its key and its writer, as the sums of a count have them
// (stored-count.ts): both go by the table here of which rows count for how much.

/** Delete markers count for nothing, and neither do images, which share what a version keeps. */
export const countedRows = {
  versions: { when: 'NOT $.is_marker', objects: 1 },
  noncurrent_versions: { when: 'NOT $.is_marker', objects: 1 },
  held_versions: {
    when: 'NOT $.is_marker AND NOT $.is_image AND $.held_mac IS NOT NULL',
    objects: 0,
  },
};

/** What a row of a version says that is not the bucket's owner wrote it; null: nobody. */
export const namedWriter = (row: string) => `CASE WHEN instr(${row}.attributes, '"writer":"') > 0
  AND json_valid(${row}.attributes) THEN json_extract(${row}.attributes, '$.writer') END`;

export const prefixTriggers = triggersOf('stored', {
  ofVersion: (row, sign, objects) =>
    `SELECT bursar_stored(id, tenant, name, ${row}.key, ${sign}${row}.size, ${sign}${objects})
       FROM main.buckets WHERE id = ${row}.bucket_id`,
  ofPart: (row, sign) =>
    `SELECT bursar_stored(b.id, b.tenant, b.name, u.key, ${sign}${row}.size, 0)
       FROM main.uploads AS u JOIN main.buckets AS b ON b.id = u.bucket_id
       WHERE u.id = ${row}.upload_id`,
});

const rowsOfWriters = triggersOf('written', {
  ofVersion: (row, sign, objects) =>
    `SELECT bursar_written(id, tenant, name, ${row}.key,
         ifnull(${namedWriter(row)}, tenant || '/' || ${row}.owner),
         ${sign}${row}.size, ${sign}${objects})
       FROM main.buckets WHERE id = ${row}.bucket_id`,
  ofPart: (row, sign) =>
    `SELECT bursar_written(b.id, b.tenant, b.name, u.key, u.initiator, ${sign}${row}.size, 0)
       FROM main.uploads AS u JOIN main.buckets AS b ON b.id = u.bucket_id
       WHERE u.id = ${row}.upload_id`,
});

/** An upload that is given to somebody else is theirs with the parts that it has. */
const givenUploads = ['old', 'new'].map(
  (row) => `CREATE TEMP TRIGGER IF NOT EXISTS written_uploads_${row}
    AFTER UPDATE OF initiator ON main.uploads BEGIN
      SELECT bursar_written(b.id, b.tenant, b.name, new.key, ${row}.initiator,
          ${row === 'old' ? '-' : ''}p.size, 0)
        FROM main.parts AS p JOIN main.buckets AS b ON b.id = new.bucket_id
        WHERE p.upload_id = new.id;
    END;`,
);

export const writerTriggers = [rowsOfWriters, ...givenUploads].join('\n');

interface Counting {
  ofVersion(row: string, sign: string, objects: number): string;
  ofPart(row: string, sign: string): string;
}

function triggersOf(name: string, { ofVersion, ofPart }: Counting): string {
  const versions = Object.entries(countedRows).flatMap(([table, { when, objects }]) =>
    bothWays(name, table, when, (row, sign) => ofVersion(row, sign, objects)),
  );
  return [...versions, ...bothWays(name, 'parts', 'TRUE', ofPart)].join('\n');
}

function bothWays(
  name: string,
  table: string,
  when: string,
  select: (row: string, sign: string) => string,
): string[] {
  return (
    [
      ['INSERT', 'new', ''],
      ['DELETE', 'old', '-'],
    ] as const
  ).map(
    ([event, row, sign]) =>
      `CREATE TEMP TRIGGER IF NOT EXISTS ${name}_${table}_${row} AFTER ${event} ON main.${table}
         WHEN ${when.replaceAll('$', row)} BEGIN ${select(row, sign)}; END;`,
  );
}
