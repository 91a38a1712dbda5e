"""pytest plugin for ceph/s3-tests, which expects of AWS what was so until 2023: that whoever
cleans up may say everywhere that governance retention is bypassed. Now what bypasses nothing does
not say so. What tests do afterwards, and by themselves, stays so.
"""
import botocore.client
import botocore.exceptions

BYPASS = 'BypassGovernanceRetention'


def pytest_configure(config):
    call = botocore.client.BaseClient._make_api_call

    def calling(self, operation, parameters):
        try:
            return call(self, operation, parameters)
        except botocore.exceptions.ClientError as error:
            wrong = error.response['Error'].get('ArgumentName')
            if BYPASS not in parameters or wrong != 'x-amz-bypass-governance-retention':
                raise
            kept = {name: value for name, value in parameters.items() if name != BYPASS}
            return call(self, operation, kept)

    botocore.client.BaseClient._make_api_call = calling
