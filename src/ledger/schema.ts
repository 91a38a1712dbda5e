// The embedded database's tables, as a new database gets them. One file, so that a reader sees the
// whole state of a gateway. Older databases come to the same by the steps in `migrations/`: whoever
// changes what is below adds a step, and a test holds the outcome of both to be identical.
// `seq` and `idx` are the same number: the log index of the record that made the row.

import { alteredSchema } from '../audit/altered-records.ts';
import { archiveSchema } from '../audit/archive/archived-tiles.ts';
import { targetSchema } from '../audit/changes/targets.ts';
import { erasureSchema } from '../audit/erasure.ts';
import { evidenceSchema } from '../audit/evidence.ts';
import { cosignatureSchema } from '../audit/log/cosignatures.ts';
import { logKeySchema } from '../audit/log/log-keys.ts';
import { logSchema } from '../audit/log/stored-tiles.ts';
import { journalObjectSchema } from '../catalog/journal-objects.ts';
import { renameTokenSchema } from '../catalog/rename-tokens.ts';
import { uploadConflictSchema } from '../catalog/upload-conflicts.ts';
import { sealSchema } from '../core/seals/seal-triggers.ts';
import { accountSchema } from '../quota/leases/account-tables.ts';
import { alarmHookSchema } from '../quota/limits/alarm-hooks.ts';
import { alarmSchema } from '../quota/limits/alarms.ts';
import { transferSchema } from '../quota/prices/transfer-totals.ts';
import { usageDaysSchema } from '../quota/roll-up/usage-days.ts';
import { storageSchema } from '../quota/storage/storage-tables.ts';
import { identityOutboxSchema } from './journal/identity-outbox.ts';
import { readFoldSchema } from './record-folds.ts';
import { storedCountSchema } from './stored-count.ts';

const versionColumns = `  bucket_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  seq INTEGER NOT NULL,
  version_id TEXT,                 -- 32 hexadecimal digits; null: S3's null version
  is_marker INTEGER NOT NULL,      -- 1: a delete marker
  size INTEGER NOT NULL,
  etag TEXT NOT NULL,              -- without quotes
  sha256 BLOB,                     -- of the whole object; null for a multipart one
  class TEXT NOT NULL,
  owner TEXT NOT NULL,             -- principal name in the bucket's tenant
  created_ms INTEGER NOT NULL,
  manifest BLOB NOT NULL,          -- or the number of a long one
  attributes TEXT NOT NULL,        -- JSON: headers, metadata, checksum, parts, tags, object lock
  epoch INTEGER NOT NULL,          -- of the root key that both MACs are made under
  manifest_mac BLOB NOT NULL,      -- of size and manifest
  row_mac BLOB NOT NULL,           -- of all else, with bucket, key and seq
  billed INTEGER NOT NULL,         -- bytes it counts for where storage is charged; in no MAC`;

export const schema = `
-- authz: who there is ------------------------------------------------------------------------
CREATE TABLE tenants (
  name TEXT PRIMARY KEY,
  created_ms INTEGER NOT NULL,
  members_create_buckets INTEGER NOT NULL DEFAULT 1,
  default_store TEXT,              -- name of a store for new buckets; null: the gateway's default
  record_reads TEXT                -- prompt | strict | aggregate; null: prompt
) WITHOUT ROWID;

CREATE TABLE tenant_keys (         -- what the keys that encrypt a tenant's bytes derive from
  tenant TEXT PRIMARY KEY REFERENCES tenants(name),
  sealed_key BLOB NOT NULL,        -- 32 random bytes, sealed (core/sealing.ts)
  created_ms INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE tenant_settings (     -- those that no request of every day is decided by
  tenant TEXT NOT NULL REFERENCES tenants(name),
  name TEXT NOT NULL,              -- membersMountBuckets | hadClasses
  document TEXT NOT NULL,          -- JSON
  PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE principals (
  tenant TEXT NOT NULL REFERENCES tenants(name),
  name TEXT NOT NULL,
  kind TEXT NOT NULL,              -- person | robot
  role TEXT NOT NULL,              -- operator | admin | auditor | member
  created_ms INTEGER NOT NULL,
  active INTEGER NOT NULL DEFAULT 1, -- 0: nothing is done in its name
  PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE groups (
  tenant TEXT NOT NULL REFERENCES tenants(name),
  name TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE group_members (
  tenant TEXT NOT NULL,
  group_name TEXT NOT NULL,
  principal TEXT NOT NULL,
  PRIMARY KEY (tenant, group_name, principal),
  FOREIGN KEY (tenant, group_name) REFERENCES groups(tenant, name) ON DELETE CASCADE,
  FOREIGN KEY (tenant, principal) REFERENCES principals(tenant, name) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX group_members_by_principal ON group_members (tenant, principal);

CREATE TABLE access_keys (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  sealed_secret BLOB,              -- AES-256-GCM under the key file; null: its owner alone has it
  thumbprint TEXT,                 -- then: of the public key that verifies its SigV4A signatures
  created_ms INTEGER NOT NULL,
  active INTEGER NOT NULL DEFAULT 1,
  FOREIGN KEY (tenant, principal) REFERENCES principals(tenant, name) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX access_keys_by_principal ON access_keys (tenant, principal);
CREATE INDEX access_keys_by_thumbprint ON access_keys (thumbprint) WHERE thumbprint IS NOT NULL;

CREATE TABLE retired_tenants (     -- names that are not given again
  name TEXT PRIMARY KEY
) WITHOUT ROWID;

CREATE TABLE retired_names (       -- nor these, which records, grants and tokens may still have
  tenant TEXT NOT NULL,
  kind TEXT NOT NULL,              -- principal | group | public-key
  name TEXT NOT NULL,
  PRIMARY KEY (tenant, kind, name)
) WITHOUT ROWID;

CREATE TABLE public_keys (         -- enrolled with proof of possession
  thumbprint TEXT PRIMARY KEY,     -- RFC 7638
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  jwk TEXT NOT NULL,
  purpose TEXT NOT NULL,           -- token: signs tokens and proofs; sigv4a: signs requests
  proof TEXT NOT NULL,             -- what its holder signed to enrol it
  created_ms INTEGER NOT NULL,
  active INTEGER NOT NULL DEFAULT 1,
  enrolled_seq INTEGER NOT NULL,   -- log index of the record of its enrolment
  FOREIGN KEY (tenant, principal) REFERENCES principals(tenant, name) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX public_keys_by_principal ON public_keys (tenant, principal);

-- authz: who may ------------------------------------------------------------------------------
CREATE TABLE grants (
  tenant TEXT NOT NULL REFERENCES tenants(name),
  name TEXT NOT NULL,
  rule TEXT NOT NULL,              -- JSON, as authz/grants/grant.ts has it
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE mounts (              -- other tenants' buckets under names of one's own
  tenant TEXT NOT NULL REFERENCES tenants(name),
  name TEXT NOT NULL,
  bucket_tenant TEXT NOT NULL,
  bucket TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE own_mounts (          -- the same of a principal, which nobody else sees
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  name TEXT NOT NULL,
  bucket_tenant TEXT NOT NULL,
  bucket TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, principal, name),
  FOREIGN KEY (tenant, principal) REFERENCES principals(tenant, name) ON DELETE CASCADE
) WITHOUT ROWID;

CREATE TABLE classes (             -- storage classes; of the gateway's own tenant: everybody's
  tenant TEXT NOT NULL REFERENCES tenants(name),
  name TEXT NOT NULL,
  definition TEXT NOT NULL,        -- JSON, as tiering/classes/class-definition.ts has it
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE TABLE issuers (             -- outside issuers of tokens that a tenant trusts
  tenant TEXT NOT NULL REFERENCES tenants(name),
  name TEXT NOT NULL,
  url TEXT NOT NULL,
  audience TEXT NOT NULL,
  mapping TEXT NOT NULL,           -- JSON: path prefix, principals and groups
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, name),
  UNIQUE (url, audience)
) WITHOUT ROWID;

CREATE TABLE tokens (              -- links that were issued here, or seen in use
  id TEXT PRIMARY KEY,             -- jti; of a share link its id
  kind TEXT NOT NULL,              -- issued | seen | share
  parent TEXT,                     -- jti; null: the first link
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,         -- in whose name it acts
  access_key TEXT,                 -- the key with which it was asked for
  details TEXT NOT NULL,           -- JSON: what it allows, for lists
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  last_used_ms INTEGER,
  uses INTEGER NOT NULL DEFAULT 0,
  uses_max INTEGER,                -- of a share link: downloads
  secret_hash BLOB                 -- of a share link: SHA-256 of the secret in its URL
) WITHOUT ROWID;
CREATE INDEX tokens_by_principal ON tokens (tenant, principal, id);
CREATE INDEX tokens_by_access_key ON tokens (access_key) WHERE access_key IS NOT NULL;
CREATE INDEX tokens_by_expiry ON tokens (expires_ms);
CREATE INDEX tokens_seen ON tokens (tenant, principal, created_ms) WHERE kind = 'seen';
CREATE INDEX shares_by_principal ON tokens (tenant, principal, id) WHERE kind = 'share';

CREATE TABLE revocations (
  id TEXT PRIMARY KEY,             -- jti: it and all below it are refused
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  revoked_ms INTEGER NOT NULL,
  expires_ms INTEGER               -- when what is revoked would have ended; null: unknown
) WITHOUT ROWID;
CREATE INDEX revocations_by_principal ON revocations (tenant, principal);
CREATE INDEX revocations_by_expiry ON revocations (expires_ms) WHERE expires_ms IS NOT NULL;

${sealSchema}
-- catalog: what is stored ---------------------------------------------------------------------
CREATE TABLE gateway (             -- what is true of this data folder as a whole
  instance TEXT NOT NULL           -- random: tells it from every other, in the stores it owns
);
INSERT INTO gateway VALUES (lower(hex(randomblob(16))));

CREATE TABLE schema_history (      -- how the schema came to be what it is
  schema INTEGER PRIMARY KEY,      -- that a step, or the making of the database, led to
  from_schema INTEGER NOT NULL,    -- 0: it was made with this schema
  version TEXT NOT NULL,           -- of the Bursar that did it: what is needed to open this
  time_ms INTEGER NOT NULL,
  digest_before TEXT,              -- SHA-256 of the schema, hex; null: there was none
  digest_after TEXT NOT NULL,
  record_idx INTEGER               -- of the audit record; null: of the making there is none
) WITHOUT ROWID;

CREATE TABLE key_epochs (          -- root keys that something in here may be made under
  epoch INTEGER PRIMARY KEY,
  proof BLOB NOT NULL              -- derived from the key, so that another is noticed
);

CREATE TABLE stores (              -- S3 stores that were ever configured; rows stay for ever
  number INTEGER PRIMARY KEY,      -- 2 and up, given once: manifests have it
  name TEXT NOT NULL UNIQUE,
  location TEXT NOT NULL,          -- s3://bucket/prefix at endpoint
  generation TEXT,                 -- of the journal in it
  journaled_seq INTEGER NOT NULL DEFAULT -1 -- no further does that journal go, but for the outbox
);

CREATE TABLE buckets (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL REFERENCES tenants(name),
  name TEXT NOT NULL,
  owner TEXT NOT NULL,             -- principal name in the tenant
  created_ms INTEGER NOT NULL,
  store INTEGER NOT NULL DEFAULT 1, -- number of the store where all of its extents lie
  policy TEXT,                     -- IAM JSON, as it was sent
  record_reads TEXT,               -- prompt | strict | aggregate; null: as its tenant
  versioning TEXT NOT NULL DEFAULT 'Unversioned', -- Unversioned | Enabled | Suspended
  object_lock TEXT,                -- JSON: the default retention; null: no object lock
  public_access TEXT,              -- JSON: the PublicAccessBlock and the ACL; null: neither
  ownership TEXT,                  -- null: BucketOwnerEnforced
  UNIQUE (tenant, name)
);

CREATE TABLE bucket_settings (     -- what else is set of a bucket, by its subresource
  bucket_id INTEGER NOT NULL,
  name TEXT NOT NULL,              -- cors | lifecycle | tagging | undelete
  document TEXT NOT NULL,          -- JSON
  PRIMARY KEY (bucket_id, name)
) WITHOUT ROWID;

-- Versions of objects are in tables of one shape, each in one of the first three, or held.
CREATE TABLE versions (            -- the current version of each key, delete markers included
${versionColumns}
  PRIMARY KEY (bucket_id, key)
) WITHOUT ROWID;

CREATE TABLE noncurrent_versions ( -- older ones that buckets with versioning keep
${versionColumns}
  superseded_seq INTEGER NOT NULL, -- by what it became noncurrent
  superseded_ms INTEGER NOT NULL,  -- and when
  PRIMARY KEY (bucket_id, key, seq DESC)
) WITHOUT ROWID;
CREATE INDEX noncurrent_by_id ON noncurrent_versions (bucket_id, key, version_id);

CREATE TABLE ended_versions (      -- those that are gone, and whose bytes are still to be let go of
${versionColumns}
  superseded_seq INTEGER,          -- as they were when it ended: null of one that was current
  superseded_ms INTEGER,
  PRIMARY KEY (seq)
) WITHOUT ROWID;

CREATE TABLE long_manifests (      -- which rows of versions name by number in their column
  id INTEGER PRIMARY KEY,
  manifest BLOB NOT NULL
);

CREATE TABLE long_manifest_uses (
  id INTEGER PRIMARY KEY,
  uses INTEGER NOT NULL,           -- rows of versions that name it; 0: it is being let go of
  dropped INTEGER NOT NULL         -- runs whose extents it has let go of
);
CREATE INDEX long_manifests_unused ON long_manifest_uses (id) WHERE uses = 0;

CREATE TABLE superseded (          -- every version that ever ended, for ever
  seq INTEGER PRIMARY KEY,
  by_seq INTEGER NOT NULL          -- of the record that ended it
);

CREATE TABLE snapshots (           -- of buckets: what they held when record seq was made
  bucket_id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  tenant TEXT NOT NULL,            -- of the bucket
  bucket TEXT NOT NULL,            -- its name
  name TEXT NOT NULL,
  prefix TEXT NOT NULL,            -- of the keys that it is of; empty: of all
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER,              -- when it is deleted by itself; null: never
  lock TEXT,                       -- governance | compliance: not before then; null: it has none
  state TEXT NOT NULL,             -- living | dying: what it holds is being let go of
  PRIMARY KEY (bucket_id, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX snapshots_by_name ON snapshots (bucket_id, name)
  WHERE state = 'living';
CREATE INDEX snapshots_due ON snapshots (expires_ms)
  WHERE state = 'dying' OR expires_ms IS NOT NULL;

CREATE TABLE held_versions (       -- that ended, or as they were before they were changed in place
${versionColumns}
  superseded_seq INTEGER,          -- as they were when it ended: null of one that was current
  superseded_ms INTEGER,
  ended_seq INTEGER NOT NULL,      -- of the record that ended or changed it
  ended_ms INTEGER NOT NULL,
  is_image INTEGER NOT NULL,       -- 1: it was changed in place, and went on
  held_mac BLOB,                   -- of these and row_mac; null: its row was not authentic
  holder INTEGER NOT NULL,         -- seq of the newest snapshot that it is in; 0: the window
  PRIMARY KEY (bucket_id, key, seq DESC, ended_seq)
) WITHOUT ROWID;
CREATE INDEX held_by_holder ON held_versions (bucket_id, holder, ended_ms);
CREATE INDEX held_by_end ON held_versions (bucket_id, key, ended_seq)
  WHERE version_id IS NOT NULL;

CREATE TABLE held_totals (         -- sums over held_versions
  bucket_id INTEGER NOT NULL,
  holder INTEGER NOT NULL,
  versions INTEGER NOT NULL,
  bytes INTEGER NOT NULL,          -- without images, which share what the version itself keeps
  counted_ms INTEGER,              -- what ended from then on is not in it; null: all is
  PRIMARY KEY (bucket_id, holder)
) WITHOUT ROWID;
CREATE INDEX held_by_window ON held_totals (bucket_id) WHERE holder = 0;
CREATE INDEX held_uncounted ON held_totals (bucket_id, holder) WHERE counted_ms IS NOT NULL;

CREATE TABLE outbox (              -- changes that the journal in their store does not have yet
  store INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  time_ms INTEGER NOT NULL,
  bucket_id INTEGER NOT NULL,      -- 0: identities, which identity_outbox has
  key TEXT,                        -- null: the bucket itself
  version_id TEXT,                 -- of the version that was made, changed or ended; null: null's;
                                   -- of a bucket: its snapshot that was made or deleted
  PRIMARY KEY (store, seq)
) WITHOUT ROWID;

${identityOutboxSchema}${journalObjectSchema}
CREATE TABLE extents (
  id BLOB PRIMARY KEY,
  store INTEGER NOT NULL,          -- number of the store it lies in; 0: inline
  tenant TEXT,                     -- null: it has been nobody's yet
  state INTEGER NOT NULL,          -- 0 intent, 1 live, 2 condemned, 3 left by a rebuild
  refs INTEGER NOT NULL,           -- manifests that name it
  changed_ms INTEGER NOT NULL,     -- when the state last changed
  process TEXT,                    -- intent: the run of the gateway that writes it
  body BLOB                        -- sealed bytes of an inline extent, else null
);
CREATE INDEX extents_not_live ON extents (state, store, changed_ms) WHERE state <> 1;

CREATE TABLE extent_copies (       -- of extents that are in several stores; others have no row
  extent_id BLOB NOT NULL,
  store INTEGER NOT NULL,          -- also the one that extents.store names
  state INTEGER NOT NULL,          -- 0 intent, 1 good, 2 to be made, 3 suspect
  changed_ms INTEGER NOT NULL,     -- when the state last changed
  due_ms INTEGER NOT NULL,         -- from when on it is to be made, or made again
  tries INTEGER NOT NULL,          -- that failed since
  PRIMARY KEY (extent_id, store)
) WITHOUT ROWID;
CREATE INDEX extent_copies_work ON extent_copies (due_ms, extent_id, store)
  WHERE state >= 2;

CREATE TABLE lost_versions (       -- of which no store has all bytes, as their classes allow
  seq INTEGER PRIMARY KEY,         -- of a version, wherever its row is
  bucket_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  lost_ms INTEGER NOT NULL,        -- when that was found
  due_ms INTEGER NOT NULL,         -- when to look again whether they are back
  tries INTEGER NOT NULL           -- how often that was done
);
CREATE INDEX lost_versions_due ON lost_versions (due_ms);

${storedCountSchema}
CREATE TABLE work (                -- lost versions that are to be made again by their recipes
  seq INTEGER PRIMARY KEY,         -- of the version
  bucket_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  made_ms INTEGER NOT NULL,        -- when the job was
  due_ms INTEGER NOT NULL,         -- when it can be leased, or when its lease ends
  tries INTEGER NOT NULL,          -- how often it was leased
  is_dead INTEGER NOT NULL,        -- 1: it is not leased any more
  lease TEXT,                      -- the secret of who has it; null: nobody
  holder TEXT,                     -- principal id: tenant/name
  problem TEXT                     -- what its last try failed with
);
CREATE INDEX work_by_bucket ON work (bucket_id, seq);
CREATE INDEX work_by_state ON work (is_dead, seq);
CREATE TABLE restores (            -- from classes that are read after one
  seq INTEGER PRIMARY KEY,         -- of a version, wherever its row is
  bucket_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  days INTEGER NOT NULL,           -- for how long it was asked for
  due_ms INTEGER NOT NULL,         -- when it is to be there, or ends
  expires_ms INTEGER,              -- until when it can be read; null: it is on its way
  tier TEXT NOT NULL DEFAULT 'Standard' -- how fast it is to be there
);
CREATE INDEX restores_waiting ON restores (bucket_id, due_ms) WHERE expires_ms IS NULL;
CREATE INDEX restores_ending ON restores (due_ms) WHERE expires_ms IS NOT NULL;
CREATE TABLE version_uses (        -- reads of versions in classes with tiers
  seq INTEGER PRIMARY KEY,         -- of a version; 0: since when reads are noted here
  bucket_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  used_ms INTEGER NOT NULL,        -- the last day's first, or when it came into the class
  before_ms INTEGER                -- that of the day of reads before; null: there is none
);

CREATE TABLE uploads (
  id TEXT PRIMARY KEY,
  bucket_id INTEGER NOT NULL,
  key TEXT NOT NULL,
  initiator TEXT NOT NULL,         -- principal id: tenant/name
  created_ms INTEGER NOT NULL,
  class TEXT NOT NULL,
  attributes TEXT NOT NULL,        -- JSON: headers, metadata, checksum algorithm and type
  completed TEXT,                  -- JSON: the answer, for idempotent completion
  epoch INTEGER NOT NULL,
  mac BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX uploads_by_key ON uploads (bucket_id, key, id);
CREATE INDEX uploads_completed ON uploads (created_ms) WHERE completed IS NOT NULL;
${uploadConflictSchema}
CREATE TABLE parts (
  upload_id TEXT NOT NULL REFERENCES uploads(id),
  number INTEGER NOT NULL,
  size INTEGER NOT NULL,
  etag TEXT NOT NULL,
  checksum TEXT,                   -- base64
  modified_ms INTEGER NOT NULL,
  manifest BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  mac BLOB NOT NULL,
  PRIMARY KEY (upload_id, number)
) WITHOUT ROWID;
${renameTokenSchema}
-- quota: how much -----------------------------------------------------------------------------
${accountSchema}${alarmSchema}${alarmHookSchema}${transferSchema}${storageSchema}${usageDaysSchema}
-- audit: what happened ------------------------------------------------------------------------
CREATE TABLE records (
  idx INTEGER PRIMARY KEY,
  time_ms INTEGER NOT NULL,
  tenant TEXT NOT NULL,            -- of who asked
  bucket_tenant TEXT,              -- where the bucket is another tenant's
  commitment BLOB NOT NULL,        -- SHA-256 of salt and record: what its leaf in the log shows
  salt BLOB,                       -- 16 random bytes; null: the record was erased
  record TEXT NOT NULL,            -- RFC 8785 canonical JSON, verbatim; empty: it was erased
  roots BLOB                       -- of the newest: what was sealed with it (ledger/seal-roots.ts)
);
${evidenceSchema}${readFoldSchema}${erasureSchema}${logSchema}${archiveSchema}
${logKeySchema}${cosignatureSchema}${alteredSchema}${targetSchema}`;
