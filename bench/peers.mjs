// Measures the gateway beside its peers, in turns, on a local disk or with the bytes in S3.
import { resolve } from 'node:path';
import { findBinary, peersOf, startServers } from './servers.mjs';
import { measureInTurns, readyServers } from './turns.mjs';
import { workloadsOf } from './workloads.mjs';

/**
 * @param {'embedded' | 's3'} name
 * @param {{dir: string, effort: object, choice: {only?: string[], gateway: boolean, peers: boolean,
 *   profile?: string}, say: (line: string) => void}} options
 * @returns {Promise<import('./peers-report.mjs').Path>}
 */
export async function benchPath(name, { dir, effort, choice, say }) {
  const { only, gateway, peers, profile } = choice;
  if (name === 's3' && !findBinary('versitygw')) {
    throw new Error('versitygw was not found (VERSITYGW, or on PATH)');
  }
  const workloads = workloadsOf[name].filter((one) => only?.includes(one.name) ?? true);
  const profileDir = profile === undefined ? undefined : resolve(profile, name);
  const servers = await startServers(name, { dir, gateway, peers, profileDir });
  // A profile shall show the workloads only.
  const warm = profile === undefined && effort.warmupSeconds > 0.5;
  await readyServers(servers, { workloads: workloadsOf[name], warm });
  return {
    name,
    servers: servers.map((server) => ({ name: server.name, version: server.version })),
    missing: peers ? peersOf[name].filter((peer) => !findBinary(peer)) : [],
    effort,
    measurements: await measureInTurns(servers, { workloads, ...effort, say }),
  };
}
