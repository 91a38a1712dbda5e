// Every row that says who there is, who may what and how much is sealed: as it is found, since
// nothing was there to verify it by but the secrets of access keys, which open for their own
// principals only.
import type { SqlValue, Tx } from '../../core/database.ts';
import { KeyedMessage } from '../../core/keyed-message.ts';
import type { Keyring } from '../../core/keyring.ts';
import { Sealer } from '../../core/sealing.ts';
import { DigestBlocks, digestBytes } from '../../core/seals/row-seal.ts';
import { SealHeads } from '../../core/seals/seal-heads.ts';
import type { Migration } from './migration.ts';

type Type = 'text' | 'number' | 'bytes';

/** As they are in schema 10: tenant, name of the row, then each field with its type. */
const tables: [name: string, tenant: string, row: string, fields: string][] = [
  [
    ...(['tenants', 'name', "''"] as const),
    'name default_store record_reads members_create_buckets:number created_ms:number',
  ],
  ['retired_tenants', 'name', "''", 'name'],
  ['principals', 'tenant', 'name', 'tenant name kind role created_ms:number active:number'],
  ['groups', 'tenant', 'name', 'tenant name created_ms:number'],
  ['group_members', 'tenant', "principal || '/' || group_name", 'tenant group_name principal'],
  [
    ...(['access_keys', 'tenant', "principal || '/' || id"] as const),
    'id tenant principal sealed_secret:bytes thumbprint created_ms:number active:number',
  ],
  ['retired_names', 'tenant', "kind || '/' || name", 'tenant kind name'],
  [
    ...(['public_keys', 'tenant', "principal || '/' || thumbprint"] as const),
    'thumbprint tenant principal jwk purpose proof created_ms:number active:number ' +
      'enrolled_seq:number',
  ],
  ['grants', 'tenant', 'name', 'tenant name rule created_ms:number'],
  ['mounts', 'tenant', 'name', 'tenant name bucket_tenant bucket created_ms:number'],
  ['issuers', 'tenant', 'name', 'tenant name url audience mapping created_ms:number'],
  [
    ...(['tokens', 'tenant', "principal || '/' || id"] as const),
    'id kind parent tenant principal access_key details created_ms:number expires_ms:number ' +
      "iif(kind='share',uses,NULL):number uses_max:number secret_hash:bytes",
  ],
  [
    ...(['revocations', 'tenant', "principal || '/' || id"] as const),
    'id tenant principal revoked_ms:number expires_ms:number',
  ],
  [
    ...(['buckets', 'tenant', 'name'] as const),
    'id:number tenant name owner created_ms:number store:number policy record_reads versioning ' +
      'object_lock public_access ownership',
  ],
  [
    'bucket_settings',
    "ifnull((SELECT b.tenant FROM buckets AS b WHERE b.id = bucket_id), '')",
    "ifnull((SELECT b.name FROM buckets AS b WHERE b.id = bucket_id), bucket_id) || '/' || name",
    'bucket_id:number name document',
  ],
  [
    'quota_accounts',
    `CASE WHEN substr(account, 1, 6) = 'token:' THEN ifnull(token_tenant, '')
       WHEN substr(account, 1, 6) = 'store:' THEN ''
       WHEN instr(account, '/') > 0 THEN substr(account, instr(account, ':') + 1,
         instr(account, '/') - instr(account, ':') - 1)
       ELSE substr(account, instr(account, ':') + 1) END`,
    'account',
    'account limits token_tenant token_principal token_expires_ms:number',
  ],
  [
    ...(['alarm_hooks', "ifnull(tenant, '')", 'scope'] as const),
    'scope tenant url sealed_secret:bytes created_ms:number',
  ],
  [
    ...(['quota_storage_totals', "''", "market || '/' || class || '/' || month_ms"] as const),
    'market class month_ms:number byte_ms',
  ],
  ['stores', "''", 'name', 'number:number name location'],
];

const meters = ['spend', 'stored_bytes', 'stored_objects'];
const flows = ['ingress_bytes', 'egress_bytes', 'requests'];
const message = new KeyedMessage();

export const seals: Migration = {
  to: 10,
  what: 'rows of who there is, who may what and how much are sealed',
  run: async ({ tx, exec, define, keyring, onProgress }) => {
    exec(`
      CREATE TABLE seals (
        tbl TEXT NOT NULL,
        tenant TEXT NOT NULL,
        row TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        mac BLOB NOT NULL,
        PRIMARY KEY (tbl, tenant, row)
      ) WITHOUT ROWID;
      CREATE TABLE seal_heads (
        tenant TEXT PRIMARY KEY,
        digest BLOB NOT NULL
      ) WITHOUT ROWID;
      CREATE TABLE seal_roots (
        tenant TEXT PRIMARY KEY,
        epoch INTEGER NOT NULL,
        mac BLOB NOT NULL
      ) WITHOUT ROWID;
      ALTER TABLE quota_accounts ADD COLUMN epoch INTEGER;
      ALTER TABLE quota_accounts ADD COLUMN mac BLOB;
      ALTER TABLE quota_storage ADD COLUMN epoch INTEGER;
      ALTER TABLE quota_storage ADD COLUMN mac BLOB;
      ALTER TABLE records ADD COLUMN roots BLOB;
    `);
    await checkSecrets(tx, keyring);
    let done = 0;
    const epoch = keyring.currentEpoch;
    const blocks = new DigestBlocks(keyring);
    const digests = new Map<string, Uint8Array>();
    const types = new Map(tables.map(([name, , , fields]) => [name, typesOf(fields)]));
    define('bursar_first_seal', (name, tenant, ...values) => {
      message.begin(keyring.sealKey(epoch), 'bursar/seal/v1').text(name as string);
      for (const [i, type] of (types.get(name as string) ?? []).entries()) {
        message[type](values[i] as never);
      }
      const mac = message.mac();
      const digest = digests.get(tenant as string) ?? new Uint8Array(digestBytes);
      digests.set(tenant as string, digest);
      blocks.fold(digest, epoch, mac.subarray(0, digestBytes));
      done += 1;
      if (done % 10_000 === 0) onProgress(done);
      return mac;
    });
    for (const [name, tenant, row, fields] of tables) {
      const values = namesOf(fields).join(', ');
      const mac = `bursar_first_seal('${name}', ${tenant}, ${values})`;
      const sql = `INSERT INTO seals SELECT '${name}', ${tenant}, ${row}, ?, ${mac} FROM ${name}`;
      await tx.run(sql, epoch);
    }
    const heads = await SealHeads.read(tx, keyring);
    for (const [tenant, digest] of digests) await heads.change(tx, tenant, digest);
    await sealAccounts(tx, keyring);
    await sealLevels(tx, keyring);
  },
};

function namesOf(fields: string): string[] {
  return fields.split(' ').map((field) => field.split(':', 1)[0] as string);
}

function typesOf(fields: string): Type[] {
  return fields.split(' ').map((field) => (field.split(':')[1] ?? 'text') as Type);
}

/** A key that was given to another principal does not open. */
async function checkSecrets(tx: Tx, keyring: Keyring): Promise<void> {
  const sealer = new Sealer(keyring);
  const keys = await tx.all<{ id: string; tenant: string; principal: string; sealed: Buffer }>(
    `SELECT id, tenant, principal, sealed_secret AS sealed FROM access_keys
       WHERE sealed_secret IS NOT NULL`,
  );
  for (const { id, tenant, principal, sealed } of keys) {
    try {
      sealer.open(sealed, `access-key:${tenant}/${principal}/${id}`);
    } catch (cause) {
      throw new Error(`access key ${id} of ${tenant}/${principal} is not what was stored`, {
        cause,
      });
    }
  }
}

async function sealAccounts(tx: Tx, keyring: Keyring): Promise<void> {
  const columns = (alias: string, names: readonly string[]) =>
    names.map((name) => `CAST(${alias}.${name} AS TEXT) AS ${alias}_${name}`);
  const used = [...meters, ...flows].map((name) => `used_${name}`);
  const lost = ['spend', ...flows].map((name) => `lost_${name}`);
  const ofWindow = [...['spend', ...flows].map((name) => `used_${name}`), ...lost];
  const sql = `SELECT a.account, a.limits, a.told, a.token_tenant, a.token_principal,
      CAST(a.token_expires_ms AS TEXT) AS token_expires_ms, a.leases, w.window,
      CAST(w.begin_ms AS TEXT) AS begin_ms, ${columns('a', [...used, ...lost]).join(', ')},
      ${columns('w', ofWindow).join(', ')}
    FROM quota_accounts AS a LEFT JOIN quota_windows AS w ON w.account = a.account
    WHERE a.account = ?`;
  const accounts = await tx.all<{ account: string }>('SELECT account FROM quota_accounts');
  for (const { account } of accounts) {
    const rows = await tx.all<Record<string, string | null>>(sql, account);
    const row = rows[0] as Record<string, SqlValue>;
    const marks = ['minute', 'hour', 'day', 'month'].flatMap((window) => {
      const mark = rows.find((one) => one.window === window);
      const amounts = ofWindow.map((name) => mark?.[`w_${name}`] ?? '0');
      return [mark?.begin_ms ?? '0', ...amounts];
    });
    const epoch = keyring.currentEpoch;
    message.begin(keyring.sealKey(epoch), 'bursar/account/v1').text(account);
    const about = ['limits', 'told', 'token_tenant', 'token_principal', 'token_expires_ms'];
    const amounts = [...used, ...lost].map((name) => `a_${name}`);
    for (const name of [...about, ...amounts, 'leases']) message.text(row[name] as string | null);
    const mac = message.text(marks.join(' ')).mac();
    const set = 'UPDATE quota_accounts SET epoch = ?, mac = ? WHERE account = ?';
    await tx.run(set, epoch, mac, account);
  }
}

async function sealLevels(tx: Tx, keyring: Keyring): Promise<void> {
  const columns = ['billed_bytes', 'at_ms', 'charged_ms', 'due'];
  const texts = columns.map((column) => `CAST(${column} AS TEXT) AS ${column}`).join(', ');
  const levels = await tx.all<Record<string, string>>(
    `SELECT tenant, bucket, class, ${texts} FROM quota_storage`,
  );
  const epoch = keyring.currentEpoch;
  for (const level of levels) {
    const place = ['tenant', 'bucket', 'class'].map((column) => level[column] as string);
    message.begin(keyring.sealKey(epoch), 'bursar/level/v1').text(place.join('/'));
    message.text(columns.map((column) => level[column]).join(' '));
    const at = 'tenant = ? AND bucket = ? AND class = ?';
    const set = `UPDATE quota_storage SET epoch = ?, mac = ? WHERE ${at}`;
    await tx.run(set, epoch, message.mac(), ...place);
  }
}
