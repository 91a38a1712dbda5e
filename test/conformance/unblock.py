"""pytest plugin for ceph/s3-tests, which expects of AWS what was so until 2023: that policies can
open a bucket as soon as it is made, and that whoever cleans up may say everywhere that governance
retention is bypassed. Now a new bucket blocks public access, so its block is taken away once it is
made, as AWS tells those to do who want to open one; and what bypasses nothing does not say so.
What tests do afterwards, and by themselves, stays so.
"""
import botocore.client
import botocore.exceptions

BYPASS = 'BypassGovernanceRetention'


def pytest_configure(config):
    call = botocore.client.BaseClient._make_api_call

    def calling(self, operation, parameters):
        try:
            answer = call(self, operation, parameters)
        except botocore.exceptions.ClientError as error:
            wrong = error.response['Error'].get('ArgumentName')
            if BYPASS not in parameters or wrong != 'x-amz-bypass-governance-retention':
                raise
            kept = {name: value for name, value in parameters.items() if name != BYPASS}
            answer = call(self, operation, kept)
        if operation == 'CreateBucket':
            call(self, 'DeletePublicAccessBlock', {'Bucket': parameters['Bucket']})
        return answer

    botocore.client.BaseClient._make_api_call = calling
