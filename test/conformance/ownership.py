"""pytest plugin for ceph/s3-tests, which expects of AWS what was so until 2023: that a bucket can
be made with an access control list, without saying that it allows lists. Now who makes such a
bucket says so. Buckets that are made without a list are made as the test does.
"""
import botocore.client

OWNERSHIP = 'ObjectOwnership'


def pytest_configure(config):
    call = botocore.client.BaseClient._make_api_call

    def calling(self, operation, parameters):
        if operation == 'CreateBucket' and 'ACL' in parameters and OWNERSHIP not in parameters:
            parameters = {**parameters, OWNERSHIP: 'ObjectWriter'}
        return call(self, operation, parameters)

    botocore.client.BaseClient._make_api_call = calling
