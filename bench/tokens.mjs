// What it costs the gateway to know who asks. The same small GETs with Signature V4, with bearer
// tokens of one and of four links, and with a token that is bound to a key and an HTTP signature on
// each request; all of one gateway, by short turns.
import { hash } from 'node:crypto';
import { delegate } from '#bursar/authz/tokens/delegate.js';
import { generatePrivateKey, renderPrivateKey } from '#bursar/authz/tokens/keys.js';
import { signRequest } from '#bursar/core/sigv4.js';
import { interval, number, table } from './markdown.mjs';
import { pause } from './processes.mjs';
import { startGateway } from './servers.mjs';
import {
  bucket,
  compareInTurns,
  explainTurns,
  goalsOfTurns,
  ratioBetween,
  smallWorkload,
  storeSmallObjects,
  withLoadTool,
} from './short-turns.mjs';
import { median } from './statistics.mjs';

const linksMany = 4;

/** @param {{dir: string, effort: {pairs: number}, say: (line: string) => void}} options */
export function benchTokens({ dir, effort: { pairs: rounds }, say }) {
  return withLoadTool(async (tool) => {
    const server = await startGateway({ dir });
    await storeSmallObjects(server.target, tool);
    const ways = await makeWays(server.target);
    pause(server);
    // The same gateway for all: what differs is what the load tool sends.
    const servers = Object.fromEntries(Object.keys(ways).map((way) => [way, server]));
    const workload = { ...smallWorkload('get', 32), planFor: ({ server: way }) => ways[way] };
    const workloads = [workload];
    const compared = await compareInTurns(servers, { workloads, rounds, tool, say });
    return { rounds, compared };
  });
}

/** What of the plan each way has: nothing is Signature V4. */
async function makeWays(target) {
  const key = generatePrivateKey('EdDSA');
  const token = await askForToken(target, { jwk: key.publicKey.jwk });
  let long = token;
  for (let links = 2; links <= linksMany; links++) {
    const holder = links < linksMany ? key.publicKey : undefined;
    long = delegate(long, { key, holder, nowMs: Date.now() }).token;
  }
  return {
    sigv4: {},
    'bearer-1': { bearer: { token: await askForToken(target) } },
    [`bearer-${linksMany}`]: { bearer: { token: long } },
    rfc9421: { bearer: { token, privateKey: renderPrivateKey(key, 'jwk') } },
  };
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

/** What longer chains and signatures of requests must leave of the throughput of others. */
export const goalsOfTokens = ({ compared }) => [
  ...goalsOfTurns(compared, { ours: `bearer-${linksMany}`, other: 'bearer-1', goal: 0.95 }),
  ...goalsOfTurns(compared, { ours: 'rfc9421', other: 'sigv4', goal: 0.75 }),
];

export function describeTokens({ rounds, compared: [compared] }) {
  const [sigv4, short] = Object.keys(compared.turns);
  const ratio = (ours, other, of) => interval(ratioBetween(compared, { ours, other, of }));
  const middle = (way, of) => number(median(compared.turns[way].map((turn) => turn[of])));
  return [
    `${compared.title}, of one gateway: with Signature V4, with bearer tokens of one and of ` +
      `${linksMany}`,
    'links, and with a token that is bound to a key, whose holder signs each request (RFC 9421).',
    explainTurns(rounds),
    '',
    ...table({
      head: [
        ...['Credential', 'requests/s', 'CPU ms a request', `throughput, by ${sigv4}’s`],
        ...[`CPU, by ${sigv4}’s`, `throughput, by ${short}’s`, `CPU, by ${short}’s`],
      ],
      rows: Object.keys(compared.turns).map((way) => [
        way,
        middle(way, 'perSecond'),
        middle(way, 'cpuMs'),
        ...[sigv4, short].flatMap((other) => [
          ratio(way, other, 'perSecond'),
          ratio(way, other, 'cpuMs'),
        ]),
      ]),
    }),
  ];
}
