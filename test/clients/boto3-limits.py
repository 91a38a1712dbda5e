"""How boto3 takes refusals, one function per promise; run as: SCRIPT ENDPOINT FUNCTION MODE BUCKET.

Keys come from the AWS environment variables; MODE is one of botocore's retry modes. Prints what the
test wants to know, as JSON.
"""

import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError


def connect(endpoint, mode):
    retries = {"mode": mode, "total_max_attempts": 5}
    config = Config(s3={"addressing_style": "path"}, retries=retries)
    return boto3.client("s3", endpoint_url=endpoint, config=config)


def tell(call):
    """What the client says of a refusal; fails if there is none."""
    try:
        call()
    except ClientError as error:
        return {
            "code": error.response["Error"]["Code"],
            "account": error.response["Error"].get("Account"),
            "status": error.response["ResponseMetadata"]["HTTPStatusCode"],
            "retries": error.response["ResponseMetadata"]["RetryAttempts"],
            "text": str(error),
        }
    raise AssertionError("it was not refused")


def over_budget(s3, bucket):
    put = tell(lambda: s3.put_object(Bucket=bucket, Key="large", Body=b"x" * 200_000))
    get = tell(lambda: s3.get_object(Bucket=bucket, Key="stored"))
    part = s3.get_object(Bucket=bucket, Key="stored", Range="bytes=0-99")["Body"].read()
    return {"put": put, "get": get, "range": len(part)}


def over_rate(s3, bucket):
    retries = 0
    for i in range(25):
        answer = s3.put_object(Bucket=bucket, Key=f"k{i}", Body=b"content")
        retries += answer["ResponseMetadata"]["RetryAttempts"]
    return {"retries": retries}


if __name__ == "__main__":
    _, endpoint, promise, mode, own_bucket = sys.argv
    print(json.dumps(globals()[promise](connect(endpoint, mode), own_bucket)))
