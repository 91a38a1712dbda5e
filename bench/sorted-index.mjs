// An index of very many objects, filled in the order of its pages by a few statements of SQL, since
// its own writer goes over them one by one. It has what the writer would have made of the
// objects that `objectAt` gives, which is verified of some; but its pages are full.
import { openDatabase } from '#bursar/core/database.js';
import { ObjectIndexWriter } from '#bursar/search/object-index.js';

const key = `'run' || (i % 97) || '/2026/file-' || i || '.root'`;
const asNumber = (of) => `CAST(${of} AS REAL)`;

/** SQL of the value of each field in object `i`; `isInOrder`: it grows with `i`. */
function valuesOf(size, widths) {
  const values = new Map([
    ['size number', { value: asNumber('i'), isInOrder: true }],
    ['modified time', { value: asNumber('1700000000000 + i'), isInOrder: true }],
    ['class text', { value: `'STANDARD'`, isOne: true }],
    ['type text', { value: `'x/y'`, isOne: true }],
    ['owner text', { value: `'admin'`, isOne: true }],
    ['etag text', { value: `printf('%032x', i)`, isInOrder: true }],
    ['meta.run text', { value: 'CAST(i AS TEXT)' }],
    ['meta.run number', { value: asNumber('i'), isInOrder: true }],
    [
      'meta.taken text',
      {
        value: `strftime('%Y-%m-%dT%H:%M:%S.000Z', 1700000000 + i * 60, 'unixepoch')`,
        isInOrder: true,
      },
    ],
    ['meta.taken time', { value: asNumber('1700000000000 + i * 60000'), isInOrder: true }],
  ]);
  for (const width of widths) {
    const of = `(i % ${Math.max(size / width, 1)})`;
    values.set(`tag.of${width} text`, { value: `CAST(${of} AS TEXT)` });
    values.set(`tag.of${width} number`, { value: asNumber(of) });
  }
  return values;
}

/** Fills the index at `path`; `say` is told how far it is. */
export async function fillSorted(path, { size, widths, objectAt, say }) {
  const open = () => ObjectIndexWriter.open(path, 'all', async () => true);
  const begun = await open();
  await begun.write(async () => {
    const version = objectAt(0, size);
    await begun.put([{ bucketId: version.bucketId, key: version.key, version }]);
    return { through: 0, commitment: null, scan: null };
  });
  begun.close();

  const db = openDatabase(path, { readonly: false, cacheKib: 512 * 1024, isDerived: true });
  db.exec('PRAGMA journal_mode = DELETE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF');
  db.exec('PRAGMA temp_store = FILE');
  const [{ postings }] = await db.tx.all('SELECT postings FROM objects');
  const fields = await db.tx.all(`SELECT id, field || ' ' || kind AS name FROM fields ORDER BY id`);
  const values = valuesOf(size, widths);
  if (fields.length !== values.size) throw new Error('fields of the index are not known here');
  const named = new Map(fields.map(({ id, name }) => [id, values.get(name)]));
  db.exec('DELETE FROM objects; DELETE FROM postings');
  const all = `WITH RECURSIVE numbers(i) AS
    (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < ${size})`;
  const written = JSON.parse(postings).map(([id, value]) => {
    const sql = named.get(id).value;
    const shown = typeof value === 'number' ? `CAST(${sql} AS INTEGER)` : `json_quote(${sql})`;
    return `'[${id},' || ${shown} || ']'`;
  });
  say('objects');
  db.exec(`INSERT INTO objects ${all} SELECT 1, ${key} AS key, '[' || ${written.join(` || ',' || `)}
    || ']' FROM numbers ORDER BY key`);
  for (const { id, name } of fields) {
    say(name);
    const { value, isInOrder, isOne } = values.get(name);
    if (isOne) {
      db.exec(`INSERT INTO postings SELECT ${id}, ${value}, key FROM objects ORDER BY key`);
      continue;
    }
    const order = isInOrder ? '' : 'ORDER BY 2, 3';
    db.exec(`INSERT INTO postings ${all} SELECT ${id}, ${value}, ${key} FROM numbers ${order}`);
  }
  db.exec('PRAGMA journal_mode = WAL');
  db.close();

  const filled = await open();
  for (let at = 0; at < size; at += Math.ceil(size / 1000)) {
    if (!(await filled.leadsTo(objectAt(at, size))))
      throw new Error(`object ${at} is not as it is`);
  }
  filled.close();
}
