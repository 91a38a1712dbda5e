// How a gateway stops while something that it waits for does not come.
import { expect, it, vi } from 'vitest';
import { startBackedGateway } from '../fault/backed-gateway.ts';
import { S3Client } from '../fault/s3-client.ts';
import { FaultProxy } from '../tooling/fault-proxy.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';

vi.setConfig({ testTimeout: 120_000 });

describeWithTool(versitygw, 'a gateway that is told to stop', (path) => {
  it('ends in order though a sweep hangs in its store', async () => {
    let proxy: FaultProxy | undefined;
    const served = await startBackedGateway({
      path,
      endpointOf: async ({ port }) => {
        proxy = await FaultProxy.start(port);
        return proxy.endpoint;
      },
      // Longer than a test waits for the end of a gateway.
      settings: { firstByteTimeout: '5m' },
      args: ['--sweep-interval', '100ms', '--sweep-grace', '0ms'],
    });
    const client = new S3Client(served.gateway);
    expect((await client.send('PUT', '/held')).status).toBe(200);
    const body = Buffer.alloc(1000);
    expect((await client.send('PUT', '/held/object', { body })).status).toBe(200);
    (proxy as FaultProxy).choose = ({ method }) =>
      method === 'DELETE' ? { kind: 'stall', at: 'answer' } : undefined;
    // Its extent is to be swept.
    expect((await client.send('DELETE', '/held/object')).status).toBe(204);
    await vi.waitFor(() => expect(proxy?.faults.stall).toBeGreaterThan(0), 20_000);
    // Throws when it has to be killed.
    await served.stop();
    client.close();
    await proxy?.stop();
  });
});
