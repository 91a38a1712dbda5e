// Attacks on a gateway that keeps everything in its data folder.
import { StoredExtents } from '../tooling/attacks.ts';
import { startServedGateway } from '../tooling/served-gateway.ts';
import { type AttackTarget, describeAttacks } from './attack-suite.ts';
import { describeRowAttacks } from './row-attack-suite.ts';

async function start(): Promise<AttackTarget> {
  const gateway = await startServedGateway();
  return {
    gateway,
    storeName: 'local',
    extents: StoredExtents.ofDataFolder(gateway.dataDir),
    stop: () => gateway.stop(),
  };
}

describeAttacks('attacks on extents of the local store', start);
describeRowAttacks('attacks on rows of objects in the local store', start);
