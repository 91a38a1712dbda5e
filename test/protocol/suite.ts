// The whole protocol suite, as a function of the gateway that it is held against. What is decided
// without asking a store is left out of the run on another store, unless BURSAR_FULL=1.
import { afterAll, beforeAll, describe } from 'vitest';
import { describeAccess } from './suite/access.ts';
import { describeBadInput } from './suite/bad-input.ts';
import { describeBucketSettings } from './suite/bucket-settings.ts';
import { describeBuckets } from './suite/buckets.ts';
import { describeConditions } from './suite/conditions.ts';
import { describeCors } from './suite/cors.ts';
import { describeCustomerKeys } from './suite/customer-keys.ts';
import { describeDigests } from './suite/digests.ts';
import { describeEncryption } from './suite/encryption.ts';
import { describeKeys } from './suite/keys.ts';
import { describeLifecycle } from './suite/lifecycle.ts';
import { describeListing } from './suite/listing.ts';
import { describeMultipart } from './suite/multipart.ts';
import { describeMultipartChecksums } from './suite/multipart-checksums.ts';
import { describeNotImplemented } from './suite/not-implemented.ts';
import { describeObjectLock } from './suite/object-lock.ts';
import { describeObjects } from './suite/objects.ts';
import { describePolicies } from './suite/policies.ts';
import { describePostForms } from './suite/post-forms.ts';
import { describePostPolicies } from './suite/post-policies.ts';
import { describePublicAccess } from './suite/public-access.ts';
import { describeRanges } from './suite/ranges.ts';
import { describeReceipts } from './suite/receipts.ts';
import { describeRecordedAnswers } from './suite/recorded-answers.ts';
import { describeRecordedErrors } from './suite/recorded-errors.ts';
import { describeRecordedWords } from './suite/recorded-words.ts';
import { describeRename } from './suite/rename.ts';
import { describeStated } from './suite/stated.ts';
import { describeTenancy } from './suite/tenancy.ts';
import { describeWebsites } from './suite/websites.ts';
import type { StartTarget, Target } from './target.ts';

export interface SuiteOptions {
  /** Only what asks the store for something; default: no. */
  isOfStore?: boolean;
}

/** Describes every S3 operation against one gateway, started once. */
export function protocolSuite(
  name: string,
  startTarget: StartTarget,
  { isOfStore = false }: SuiteOptions = {},
): void {
  describe(name, () => {
    let target: Target;
    beforeAll(async () => {
      target = await startTarget();
    }, 60_000);
    afterAll(() => target?.stop(), 60_000);
    const targetOf = (): Target => target;
    describeBuckets(targetOf);
    describeBucketSettings(targetOf);
    describeObjects(targetOf);
    describeDigests(targetOf);
    describeEncryption(targetOf);
    describeCustomerKeys(targetOf);
    describeKeys(targetOf);
    describeMultipart(targetOf);
    describeMultipartChecksums(targetOf);
    describeRanges(targetOf);
    describeConditions(targetOf);
    describeRename(targetOf);
    describePostForms(targetOf);
    describeStated(targetOf);
    describeReceipts(targetOf);
    describeTenancy(targetOf);
    describeBadInput(targetOf, { isOfStore });
    if (isOfStore) return;
    describeRecordedErrors(targetOf);
    describeRecordedWords(targetOf);
    describeRecordedAnswers(targetOf);
    describeLifecycle(targetOf);
    describeObjectLock(targetOf);
    describeListing(targetOf);
    describeAccess(targetOf);
    describePolicies(targetOf);
    describePostPolicies(targetOf);
    describeCors(targetOf);
    describePublicAccess(targetOf);
    describeWebsites(targetOf);
    describeNotImplemented(targetOf);
  });
}
