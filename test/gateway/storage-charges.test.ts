// What storage costs its owner, over HTTP: by time, for objects that ended early, and what it keeps
// from being overwritten (docs/admin/charges.md).
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { md5Header, element as textOf } from '../fault/load.ts';
import { StorageGateway, usd } from './storage-rig.ts';

const gateway = new StorageGateway();
/** Of tests that start gateways. */
const startsTimeout = { timeout: 60_000 };
const send = gateway.send.bind(gateway);
const dayMs = 24 * 3_600_000;
const GB = 2n ** 30n;
/** By the book `lab-may`: 90 days, 256 KiB, $0.60 a GB and month. */
const minimumMs = 90n * BigInt(dayMs);
const small = 262_144n;

/** What is owed for one object of the least size at an age. */
function owed(ageMs: number): bigint {
  const dividend = small * (minimumMs - BigInt(ageMs)) * usd('0.60');
  const divisor = GB * 30n * BigInt(dayMs);
  return (dividend + divisor - 1n) / divisor;
}

async function put(path: string, text = 'some text'): Promise<void> {
  const { status, body } = await send('PUT', path, { body: Buffer.from(text) });
  if (status !== 200) throw new Error(body.toString());
}

async function createdMs(key: string): Promise<number> {
  const sql = `SELECT created_ms AS ms FROM versions WHERE key = ?`;
  return (await gateway.read<{ ms: number }>(sql, key))[0]?.ms as number;
}

async function billedOf(bucket: string): Promise<bigint> {
  const sql = `SELECT CAST(sum(billed_bytes) AS TEXT) AS bytes FROM quota_storage WHERE bucket = ?`;
  const [row] = await gateway.read<{ bytes: string | null }>(sql, bucket);
  return BigInt(row?.bytes ?? 0);
}

interface Upload {
  uploadId: string;
  etag: string;
}

/** Begins an upload, with a part of three bytes. */
async function beginUpload(path: string): Promise<Upload> {
  const begun = await send('POST', path, { query: [['uploads', '']] });
  const uploadId = textOf(begun.body, 'UploadId');
  const query: [string, string][] = [
    ['partNumber', '1'],
    ['uploadId', uploadId],
  ];
  const { headers } = await send('PUT', path, { query, body: Buffer.from('abc') });
  return { uploadId, etag: String(headers.etag) };
}

function complete(path: string, { uploadId, etag }: Upload) {
  const part = `<Part><PartNumber>1</PartNumber><ETag>${etag}</ETag></Part>`;
  const body = Buffer.from(`<CompleteMultipartUpload>${part}</CompleteMultipartUpload>`);
  return send('POST', path, { query: [['uploadId', uploadId]], body });
}

beforeAll(() => gateway.serve(), 60_000);
afterAll(() => gateway.stop());

async function makeBucket(name: string): Promise<void> {
  expect((await send('PUT', `/${name}`)).status).toBe(200);
}

describe('an object', () => {
  it('is billed at least at its class’s minimum, and a part as it is', async () => {
    await makeBucket('sizes');
    await put('/sizes/small');
    expect(await billedOf('sizes')).toBe(small);
    await put('/sizes/large', 'x'.repeat(300_000));
    expect(await billedOf('sizes')).toBe(small + 300_000n);
    const upload = await beginUpload('/sizes/parts');
    expect(await billedOf('sizes')).toBe(small + 300_003n);
    expect((await complete('/sizes/parts', upload)).status).toBe(200);
    expect(await billedOf('sizes')).toBe(2n * small + 300_000n);
    await send('PUT', '/sizes/copy', { headers: { 'x-amz-copy-source': '/sizes/small' } });
    expect(await billedOf('sizes')).toBe(3n * small + 300_000n);
    for (const key of ['small', 'large', 'parts', 'copy']) await send('DELETE', `/sizes/${key}`);
    expect(await billedOf('sizes')).toBe(0n);
  });

  it('that is deleted early costs its owner the rest, whatever limits say', async () => {
    await makeBucket('early');
    await put('/early/object');
    const bornMs = await createdMs('object');
    const before = await gateway.spent('bucket:default/early');
    await gateway.setLimits('bucket:default/early', { spend: { total: '0' } });
    expect((await send('DELETE', '/early/object')).status).toBe(204);
    const { time, storageCost, cost } = await gateway.lastOf('s3:DeleteObject');
    const rest = owed(Date.parse(time) - bornMs);
    expect([usd(cost), usd(storageCost)]).toEqual([0n, rest]);
    expect(await gateway.spent('bucket:default/early')).toBe(before + rest);
    const refused = await send('GET', '/early/object');
    expect(textOf(refused.body, 'Message')).toContain(
      'or storage took it there. It is never reset.',
    );
  });
});

describe('an object that a snapshot holds', () => {
  it('is stored on, and what is owed for it is charged when it is let go of', async () => {
    await makeBucket('frozen');
    await put('/frozen/object');
    const bornMs = await createdMs('object');
    const snapshot = '/_/v1/tenants/default/buckets/frozen/snapshots/before';
    const headers = { 'content-type': 'application/json' };
    const made = await send('PUT', snapshot, { body: Buffer.from('{}'), headers });
    expect(made.status).toBe(200);
    await gateway.setLimits('bucket:default/frozen', { spend: { total: '0' } });
    expect((await send('DELETE', '/frozen/object')).status).toBe(204);
    expect((await gateway.lastOf('s3:DeleteObject')).storageCost).toBeUndefined();
    expect(await billedOf('frozen')).toBe(small);
    const before = await gateway.spent('bucket:default/frozen');
    expect((await send('DELETE', snapshot)).status).toBe(204);
    const released = await gateway.lastOf('bursar:ReleaseHeld');
    const rest = owed(Date.parse(released.time) - bornMs);
    expect([released.principal, usd(released.storageCost)]).toEqual(['admin', rest]);
    expect(await billedOf('frozen')).toBe(0n);
    expect(await gateway.spent('bucket:default/frozen')).toBe(before + rest);
  });
});

describe('a version that is kept', () => {
  it('goes on being stored, and what is owed for it is charged when it ends', async () => {
    await makeBucket('history');
    await put('/history/object', 'the old text');
    const bornMs = await createdMs('object');
    const enabled = '<Status>Enabled</Status>';
    const body = Buffer.from(`<VersioningConfiguration>${enabled}</VersioningConfiguration>`);
    const versioning = { query: [['versioning', '']] as [string, string][], body };
    const { status } = await send('PUT', '/history', { ...versioning, headers: md5Header(body) });
    expect(status).toBe(200);
    const before = await gateway.spent('bucket:default/history');
    await put('/history/object');
    expect((await gateway.lastOf('s3:PutObject')).storageCost).toBeUndefined();
    expect(await billedOf('history')).toBe(2n * small);
    expect((await send('DELETE', '/history/object')).headers['x-amz-delete-marker']).toBe('true');
    expect(await billedOf('history')).toBe(2n * small);
    const asked = await gateway.spent('bucket:default/history');
    const query: [string, string][] = [['versionId', 'null']];
    expect((await send('DELETE', '/history/object', { query })).status).toBe(204);
    const { time, storageCost } = await gateway.lastOf('s3:DeleteObjectVersion');
    const rest = owed(Date.parse(time) - bornMs);
    expect(usd(storageCost)).toBe(rest);
    expect(await gateway.spent('bucket:default/history')).toBe(asked + rest);
    expect(asked - before).toBeLessThan(rest);
    expect(await billedOf('history')).toBe(small);
  });

  it('leaves a bucket with a limit on what is stored only what it does not take', async () => {
    await makeBucket('bound');
    const body = Buffer.from(
      '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
    );
    const versioning = { query: [['versioning', '']] as [string, string][], body };
    await send('PUT', '/bound', { ...versioning, headers: md5Header(body) });
    await gateway.setLimits('bucket:default/bound', { storedObjects: { total: 2 } });
    await put('/bound/object');
    await put('/bound/object');
    const refused = await send('PUT', '/bound/object', { body: Buffer.from('more') });
    expect([refused.status, textOf(refused.body, 'Code')]).toEqual([403, 'QuotaExceeded']);
    expect((await send('DELETE', '/bound/object')).status).toBe(204);
  });
});

describe('an overwrite', () => {
  let upload: Upload;
  beforeAll(async () => {
    await makeBucket('full');
    await put('/full/object', 'the old text');
    await put('/full/other');
    upload = await beginUpload('/full/object');
  });

  it.each([
    ['a PUT', () => send('PUT', '/full/object', { body: Buffer.from('another') })],
    [
      'a copy',
      () => send('PUT', '/full/object', { headers: { 'x-amz-copy-source': '/full/other' } }),
    ],
    ['a completed upload', () => complete('/full/object', upload)],
  ])('by %s is refused when what is then owed for the old object is too much', async (_, write) => {
    const bucket = 'bucket:default/full';
    const spent = await gateway.spent(bucket);
    const billed = await billedOf('full');
    // It leaves enough for the minimum of the new object, or for what is owed for the old one.
    const limit = spent + (owed(0) * 3n) / 2n;
    const total = `0.${String(limit).padStart(12, '0')}`;
    await gateway.setLimits(bucket, { spend: { total } });

    const answer = await write();
    expect([answer.status, textOf(answer.body, 'Code')]).toEqual([403, 'QuotaExceeded']);
    expect(textOf(answer.body, 'Account')).toBe(bucket);
    expect(usd(textOf(answer.body, 'Max'))).toBe(limit);
    const asked = usd(textOf(answer.body, 'Asked'));
    expect(asked > 0n && asked <= owed(0)).toBe(true);
    const refused = await gateway.lastOf('s3:PutObject');
    expect(refused).toMatchObject({ status: 403, error: 'QuotaExceeded', bucket: 'full' });
    for (const name of ['cost', 'storageCost', 'bucketOwner']) {
      expect(refused).not.toHaveProperty(name);
    }
    expect(await billedOf('full')).toBe(billed);
    expect((await send('GET', '/full/other')).status).toBe(200);

    // What it had set aside is free again: another key fits.
    await put('/full/new');
    expect((await send('GET', '/full/object')).body.toString()).toBe('the old text');
    await gateway.setLimits(bucket, { spend: { total: '9' } });
    expect((await send('DELETE', '/full/new')).status).toBe(204);
  });

  it('never overshoots a limit, however many come at once', startsTimeout, async () => {
    const account = 'bucket:default/crowd';
    await makeBucket('crowd');
    const limit = 10n * owed(0);
    await gateway.setLimits(account, { spend: { total: `0.${String(limit).padStart(12, '0')}` } });
    const keys = Array.from({ length: 90 }, (_, i) => `/crowd/${i % 3}`);
    const answers = await Promise.all(
      keys.map((path) => send('PUT', path, { body: Buffer.from('text') })),
    );
    const stored = keys.filter((_, i) => answers[i]?.status === 200);
    const refused = answers.filter(({ body }) => textOf(body, 'Code') === 'QuotaExceeded');
    expect([stored.length > 3, stored.length + refused.length]).toEqual([true, 90]);
    const spent = await gateway.spent(account);
    // The last of each key is there; those before it ended early.
    const kept = new Set(stored).size;
    expect(spent > BigInt(stored.length - kept) * owed(60_000) && spent <= limit).toBe(true);
    expect(await billedOf('crowd')).toBe(BigInt(kept) * small);
    const { counted, summed } = await gateway.compareSpent();
    expect(summed).toEqual(counted);
  });

  it('that is paid for costs the rest of the old object', async () => {
    await makeBucket('twice');
    await put('/twice/replaced', 'first');
    const bornMs = await createdMs('replaced');
    await put('/twice/replaced', 'second');
    const { time, storageCost } = await gateway.lastOf('s3:PutObject');
    expect(usd(storageCost)).toBe(owed(Date.parse(time) - bornMs));
    expect(await billedOf('twice')).toBe(small);
  });
});

describe('an upload', () => {
  it('is refused at its begin when its minimum of storage cannot be paid', async () => {
    const bucket = 'bucket:default/poor';
    await makeBucket('poor');
    await gateway.setLimits(bucket, { spend: { total: '0.0004' } });
    const answer = await send('PUT', '/poor/object', { body: Buffer.from('text') });
    expect([answer.status, textOf(answer.body, 'Code')]).toEqual([403, 'QuotaExceeded']);
    expect(usd(textOf(answer.body, 'Asked'))).toBe(owed(0));
    await gateway.setLimits(bucket, { spend: { total: '0.0005' } });
    await put('/poor/object');
    // Nothing of it is charged before its time.
    expect(await gateway.spent(bucket)).toBe(usd('0.000005'));
  });
});

describe('storage', () => {
  it(
    'is charged from kill to start too, whatever the limits say, and once',
    startsTimeout,
    async () => {
      await makeBucket('kept');
      await put('/kept/object', 'x'.repeat(2 ** 20));
      await gateway.setLimits('bucket:default/kept', { spend: { total: '0.0000055' } });
      const charges = async () =>
        (await gateway.records('bursar:ChargeStorage')).filter(({ bucket }) => bucket === 'kept');
      const before = (await charges()).length;
      await gateway.kill();
      // Storage of one month under one book, whatever the day of this test is.
      await gateway.shift(3_600_000);
      await gateway.serve();
      // Other buckets are charged before it, each with a record of its own.
      await expect.poll(async () => (await charges()).length).toBeGreaterThan(before);
      await gateway.kill();
      await gateway.serve();
      const records = await charges();
      const byteMs = records.reduce((sum, one) => sum + BigInt(one.byteMs ?? 0), 0n);
      const [first] = records;
      const [fromMs, toMs] = [first, records.at(-1)].map((one, i) =>
        Date.parse(one?.period?.split('/')[i] ?? ''),
      );
      expect(byteMs).toBe(2n ** 20n * BigInt((toMs ?? 0) - (fromMs ?? 0)));
      expect(first).toMatchObject({
        principal: 'admin',
        bucketOwner: 'admin',
        class: 'STANDARD',
        priceBook: 'lab-may',
        status: 200,
      });
      const { counted, summed } = await gateway.compareSpent();
      expect(summed).toEqual(counted);
      expect(await gateway.spent('bucket:default/kept')).toBeGreaterThan(usd('0.0000055'));
      expect((await send('GET', '/kept/object')).status).toBe(403);
      expect((await send('DELETE', '/kept/object')).status).toBe(204);
    },
  );

  it('is charged to its end with the deletion of its bucket', async () => {
    await makeBucket('ended');
    await put('/ended/object', 'x'.repeat(2 ** 20));
    await send('DELETE', '/ended/object');
    const before = await gateway.spent('bucket:default/ended');
    expect((await send('DELETE', '/ended')).status).toBe(204);
    const { storageCost } = await gateway.lastOf('s3:DeleteBucket');
    expect(usd(storageCost)).toBeGreaterThan(0n);
    expect(await gateway.spent('bucket:default/ended')).toBe(before + usd(storageCost));
    expect(await gateway.read('SELECT * FROM quota_storage WHERE bucket = ?', 'ended')).toEqual([]);
    const { counted, summed } = await gateway.compareSpent();
    expect(summed).toEqual(counted);
  });
});
