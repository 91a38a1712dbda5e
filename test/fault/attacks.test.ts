// Attacks on the extents of the local store.
import { StoredExtents } from '../tooling/attacks.ts';
import { startServedGateway } from '../tooling/served-gateway.ts';
import { describeAttacks } from './attack-suite.ts';

describeAttacks('extents on the local disk', async () => {
  const gateway = await startServedGateway();
  return {
    gateway,
    storeName: 'local',
    extents: StoredExtents.ofDataFolder(gateway.dataDir),
    stop: () => gateway.stop(),
  };
});
