"""Makes docs/formats/token-vectors.json, from docs/formats/token.md and not from Bursar's code.

    python3 test/authz/tokens/make-vectors.py > docs/formats/token-vectors.json

Needs the package "cryptography". The output is the same each time: keys come from fixed secrets and
ES256 signatures are deterministic (RFC 6979). The private keys are public: use them for nothing.
"""

import base64
import hashlib
import json
import sys

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

NOW = 1795262400
AUDIENCE = "https://s3.example.org"
URN = "urn:ietf:params:oauth:jwk-thumbprint:sha-256:"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def digest(text):
    return b64(hashlib.sha256(text.encode()).digest())


class Key:
    def __init__(self, kind, name):
        secret = hashlib.sha256(b"bursar token vectors: " + name.encode()).digest()
        self.kind = kind
        if kind == "EdDSA":
            self.key = ed25519.Ed25519PrivateKey.from_private_bytes(secret)
            x = self.key.public_key().public_bytes_raw()
            self.jwk = {"crv": "Ed25519", "kty": "OKP", "x": b64(x)}
        else:
            self.key = ec.derive_private_key(int.from_bytes(secret, "big"), ec.SECP256R1())
            point = self.key.public_key().public_numbers()
            x, y = point.x.to_bytes(32, "big"), point.y.to_bytes(32, "big")
            self.jwk = {"crv": "P-256", "kty": "EC", "x": b64(x), "y": b64(y)}
        self.private_jwk = {**self.jwk, "d": b64(secret)}
        self.thumbprint = b64(hashlib.sha256(compact(self.jwk)).digest())

    def sign(self, data):
        if self.kind == "EdDSA":
            return self.key.sign(data)
        algorithm = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
        r, s = decode_dss_signature(self.key.sign(data, algorithm))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def jws(self, header, claims):
        payload = claims if isinstance(claims, bytes) else compact(claims)
        text = b64(compact(header)) + "." + b64(payload)
        return text + "." + b64(self.sign(text.encode()))


GATEWAY = Key("EdDSA", "gateway")
ALICE = Key("ES256", "alice")
JOB = Key("EdDSA", "job")
PILOT = Key("ES256", "pilot")
KEYS = {"gateway": GATEWAY, "alice": ALICE, "job": JOB, "pilot": PILOT}


def root(key=GATEWAY, holder=JOB, header=None, **claims):
    by_gateway = key is GATEWAY
    value = {
        "iss": AUDIENCE if by_gateway else URN + key.thumbprint,
        "sub": "cms/alice",
        "aud": AUDIENCE,
        "iat": NOW,
        "nbf": NOW,
        "exp": NOW + 43200,
        "jti": "root" if by_gateway else key.thumbprint + ".root",
        "wlcg.ver": "1.0",
        "scope": "storage.read:/raw storage.modify:/out/alice",
        "del_depth": 0,
        "del_max_depth": 3,
    }
    if holder:
        value["cnf"] = {"jwk": holder.jwk}
    value.update(claims)
    head = {"typ": "bursar-link+jwt", "alg": key.kind}
    if by_gateway:
        head["kid"] = key.thumbprint
    return key.jws({**head, **(header or {})}, value)


def claims_of(link):
    body = link.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


def child(token, key, holder=None, part="child", drop=(), header=None, **claims):
    parent = token.split("~")[-1]
    value = claims_of(parent)
    for name in ("cnf", "limits", "conditions", "par_hash"):
        value.pop(name, None)
    value.update(
        iss=URN + key.thumbprint,
        jti=value["jti"] + "." + part,
        del_depth=value["del_depth"] + 1,
        par_hash=digest(parent.rsplit(".", 1)[0]),
    )
    if holder:
        value["cnf"] = {"jwk": holder.jwk}
    value.update(claims)
    for name in drop:
        del value[name]
    head = {"typ": "bursar-link+jwt", "alg": key.kind, **(header or {})}
    return token + "~" + key.jws(head, value)


def valid():
    one = root()
    two = child(
        one,
        JOB,
        holder=PILOT,
        scope="storage.read:/raw/2026 storage.create:/out/alice/logs",
        exp=NOW + 3600,
        limits={"spend": {"month": "25.00"}, "egressBytes": {"total": 1000000}},
    )
    three = child(
        two,
        PILOT,
        part="leaf",
        scope="storage.read:/raw/2026/run%207/",
        exp=NOW + 60,
        conditions={"networks": ["10.0.0.0/8", "2001:db8::/32"], "objectBytesMax": 1024},
    )
    yield "one link by the gateway, bound to a key", one
    yield "one link by the gateway, for bearers", root(holder=None, del_max_depth=0)
    yield "one link by a principal's registered key", root(key=ALICE)
    yield "two links", two
    yield "three links, the last for bearers", three
    yield "a child that narrows nothing", child(one, JOB, holder=JOB)
    yield "a child that expires in the same second", child(one, JOB, exp=NOW + 43200)
    yield "a child in a subfolder of a folder", child(
        root(scope="storage.read:/raw/a/"), JOB, scope="storage.read:/raw/a/b"
    )
    yield "reading is a part of staging", child(
        root(scope="storage.stage:/tape"), JOB, scope="storage.read:/tape"
    )
    yield "a name that is not ASCII", root(scope="storage.read:/raw/%C3%A9t%C3%A9")
    yield "a bucket of another tenant", root(scope="storage.read:/atlas:shared/x")
    yield "administration alone", child(
        root(scope="storage.read:/raw bursar.admin:/"), JOB, scope="bursar.admin:/"
    )


def describe(token):
    links = [claims_of(link) for link in token.split("~")]
    last = links[-1]
    bound = next((k for k, v in KEYS.items() if last.get("cnf", {}).get("jwk") == v.jwk), None)
    return {
        "subject": last["sub"],
        "scope": last["scope"],
        "depth": len(links) - 1,
        "expires": last["exp"],
        "boundTo": bound,
        "ids": [link["jti"] for link in links],
        "hash": digest(token),
    }


def invalid_roots():
    head = {"typ": "bursar-link+jwt", "alg": "EdDSA", "kid": GATEWAY.thumbprint}
    body = root().split(".")[1]
    text = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    none = b64(compact({**head, "alg": "none"})) + "." + body
    yield "alg none without a signature", "Malformed", none + "."
    yield "alg none with one", "Header", none + "." + b64(bytes(64))
    yield "HMAC", "Header", root(header={"alg": "HS256"})
    yield "the algorithm of another key", "Signature", root(header={"alg": "ES256"})
    yield "a key in the header", "Header", root(header={"jwk": GATEWAY.jwk})
    yield "a critical extension", "Header", root(header={"crit": ["exp"]})
    yield "another type", "Header", root(header={"typ": "JWT"})
    yield "no kid", "Header", GATEWAY.jws({"typ": head["typ"], "alg": "EdDSA"}, text)
    yield "signed by a stranger", "Signature", JOB.jws(head, text)
    yield "a principal's key for another principal", "Signature", root(key=ALICE, sub="cms/bob")
    yield "a principal's key with an id of others", "Claims", root(key=ALICE, jti="root")
    twice = text.replace(b"{", b'{"sub":"cms/bob",', 1)
    yield "a claim twice", "Malformed", GATEWAY.jws(head, twice)
    yield "an unknown claim", "Claims", root(max_files=3)
    yield "an unknown condition", "Claims", root(conditions={"weekday": "monday"})
    yield "an unknown limit", "Claims", root(limits={"deletes": {"day": 1}})
    yield "padding", "Malformed", root() + "=="
    yield "expired", "Expired", root(exp=NOW)
    yield "not yet valid", "NotYetValid", root(nbf=NOW + 61)
    yield "another audience", "Audience", root(aud="https://other.example")
    yield "time as text", "Claims", root(exp=str(NOW + 60))
    yield "a private key in cnf", "Claims", root(cnf={"jwk": JOB.private_jwk})
    yield "a hash of no parent", "Claims", root(par_hash=digest("x"))
    for scope in (
        "storage.read",
        "storage.read:",
        "storage.read:raw",
        "storage.read:/raw/../out",
        "storage.read:/raw/%2E%2E/out",
        "storage.read:/raw%2Fout",
        "storage.read:/raw/%252Fout",
        "storage.read:/raw//out",
        "storage.read:/raw/%00",
        "storage.read:/raw/%C0%AF",
        "storage.write:/raw",
        "storage.read:/raw  storage.read:/out",
        "bursar.admin",
        "bursar.admin:/raw",
        "storage.admin:/",
    ):
        yield "the scope " + scope, "Scope", root(scope=scope)


def invalid_children():
    one = root(scope="storage.read:/raw/foo storage.create:/out")
    two = child(one, JOB, holder=PILOT)
    yield "a wider scope", "Widened", child(one, JOB, scope="storage.read:/raw")
    yield "foo against foobar", "Widened", child(one, JOB, scope="storage.read:/raw/foobar")
    yield "another right", "Widened", child(one, JOB, scope="storage.modify:/out")
    yield "a file of a folder's name", "Widened", child(
        root(scope="storage.read:/raw/a/"), JOB, scope="storage.read:/raw/a"
    )
    yield "administration", "Widened", child(
        root(scope="storage.modify:/"), JOB, scope="bursar.admin:/"
    )
    yield "what is stored from administration", "Widened", child(
        root(scope="bursar.admin:/"), JOB, scope="storage.read:/raw"
    )
    yield "a later end", "Widened", child(one, JOB, exp=NOW + 43201)
    yield "an earlier issue", "Widened", child(one, JOB, iat=NOW - 1)
    yield "deeper links", "Widened", child(one, JOB, del_max_depth=4)
    yield "a skipped depth", "Depth", child(one, JOB, del_depth=2)
    yield "no depth left", "Depth", child(root(del_max_depth=0), JOB, del_max_depth=1)
    yield "another subject", "Parent", child(one, JOB, sub="cms/bob")
    yield "another parent's hash", "Parent", child(one, JOB, par_hash=digest("x"))
    yield "no hash", "Claims", child(one, JOB, drop=["par_hash"])
    yield "an id that is not below its parent's", "Parent", child(one, JOB, jti="elsewhere.child")
    yield "the gateway as issuer", "Parent", child(one, JOB, iss=AUDIENCE)
    yield "signed by another than the holder", "Parent", child(one, PILOT)
    yield "a bearer link passed on", "Parent", child(root(holder=None), JOB)
    yield "a kid in a child", "Header", child(one, JOB, header={"kid": JOB.thumbprint})
    yield "another chain's root", "Parent", root(jti="other") + "~" + two.split("~")[1]
    first, second, third = child(two, PILOT).split("~")
    yield "reordered", "Depth", "~".join([first, third, second])
    yield "one left out", "Depth", "~".join([first, third])
    yield "cut off at its beginning", "Depth", "~".join([second, third])
    yield "nine links", "TooLarge", "~".join([first] * 9)


def proof_cases():
    token = root()
    authorization = "Bearer " + token
    url = AUDIENCE + "/raw/2026/a%20b?partNumber=1"
    body = "hello"
    content = "sha-256=:" + base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() + ":"

    def signed(names, headers, method="PUT", key=JOB, created=NOW, target=url, nonce=None):
        values = {"@method": method, "@target-uri": target, **headers}
        listed = " ".join('"%s"' % name for name in names)
        params = '(%s);created=%d;keyid="%s";nonce="%s"' % (
            listed,
            created,
            key.thumbprint,
            nonce or "n-0123456789",
        )
        lines = ['"%s": %s' % (name, values[name]) for name in names]
        base = "\n".join(lines + ['"@signature-params": ' + params])
        signature = base64.b64encode(key.sign(base.encode())).decode()
        added = {"signature-input": "sig=" + params, "signature": "sig=:" + signature + ":"}
        return {**headers, **added}

    def case(name, headers, fault=None, method="PUT", body_=body, target=url):
        entry = {"name": name, "token": token, "boundTo": "job", "method": method, "url": target}
        return {**entry, "hasBody": body_ is not None, "headers": headers, "reason": fault}

    whole = ["@method", "@target-uri", "authorization", "content-digest"]
    base = {"authorization": authorization, "content-digest": content}
    acl = {**base, "x-amz-acl": "private"}
    read = {"authorization": authorization}
    yield case("a PUT with its digest", signed(whole, base))
    yield case("a GET", signed(whole[:3], read, method="GET"), method="GET", body_=None)
    yield case("a PUT with an x-amz- header", signed([*whole, "x-amz-acl"], acl))
    yield case("an x-amz- header that is not covered", signed(whole, acl), "Uncovered")
    yield case("a body that is not covered", signed(whole[:3], read), "Uncovered")
    yield case("a token that is not covered", signed(whole[:2] + whole[3:], base), "Uncovered")
    yield case("another method", signed(whole, base, method="POST"), "Signature")
    yield case("another query", signed(whole, base, target=url[:-1] + "2"), "Signature")
    yield case("another key", signed(whole, base, key=PILOT), "Key")
    yield case("too old", signed(whole, base, created=NOW - 121), "Time")
    yield case("a short nonce", signed(whole, base, nonce="short"), "Claims")
    yield case("no proof", read, "Missing", method="GET", body_=None)

    def dpop(key=JOB, **claims):
        header = {"typ": "dpop+jwt", "alg": key.kind, "jwk": key.jwk}
        value = {"jti": "n-0123456789", "htm": "GET", "htu": url.split("?")[0], "iat": NOW}
        value.update({"ath": digest(token), **claims})
        return {"authorization": "DPoP " + token, "dpop": key.jws(header, value)}

    def get(name, headers, fault=None):
        return case(name, headers, fault, method="GET", body_=None)

    yield get("DPoP", dpop())
    yield get("DPoP for another method", dpop(htm="PUT"), "Request")
    yield get("DPoP for another URL", dpop(htu=AUDIENCE + "/raw"), "Request")
    yield get("DPoP for another token", dpop(ath=digest("x")), "Token")
    yield get("DPoP by another key", dpop(key=PILOT), "Key")


def key_proof():
    claims = {"aud": AUDIENCE, "sub": "cms/alice", "iat": NOW, "thumbprint": ALICE.thumbprint}
    proof = ALICE.jws({"typ": "bursar-key-proof+jwt", "alg": "ES256"}, claims)
    return {"jwk": ALICE.jwk, "audience": AUDIENCE, "principal": "cms/alice", "proof": proof}


def main():
    vectors = {
        "now": NOW,
        "audience": AUDIENCE,
        "keys": {
            name: {"jwk": key.private_jwk, "thumbprint": key.thumbprint}
            for name, key in KEYS.items()
        },
        "valid": [{"name": n, "token": t, **describe(t)} for n, t in valid()],
        "invalid": [
            {"name": n, "reason": r, "token": t}
            for cases in (invalid_roots(), invalid_children())
            for n, r, t in cases
        ],
        "proofs": list(proof_cases()),
        "keyProof": key_proof(),
    }
    json.dump(vectors, sys.stdout, indent=1)
    print()


main()
