// What an inventory says of each object, as rows of S3's form: its columns, and how a file of them
// is written. Pure. Specification: "Amazon S3 Inventory list" of the user guide.
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { ByteWriter, type ColumnSource, ParquetWriter, type SchemaElement } from 'hyparquet-writer';
import type { InventoryConfig, InventoryField } from '../../catalog/inventory.ts';

/** An object or version as a listing tells of it. */
export interface Listed {
  key: string;
  versionId: string | undefined;
  isLatest: boolean;
  isDeleteMarker: boolean;
  size: number | undefined;
  modified: Date | undefined;
  etag: string | undefined;
  storageClass: string | undefined;
  checksumAlgorithm: string | undefined;
  owner: string | undefined;
}

type Value = string | number | boolean | Date | undefined;

interface Column {
  /** As CSV calls it, and as Parquet does. */
  csv: string;
  parquet: string;
  type: 'text' | 'number' | 'flag' | 'time';
  isRequired?: true;
  of(row: Listed, bucket: string): Value;
}

const whole: readonly Column[] = [
  { csv: 'Bucket', parquet: 'bucket', type: 'text', isRequired: true, of: (_, bucket) => bucket },
  { csv: 'Key', parquet: 'key', type: 'text', isRequired: true, of: ({ key }) => key },
];
const ofVersions: readonly Column[] = [
  { csv: 'VersionId', parquet: 'version_id', type: 'text', of: ({ versionId }) => versionId },
  { csv: 'IsLatest', parquet: 'is_latest', type: 'flag', of: ({ isLatest }) => isLatest },
  {
    ...{ csv: 'IsDeleteMarker', parquet: 'is_delete_marker', type: 'flag' },
    of: ({ isDeleteMarker }) => isDeleteMarker,
  },
];
/** What never is here has empty values, as in S3 where it is not. */
const optional: Readonly<Record<InventoryField, Omit<Column, 'csv'>>> = {
  Size: { parquet: 'size', type: 'number', of: ({ size }) => size },
  LastModifiedDate: {
    ...{ parquet: 'last_modified_date', type: 'time', of: ({ modified }) => modified },
  },
  ETag: { parquet: 'e_tag', type: 'text', of: ({ etag }) => etag },
  StorageClass: {
    ...{ parquet: 'storage_class', type: 'text', of: ({ storageClass }) => storageClass },
  },
  IsMultipartUploaded: {
    ...{ parquet: 'is_multipart_uploaded', type: 'flag' },
    of: ({ etag }) => etag?.includes('-'),
  },
  ReplicationStatus: { parquet: 'replication_status', type: 'text', of: () => undefined },
  IntelligentTieringAccessTier: {
    ...{ parquet: 'intelligent_tiering_access_tier', type: 'text', of: () => undefined },
  },
  ChecksumAlgorithm: {
    ...{ parquet: 'checksum_algorithm', type: 'text' },
    of: ({ checksumAlgorithm }) => checksumAlgorithm,
  },
  ObjectOwner: { parquet: 'object_owner', type: 'text', of: ({ owner }) => owner },
};

export class InventoryForm {
  readonly #columns: readonly Column[];
  readonly #bucket: string;
  readonly format: InventoryConfig['format'];

  constructor({ fields, versions, format }: InventoryConfig, bucket: string) {
    this.#bucket = bucket;
    this.format = format;
    this.#columns = [
      ...whole,
      ...(versions === 'All' ? ofVersions : []),
      ...fields.map((csv) => ({ csv, ...optional[csv] })),
    ];
  }

  /** `fileSchema` of the manifest. */
  get schema(): string {
    if (this.format === 'CSV') return this.#columns.map(({ csv }) => csv).join(', ');
    const types = { text: 'binary', number: 'int64', flag: 'boolean', time: 'int64' };
    const notes = { text: ' (STRING)', time: ' (TIMESTAMP(MILLIS,true))', number: '', flag: '' };
    const fields = this.#columns.map(({ parquet, type, isRequired }) => {
      const repetition = isRequired ? 'required' : 'optional';
      return `${repetition} ${types[type]} ${parquet}${notes[type]};`;
    });
    return `message s3.inventory { ${fields.join(' ')} }`;
  }

  /** What the names of its files end with. */
  get ending(): string {
    return this.format === 'CSV' ? 'csv.gz' : 'parquet';
  }

  /** A file of these rows. */
  async render(rows: readonly Listed[]): Promise<Buffer> {
    return this.format === 'CSV' ? this.#csv(rows) : this.#parquet(rows);
  }

  async #csv(rows: readonly Listed[]): Promise<Buffer> {
    const lines = rows.map((row) =>
      this.#columns.map((column) => quoted(this.#csvValue(column, row))).join(','),
    );
    return promisify(gzip)(lines.map((line) => `${line}\n`).join(''));
  }

  #csvValue({ csv, of }: Column, row: Listed): string {
    const value = of(row, this.#bucket);
    // Keys are encoded as in S3's own, so that no line breaks.
    if (csv === 'Key') return encodeURIComponent(row.key).replaceAll('%2F', '/');
    if (value === undefined) return '';
    return value instanceof Date ? value.toISOString() : String(value);
  }

  #parquet(rows: readonly Listed[]): Buffer {
    const schema: SchemaElement[] = [
      { name: 's3.inventory', num_children: this.#columns.length },
      ...this.#columns.map(elementOf),
    ];
    const writer = new ByteWriter();
    const file = new ParquetWriter({ writer, schema, createdBy: 'bursar' });
    const columnData = this.#columns.map((column): ColumnSource => {
      const data = rows.map((row) => parquetValue(column.of(row, this.#bucket)));
      return { name: column.parquet, data };
    });
    file.write({ columnData });
    file.finish();
    return Buffer.from(writer.getBuffer());
  }
}

function quoted(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}

function elementOf({ parquet: name, type, isRequired }: Column): SchemaElement {
  const repetition_type = isRequired ? 'REQUIRED' : 'OPTIONAL';
  switch (type) {
    case 'text':
      return { name, type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type };
    case 'number':
      return { name, type: 'INT64', repetition_type };
    case 'flag':
      return { name, type: 'BOOLEAN', repetition_type };
    case 'time':
      return { name, type: 'INT64', converted_type: 'TIMESTAMP_MILLIS', repetition_type };
  }
}

function parquetValue(value: Value): unknown {
  return typeof value === 'number' ? BigInt(value) : (value ?? null);
}
