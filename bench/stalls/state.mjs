// What the largest answers are made of: long keys, versions, uploads, objects of 10,000 parts,
// grants and principals. Parts and versions are written behind the gateway's back by its own code,
// since those that S3 lets be completed have 5 MiB each; the rest is asked for.
import { join } from 'node:path';
import { openBulkLedger } from '../growth/bulk-ledger.mjs';
import { stopAll } from '../processes.mjs';
import { startGateway } from '../servers.mjs';
import { Asker, nativeMessage } from './asking.mjs';
import { longKey, many, metadata } from './documents.mjs';

/** All objects of parts are in here. */
export const bucket = 'stalls';
/** Nothing but long keys and versions of them; and nothing but rules. */
export const listed = 'stalls-listed';
export const ruled = 'stalls-ruled';
const partBytes = 5 * 1024 * 1024;
const source = 'source';
/** Of what is copied: an object may have 5 GiB then. */
const copiedParts = 1000;
/** Of an upload that takes them; what they say of the data does not matter here. */
const partChecksum = Buffer.alloc(8, 7).toString('base64');

/**
 * @typedef {object} Effort
 * @property {number} parts of an upload, 10,000 at most
 * @property {number} uploads of so many parts that are there to be completed
 * @property {number} entries of a listing's page, 1,000 at most
 */

/**
 * A gateway on a folder in `dir` with all of it.
 * @param {string} dir
 * @param {Effort} effort
 */
export async function startFilled(dir, { parts, uploads, entries }) {
  const { target } = await startGateway({ dir });
  const asker = new Asker(target, 16);
  for (const name of [bucket, listed, ruled]) {
    await asker.demand({ method: 'PUT', path: `/${name}` });
  }
  // Its policy lets everybody in.
  const query = [['publicAccessBlock', '']];
  await asker.demand({ method: 'DELETE', path: `/${ruled}`, query });
  await asker.demand({
    method: 'PUT',
    path: `/${bucket}/${source}`,
    body: Buffer.alloc(partBytes),
  });
  await asker.demand({ method: 'PUT', path: `/${listed}/${source}`, headers: metadata, body: 'x' });
  const begun = await beginUploads(asker, { parts, uploads, entries });
  await putAdministration(asker, entries);
  asker.close();
  await stopAll();

  const ledger = await openBulkLedger(join(dir, 'bursar'));
  const changes = await ledger.changesOf(bucket);
  for (const { id, key, parts: count } of begun) {
    const part = { sizeBytes: partBytes, checksum: partChecksum };
    await ledger.commit(count, (i) =>
      changes.putPart({ uploadId: id, key, number: i + 1, ...part }),
    );
  }
  const keys = await ledger.changesOf(listed);
  await ledger.commit(1, () => keys.enableVersioning());
  await ledger.commit(2 * entries, (i) => keys.copyTo(longKey(i >> 1)));
  // Of a page of folded prefixes each is sought.
  await ledger.commit(3 * entries, (i) => keys.copyTo(`${longKey((i / 3) | 0)}/${i % 3}`));
  await ledger.close();
  return { server: await startGateway({ dir }), begun };
}

/** Those of parts, and so many without any, to be listed. */
async function beginUploads(asker, { parts, uploads, entries }) {
  const headers = { 'x-amz-checksum-algorithm': 'CRC64NVME', 'x-amz-checksum-type': 'FULL_OBJECT' };
  const begin = async (key, more) => {
    const path = `/${bucket}/${key}`;
    const message = { method: 'POST', path, query: [['uploads', '']], ...more };
    return /<UploadId>([^<]+)</.exec(await asker.demand(message))[1];
  };
  const begun = [];
  for (let i = 0; i < uploads; i++) {
    const key = `of-parts/${i}`;
    begun.push({ key, parts, id: await begin(key, { headers }) });
  }
  const key = 'of-fewer-parts';
  begun.push({ key, parts: Math.min(parts, copiedParts), id: await begin(key, { headers }) });
  await asker.demandAll(entries, (i) => ({
    method: 'POST',
    path: `/${listed}/${longKey(i)}`,
    query: [['uploads', '']],
    headers: metadata,
  }));
  return begun;
}

/** Principals, and grants of a hundred of them, no more than a few in one place. */
async function putAdministration(asker, entries) {
  const principals = 'tenants/default/principals';
  await asker.demandAll(entries, (i) =>
    nativeMessage('POST', principals, { name: `p${i}`, kind: 'robot' }),
  );
  const subjects = many(Math.min(entries, 100), (i) => `principal:default/p${i}`);
  const rule = { effect: 'allow', subjects, actions: ['s3:GetObject'], bucket: listed };
  await asker.demandAll(entries, (i) => {
    const prefix = `${'g'.repeat(900)}${i}/`;
    return nativeMessage('PUT', `tenants/default/grants/g${i}`, { ...rule, prefix });
  });
}
