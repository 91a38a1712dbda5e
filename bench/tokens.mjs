// `npm run bench -- --path tokens`: what it costs the gateway to know who asks. The same small GETs
// with Signature V4, with bearer tokens of one and of four links, and with a token that is bound to
// a key and an HTTP signature on each request; all of one gateway, in turns.
import { hash } from 'node:crypto';
import { delegate } from '#bursar/authz/tokens/delegate.js';
import { generatePrivateKey, renderPrivateKey } from '#bursar/authz/tokens/keys.js';
import { signRequest } from '#bursar/core/sigv4.js';
import { checkObjects, makeBucket } from './control.mjs';
import { keyAt, makeBody } from './load.mjs';
import { cpuSecondsOf, settle, stopAll } from './processes.mjs';
import { median } from './report.mjs';
import { startServers } from './servers.mjs';
import { runLoad } from './turns.mjs';

const bucket = 'bench-small';
const keyPrefix = 'get';
const keyCount = 2000;
const sizeBytes = 4096;
const connections = 32;
const linksMany = 4;

/**
 * @param {{dir: string, rounds: number, seconds: number, say: (line: string) => void}} options
 * @returns {Promise<{way: string, perSecond: number[], cpuMs: number[]}[]>} by round
 */
export async function benchTokens({ dir, rounds, seconds, say }) {
  try {
    const [server] = await startServers('embedded', { dir, gateway: true, peers: false });
    const { target, pid } = server;
    await makeBucket(target, bucket);
    const plan = { target, bucket, keyPrefix, keyCount, sizeBytes };
    await runLoad({ ...plan, kind: 'fill', connections: 16 });
    const body = makeBody(sizeBytes);
    await checkObjects(target, { bucket, keys: [keyAt(keyPrefix, 7)], body });
    const ways = await makeWays(target);
    const results = ways.map(({ way }) => ({ way, perSecond: [], cpuMs: [] }));
    const timing = { kind: 'get', connections, seconds, warmupSeconds: 0.7 };
    for (const { bearer } of ways) await runLoad({ ...plan, ...timing, seconds: 1, bearer });
    for (let round = 1; round <= rounds; round++) {
      for (const [i, { way, bearer }] of ways.entries()) {
        await settle(server);
        const cpuBefore = cpuSecondsOf(pid);
        const load = await runLoad({ ...plan, ...timing, seed: round, bearer });
        if (load.errors > 0) throw new Error(`${way}: ${load.firstError}`);
        const cpuSeconds = cpuSecondsOf(pid) - cpuBefore;
        results[i].perSecond.push(load.perSecond);
        results[i].cpuMs.push((cpuSeconds * 1000) / (load.done + load.warmupDone));
        say(`tokens round ${round} ${way}: ${Math.round(load.perSecond)}/s`);
      }
    }
    return results;
  } finally {
    await stopAll();
  }
}

/** What each way sends: nothing is Signature V4. */
async function makeWays(target) {
  const key = generatePrivateKey('EdDSA');
  const token = await askForToken(target, { jwk: key.publicKey.jwk });
  let long = token;
  for (let links = 2; links <= linksMany; links++) {
    const holder = links < linksMany ? key.publicKey : undefined;
    long = delegate(long, { key, holder, nowMs: Date.now() }).token;
  }
  return [
    { way: 'sigv4' },
    { way: 'bearer-1', bearer: { token: await askForToken(target) } },
    { way: `bearer-${linksMany}`, bearer: { token: long } },
    { way: 'rfc9421', bearer: { token, privateKey: renderPrivateKey(key, 'jwk') } },
  ];
}

async function askForToken({ host, port, accessKeyId, secretAccessKey: secret }, cnf) {
  const body = JSON.stringify({ scope: `storage.read:/${bucket}`, expiresIn: 24 * 3600, cnf });
  const path = '/_/v1/tokens';
  const headers = { host: `${host}:${port}`, 'content-type': 'application/json' };
  const signed = signRequest({
    ...{ accessKeyId, secret, region: 'us-east-1', method: 'POST', path, query: [], headers },
    ...{ payloadHash: hash('sha256', body, 'hex'), timeMs: Date.now() },
  });
  const url = `http://${host}:${port}${path}`;
  const answer = await fetch(url, { method: 'POST', headers: { ...headers, ...signed }, body });
  if (answer.status !== 201) throw new Error(`no token: ${answer.status} ${await answer.text()}`);
  return (await answer.json()).token;
}

/** Rates, and their ratios within a round, where neighbours in time are compared. */
export function describeTokens(results) {
  const [sigv4, short] = results;
  const ratio = (name, one, other) =>
    median(one[name].map((value, round) => value / other[name][round])).toFixed(2);
  return results
    .map((one) => {
      const rate = `${median(one.perSecond).toFixed(0)}/s`;
      const cpu = `${median(one.cpuMs).toFixed(3)} ms of CPU each`;
      const beside = (other) =>
        `${other.way}'s: rate ${ratio('perSecond', one, other)} CPU ${ratio('cpuMs', one, other)}`;
      const ratios = [sigv4, short].map(beside).join('  ');
      return `${one.way.padEnd(10)} ${rate.padStart(8)}  ${cpu}  ${ratios}`;
    })
    .join('\n');
}
