// The same attacks on a gateway that keeps its objects in a real S3 server: who can write to the
// bucket, or to the database beside it, changes nothing unseen.
import { StoredExtents } from '../tooling/attacks.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type AttackTarget, describeAttacks } from './attack-suite.ts';
import { startBackedGateway, storeName } from './backed-gateway.ts';
import { describeRowAttacks } from './row-attack-suite.ts';

describeWithTool(versitygw, 'attacks on an S3 store', (path) => {
  async function start(): Promise<AttackTarget> {
    const { gateway, storeDir, stop } = await startBackedGateway({ path });
    return { gateway, storeName, extents: StoredExtents.ofBackendFolder(storeDir), stop };
  }

  describeAttacks('on extents in the bucket', start);
  describeRowAttacks('on rows of objects in the bucket', start);
});
