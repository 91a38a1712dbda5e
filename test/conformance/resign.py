"""pytest plugin for ceph/s3-tests: its HTML forms are signed by Signature Version 2, which Bursar
does not take. Each gets a Version 4 signature of the same policy, by the same key, before it is
sent. A form that was not signed, was signed wrongly or lacks something stays so.
Follows "Authenticating HTTP POST requests" of the Amazon S3 API reference.
"""
import base64
import datetime
import hashlib
import hmac
import json

import requests

REGION = 'us-east-1'


def to_bytes(value):
    return value.encode() if isinstance(value, str) else value


def sign(key, data, algorithm=hashlib.sha256):
    return hmac.new(key, to_bytes(data), algorithm)


def secret_of(access_key):
    from s3tests import functional
    known = functional.config
    for who in ('main', 'alt', 'tenant'):
        if getattr(known, who + '_access_key') == access_key:
            return getattr(known, who + '_secret_key').encode()
    return b''


def add_conditions(policy, fields):
    """The policy with a condition for each of the fields; one that is no policy stays as it is."""
    try:
        document = json.loads(base64.b64decode(policy))
        document['conditions'].extend({name: value} for name, value in fields.items())
        return base64.b64encode(json.dumps(document).encode())
    except (ValueError, KeyError, TypeError, AttributeError):
        return policy


def resign(form):
    names = {name.lower(): name for name in form}
    if 'awsaccesskeyid' not in names or 'policy' not in names:
        return form
    access_key = to_bytes(form[names['awsaccesskeyid']]).decode()
    secret = secret_of(access_key)
    policy = to_bytes(form[names['policy']])
    given = to_bytes(form[names['signature']]) if 'signature' in names else None
    was_right = given == base64.b64encode(sign(secret, policy, hashlib.sha1).digest())

    now = datetime.datetime.now(datetime.timezone.utc)
    scope = [now.strftime('%Y%m%d'), REGION, 's3', 'aws4_request']
    fields = {
        'x-amz-algorithm': 'AWS4-HMAC-SHA256',
        'x-amz-credential': '/'.join([access_key, *scope]),
        'x-amz-date': now.strftime('%Y%m%dT%H%M%SZ'),
    }
    policy = add_conditions(policy, fields)
    key = b'AWS4' + secret
    for part in scope:
        key = sign(key, part).digest()
    signature = sign(key, policy).hexdigest()

    signed = {}
    for name, value in form.items():
        if name == names['awsaccesskeyid']:
            signed.update(fields)
        elif name == names['policy']:
            signed[name] = policy
        elif name == names.get('signature'):
            signed['x-amz-signature'] = signature if was_right else signature[::-1]
        else:
            signed[name] = value
    return signed


def pytest_configure(config):
    send = requests.Session.request

    def request(self, *arguments, **options):
        if isinstance(options.get('files'), dict):
            options['files'] = resign(options['files'])
        return send(self, *arguments, **options)

    requests.Session.request = request
