// Versions, their tags, attributes and parts, on both stores.
import { afterAll, beforeAll, describe, vi } from 'vitest';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { describeObjectParts } from './suite/object-parts.ts';
import { describeObjectTagging } from './suite/object-tagging.ts';
import { describeVersionListing } from './suite/version-listing.ts';
import { describeVersioning } from './suite/versioning.ts';
import { type StartTarget, startEmbeddedTarget, startS3Target, type Target } from './target.ts';

vi.setConfig({ testTimeout: 30_000, hookTimeout: 60_000 });

function versioningSuite(name: string, startTarget: StartTarget): void {
  describe(name, () => {
    let target: Target;
    beforeAll(async () => {
      target = await startTarget();
    });
    afterAll(() => target?.stop());
    const targetOf = (): Target => target;
    describeVersioning(targetOf);
    describeVersionListing(targetOf);
    describeObjectTagging(targetOf);
    describeObjectParts(targetOf);
  });
}

versioningSuite('versions on the embedded store', startEmbeddedTarget);

describeWithTool(versitygw, 'with versitygw behind the gateway', (path) => {
  versioningSuite('versions on the S3 store', () => startS3Target(path));
});
