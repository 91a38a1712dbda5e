"""Computes the test vectors of catalog-macs.md from its text alone: python3 catalog-macs.py
With the argument `seals` those of row-seals.md.

Needs nothing but Python 3. It shares no code with the gateway, whose tests hold it to the output.
"""

import hashlib
import hmac
import json
import struct
import sys


def hkdf(root: bytes, info: bytes) -> bytes:
    """RFC 5869 with an empty salt and 32 bytes of output."""
    pseudorandom = hmac.new(bytes(32), root, hashlib.sha256).digest()
    return hmac.new(pseudorandom, info + b"\x01", hashlib.sha256).digest()


def encode(field) -> bytes:
    if field is None:
        return b"\xff\xff\xff\xff"
    if isinstance(field, int):
        field = struct.pack(">Q", field)
    elif isinstance(field, str):
        field = field.encode("utf-8")
    return struct.pack(">I", len(field)) + field


def mac(key: bytes, *fields) -> bytes:
    return hmac.new(key, b"".join(encode(field) for field in fields), hashlib.sha256).digest()


def keys(root: bytes, tenant: str) -> dict:
    named = {
        "tenant": b"bursar/tenant/v1\0" + tenant.encode(),
        "manifest": b"bursar/manifest/v1\0" + tenant.encode(),
        "row": b"bursar/row/v1",
        "seal": b"bursar/seal/v1",
        "sealDigest": b"bursar/seal-digest/v1",
        "sealHead": b"bursar/seal-head/v1",
        "extentMetadata": b"bursar/extent-metadata/v1",
        "journal": b"bursar/journal/v1",
        "secrets": b"bursar/secrets/v1",
        "sessions": b"bursar/sessions/v1",
        "tokens": b"bursar/tokens/v1",
        "proof": b"bursar/proof/v1",
    }
    return {name: hkdf(root, info) for name, info in named.items()}


def version(root, bucket, row) -> dict:
    derived = keys(root, bucket["tenant"])
    manifest = bytes.fromhex(row["manifest"])
    runs = [row["sizeBytes"], row["epoch"], manifest]
    manifest_mac = mac(derived["manifest"], "bursar/manifest/v1", *runs)
    sha256 = None if row["sha256"] is None else bytes.fromhex(row["sha256"])
    where = [bucket["tenant"], bucket["id"], bucket["name"], row["key"]]
    named = [row["seq"], row["versionId"], row["isMarker"]]
    when = [row["supersededSeq"], row["supersededMs"], row["createdMs"]]
    what = [row["sizeBytes"], row["etag"], sha256, row["class"], row["owner"], row["attributes"]]
    row_mac = mac(derived["row"], "bursar/row/v1", *where, *named, *when, *what, manifest_mac)
    return {**row, "manifestMac": manifest_mac.hex(), "rowMac": row_mac.hex()}


def seal(root, row) -> dict:
    fields = [bytes.fromhex(f["hex"]) if isinstance(f, dict) else f for f in row["fields"]]
    made = mac(keys(root, "")["seal"], "bursar/seal/v1", row["table"], *fields)
    return {**row, "mac": made.hex()}


def account(root, row) -> dict:
    made = mac(keys(root, "")["seal"], "bursar/account/v1", row["account"], *row["content"])
    return {**row, "mac": made.hex()}


def level(root, row) -> dict:
    made = mac(keys(root, "")["seal"], "bursar/level/v1", row["level"], *row["content"])
    return {**row, "mac": made.hex()}


def roots(root, row) -> dict:
    key, purpose = keys(root, "")["sealHead"], "bursar/seal-root/v1"
    whole, of_tenant = row["gateway"], row["accounts"]
    digests = [bytes.fromhex(whole[name]) for name in ("rights", "accounts")]
    gateway = mac(key, purpose, "gateway", whole["logSize"], *digests)
    digest = bytes.fromhex(of_tenant["digest"])
    accounts = mac(key, purpose, "accounts", of_tenant["tenant"], digest)
    moved = row["transfers"]
    where = [moved[name] for name in ("side", "provider", "region")]
    amounts = [str(moved[name]) for name in ("monthMs", "ingressBytes", "egressBytes")]
    transfers = mac(key, purpose, "transfers", *where, *amounts)
    return {
        "gateway": {**whole, "mac": gateway.hex()},
        "accounts": {**of_tenant, "mac": accounts.hex()},
        "transfers": {**moved, "mac": transfers.hex()},
    }


def head(root, row) -> dict:
    sealed = bytes.fromhex(row["sealed"])
    made = mac(keys(root, "")["sealHead"], "bursar/seal-head/v1", row["tenant"], sealed)
    return {**row, "mac": made.hex()}


def part(root, bucket, row) -> dict:
    key = keys(root, bucket["tenant"])["manifest"]
    what = [row["uploadId"], row["number"], row["sizeBytes"], row["etag"], row["checksum"]]
    made = mac(key, "bursar/part/v1", *what, row["epoch"], bytes.fromhex(row["manifest"]))
    return {**row, "mac": made.hex()}


def upload(root, bucket, row) -> dict:
    where = [bucket["tenant"], bucket["id"], bucket["name"], row["key"], row["id"]]
    what = [row["initiator"], row["createdMs"], row["class"], row["attributes"], row["completed"]]
    made = mac(keys(root, bucket["tenant"])["row"], "bursar/upload/v1", *where, *what)
    return {**row, "mac": made.hex()}


root = bytes(range(32))
bucket = {"id": 12, "tenant": "cms", "name": "raw"}
# Extent id, store 1, algorithm 2, epoch 7, extent of 5 bytes, offset 0, length 5, no trailer.
run = "0193500fbb4a7000a1b2c3d4e5f60718" "01" "02" "0007"
run += "00000005" "00000000" "00000005" "00000000"
plain = {
    "key": "run/2026/häufig \U0001f9ea.root",
    "seq": 4_294_967_298,
    "versionId": None,
    "isMarker": 0,
    "supersededSeq": None,
    "supersededMs": None,
    "sizeBytes": 5,
    "etag": "5d41402abc4b2a76b9719d911017c592",
    "sha256": hashlib.sha256(b"hello").hexdigest(),
    "class": "STANDARD",
    "owner": "alice",
    "attributes": '{"headers":{"content-type":"text/plain"},"metadata":{"colour":"blue"}}',
    "createdMs": 1_764_000_000_123,
    "epoch": 7,
    "manifest": run,
}
composed = {
    **plain,
    "seq": 9,
    "sizeBytes": 5_497_558_138_880,
    "etag": "d41d8cd98f00b204e9800998ecf8427e-2",
    "sha256": None,
    "manifest": run * 2,
}
empty = {**plain, "sizeBytes": 0, "manifest": "", "attributes": "{}", "key": ""}
kept = {
    **plain,
    "seq": 10,
    "versionId": "8c3f0a5be1d2479680a1b2c3d4e5f607",
    "supersededSeq": 4_294_967_299,
    "supersededMs": 1_764_000_999_456,
}
marker = {
    **plain,
    "seq": 4_294_967_299,
    "versionId": "f607182930415263748596a7b8c9dae0",
    "isMarker": 1,
    "sizeBytes": 0,
    "etag": "",
    "sha256": None,
    "class": "",
    "manifest": "",
    "attributes": '{"headers":{},"metadata":{}}',
    "createdMs": 1_764_000_999_456,
}
piece = {
    "uploadId": "q5yFJ8C1T2uXv0wZ3aBcDe",
    "number": 3,
    "sizeBytes": 5,
    "etag": plain["etag"],
    "checksum": "NhCmhg==",
    "epoch": 7,
    "manifest": run,
}
begun = {
    "id": piece["uploadId"],
    "key": plain["key"],
    "initiator": "cms/alice",
    "createdMs": plain["createdMs"],
    "class": "STANDARD",
    "attributes": '{"object":{"headers":{},"metadata":{}},"checksum":null}',
    "completed": None,
    "epoch": 7,
}
done = {**begun, "completed": '{"etag":"x-1","fingerprint":"","attributes":"{}"}'}

rows = (plain, composed, empty, kept, marker)

grant = '{"name":"readers","effect":"allow","subjects":["group:cms/häufig"]}'
seals = {
    "rows": [
        {
            "table": "principals",
            "fields": ["cms", "alice", "person", "admin", 1764000000123, 1],
        },
        {"table": "grants", "fields": ["cms", "readers", grant, 1764000000123]},
        {
            "table": "access_keys",
            "fields": ["AK1", "cms", "alice", {"hex": "00ff10"}, None, 1764000000123, 1],
        },
        {
            "table": "revocations",
            "fields": ["Zk3v", "cms", "alice", 1764000000123, None],
        },
    ],
    "accounts": [
        {
            "account": "tenant:cms",
            "content": [
                *['{"requests":{"month":1}}', None, None, None, None],
                *["123456789012345678901", "5", "1", "5", "0", "7", "0", "0", "0", "0", None],
                " ".join(["1764000000000", *["0"] * 8] * 4),
            ],
        }
    ],
    "levels": [
        {
            "level": "cms/raw/STANDARD",
            "content": [
                "5497558138880 1764000000123 1763996400000 "
                '[["aws-us-east-1-2026",1763996400000,"19791209299968000000"]]',
            ],
        }
    ],
    "roots": {
        "gateway": {
            "logSize": 1042,
            "rights": "000102030405060708090a0b0c0d0e0f",
            "accounts": "101112131415161718191a1b1c1d1e1f",
        },
        "accounts": {"tenant": "cms", "digest": "000102030405060708090a0b0c0d0e0f"},
        "transfers": {
            **{"side": "users", "provider": "aws", "region": "us-east-1"},
            **{"monthMs": 1761955200000, "ingressBytes": 0, "egressBytes": 5497558138880},
        },
    },
    "heads": [{"tenant": "cms", "sealed": "010007" + "aa" * 44}],
}

if sys.argv[1:] == ["seals"]:
    made = {
        "epoch": 7,
        "rows": [seal(root, row) for row in seals["rows"]],
        "accounts": [account(root, row) for row in seals["accounts"]],
        "levels": [level(root, row) for row in seals["levels"]],
        "roots": roots(root, seals["roots"]),
        "heads": [head(root, row) for row in seals["heads"]],
    }
    print(json.dumps(made, indent=2, ensure_ascii=False))
    sys.exit()

print(
    json.dumps(
        {
            "rootKey": root.hex(),
            "keys": {name: key.hex() for name, key in keys(root, bucket["tenant"]).items()},
            "bucket": bucket,
            "versions": [version(root, bucket, row) for row in rows],
            "parts": [part(root, bucket, row) for row in (piece, {**piece, "checksum": None})],
            "uploads": [upload(root, bucket, row) for row in (begun, done)],
        },
        indent=2,
        ensure_ascii=False,
    )
)
