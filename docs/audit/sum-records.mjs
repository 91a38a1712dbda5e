// Adds up audit records and compares the sums with the usage counters, account by account.
//
//   npx bursar usage --json > usage.json
//   npx bursar records --json > records.jsonl
//   node docs/audit/sum-records.mjs usage.json records.jsonl
//
// Take the two in this order, as an operator, while nobody else uses the gateway. Exits with 1 when
// a counter is not what the records say.
import { readFileSync } from 'node:fs';

const [, , usageFile, recordsFile] = process.argv;
const counters = ['requests', 'ingressBytes', 'egressBytes', 'storedBytes', 'storedObjects'];
const usage = new Map(JSON.parse(readFileSync(usageFile, 'utf8')).map((row) => [row.account, row]));
const lines = readFileSync(recordsFile, 'utf8').trimEnd().split('\n');
const all = lines.map((line) => JSON.parse(line));

// The counters were read before the record of their own reading was written.
const end = all.findLastIndex((record) => record.action === 'bursar:ListUsage');
if (end < 0) throw new Error('no record of `bursar usage`: take it first, then the records');
const records = all.slice(0, end);
records.forEach((record, i) => {
  if (record.index !== i) throw new Error(`record ${i} is missing`);
});

const sums = new Map();
const add = (account, amounts) => {
  const sum = sums.get(account) ?? Object.fromEntries(counters.map((name) => [name, 0]));
  for (const name in amounts) sum[name] += amounts[name];
  sums.set(account, sum);
};

const requests = new Set();
/** Who owns each bucket that is there, by `tenant/name`. */
const owners = new Map();

for (const record of records) {
  const { tenant, principal, action, status } = record;
  const { bytesIn, bytesOut, storedBytes, storedObjects } = record;
  const bucket = record.bucket === undefined ? undefined : `${tenant}/${record.bucket}`;
  // What the gateway does by itself is no request; several records of one request count once.
  const isFirst = record.evidence !== 'none' && !requests.has(record.requestId);
  requests.add(record.requestId);
  const transfer = { requests: Number(isFirst), ingressBytes: bytesIn, egressBytes: bytesOut };
  add(`principal:${tenant}/${principal}`, transfer);
  add(`tenant:${tenant}`, transfer);

  // A bucket is charged while it is there; a request that was not understood concerns none.
  const owner = owners.get(bucket);
  if (owner !== undefined && action !== 's3:Unknown') {
    const storage = { storedBytes, storedObjects };
    add(`bucket:${bucket}`, { ...transfer, ...storage });
    add(`principal:${tenant}/${owner}`, storage);
    add(`tenant:${tenant}`, storage);
  }
  if (action === 's3:CreateBucket' && status === 200) owners.set(bucket, principal);
  if (action === 's3:DeleteBucket' && status < 300) owners.delete(bucket);
}

let differences = 0;
for (const account of new Set([...usage.keys(), ...sums.keys()])) {
  for (const name of counters) {
    const [counted, summed] = [usage.get(account)?.[name] ?? 0, sums.get(account)?.[name] ?? 0];
    if (counted === summed) continue;
    differences += 1;
    console.log(`${account} ${name}: counted ${counted}, records say ${summed}`);
  }
}
console.log(`${records.length} records, ${sums.size} accounts, ${differences} differences`);
process.exitCode = differences === 0 ? 0 : 1;
