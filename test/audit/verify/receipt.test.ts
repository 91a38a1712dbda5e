// What a receipt must not get away with: each byte of it counts, and so does whose key signed.
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { parseReceipt } from '#bursar/audit/receipt.js';
import { verifyReceipt } from '#bursar/audit/verify/receipt.js';
import type { Trust } from '#bursar/audit/verify/signed-checkpoint.js';
import { canonicalize } from '#bursar/core/canonical-json.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from '../../fuzz/seeded-random.ts';
import { cosign, makeSigner, makeWitness, openingOf, RecordedLog } from './recorded-log.ts';

/** They are computed in well under a second, on a machine that has nothing else to do. */
vi.setConfig({ testTimeout: 60_000 });

const log = RecordedLog.of(300);
const trust: Trust = { keys: [log.signer.key] };
let receipt: string;

const whyNot = (text: string | Uint8Array, given: Trust = trust): string => {
  const found = verifyReceipt(text, given);
  return found.ok ? 'it was believed' : found.why;
};

beforeAll(async () => {
  receipt = await log.receipt(257);
});

describe('a receipt', () => {
  it('is believed, and gives its record word for word', async () => {
    for (const index of [0, 1, 127, 255, 256, 257, 298, 299]) {
      const found = verifyReceipt(await log.receipt(index), trust);
      expect(found).toMatchObject({ ok: true, index, record: { index, tenant: 'cms' } });
      expect(found.ok && JSON.stringify(found.record)).toBe(log.openings[index]?.record);
    }
  });

  it('is believed of a log of one record, whose proof is empty', async () => {
    const one = RecordedLog.of(1);
    expect(verifyReceipt(await one.receipt(0), { keys: [one.signer.key] }).ok).toBe(true);
  });

  it('is not believed with any byte changed, removed or doubled', () => {
    const bytes = Buffer.from(receipt);
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at] as number;
      for (const other of [byte ^ 1, byte ^ 0x20, byte ^ 0x80, 0x0a]) {
        if (other === byte) continue;
        const changed = Buffer.from(bytes);
        changed[at] = other;
        expect(verifyReceipt(changed, trust).ok, `byte ${at} as ${other}`).toBe(false);
      }
      const [before, after] = [bytes.subarray(0, at), bytes.subarray(at + 1)];
      const removed = Buffer.concat([before, after]);
      expect(verifyReceipt(removed, trust).ok, `without byte ${at}`).toBe(false);
      const doubled = Buffer.concat([before, Buffer.of(byte, byte), after]);
      expect(verifyReceipt(doubled, trust).ok, `byte ${at} doubled`).toBe(false);
    }
  });

  it('may be changed in signatures of unknown keys only, which say nothing', async () => {
    const note = await log.checkpoint();
    const line = cosign(note, makeWitness('witness.example/unknown'));
    const bytes = Buffer.from(await log.receipt(257, `${note}${line}`));
    const free = bytes.length - Buffer.byteLength(line);
    let ignored = 0;
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (bytes[at] as number) ^ 1;
      const { ok } = verifyReceipt(changed, trust);
      if (ok) ignored += 1;
      expect(ok && at < free, `byte ${at}`).toBe(false);
    }
    // Its name, key id, time and signature.
    expect(ignored).toBeGreaterThan(100);
  });

  it('is not believed for another record, index, size or proof', async () => {
    const [one, other] = [parts(receipt), parts(await log.receipt(258))];
    const join = ({ lines, note }: ReturnType<typeof parts>) => `${lines.join('\n')}\n\n${note}`;
    expect(join(one)).toBe(receipt);
    for (const line of one.lines.keys()) {
      if (one.lines[line] === other.lines[line]) continue;
      const lines = one.lines.with(line, other.lines[line] as string);
      expect(whyNot(join({ ...one, lines })), lines[line]).not.toBe('it was believed');
    }
    const [proof, more] = [one.lines.slice(3), one.lines.slice(0, 3)];
    for (const lines of [
      [...more, ...proof.toReversed()],
      [...more, ...proof.slice(1)],
      [...more, ...proof, String(proof[0])],
      more,
    ]) {
      expect(whyNot(join({ ...one, lines }))).not.toBe('it was believed');
    }
    expect(whyNot(await log.receipt(257, await log.checkpoint(299)))).toMatch(/another|index/);
    expect(whyNot(await log.receipt(257, await log.checkpoint(200)))).toMatch(/had 200 records/);
  });

  it('is not believed when its record contradicts its place or its leaf', async () => {
    const openings = [openingOf(1), { ...openingOf(1), bucketTenant: openingOf(0).tenant }];
    const lying = new RecordedLog([...openings, openingOf(2, { bucketTenant: 'lab' })]);
    const given = { keys: [lying.signer.key] };
    expect(whyNot(await lying.receipt(0), given)).toMatch(/says that its index is 1/);
    expect(whyNot(await lying.receipt(1), given)).toMatch(/differ about the bucket's tenant/);
    expect(verifyReceipt(await lying.receipt(2), given).ok).toBe(true);
    const hidden = new RecordedLog([
      { ...openingOf(0, { bucketTenant: 'lab' }), bucketTenant: null },
    ]);
    expect(whyNot(await hidden.receipt(0), { keys: [hidden.signer.key] })).toMatch(/differ/);
  });

  it('is not believed when what the log has is no record', async () => {
    const strange = { toString: 1 };
    const changes: object[] = [
      { target: strange },
      { status: '200' },
      { tokens: 'x' },
      { time: 1 },
    ];
    for (const change of [...changes, { error: strange }, { principal: undefined }]) {
      const opening = openingOf(0);
      const record = canonicalize({ ...JSON.parse(opening.record), ...change });
      const odd = new RecordedLog([{ ...opening, record }]);
      expect(whyNot(await odd.receipt(0), { keys: [odd.signer.key] })).toMatch(/is not a record$/);
    }
  });

  it('is not believed with other extra data of the same meaning', () => {
    const { lines, note } = parts(receipt);
    const extra = Buffer.from(String(lines[1]).slice('extra '.length), 'base64').toString();
    const value = JSON.parse(extra);
    for (const other of [
      `${extra} `,
      `\ufeff${extra}`,
      JSON.stringify(value, null, 1),
      JSON.stringify({ t: value.t, salt: value.salt, record: value.record }),
      extra.replace('"salt"', '"salt":"x","salt"'),
      extra.replace('{"record"', '{"b":null,"record"'),
      extra.replace('{"record"', '{"evidence":null,"record"'),
      extra.replace('{"record"', '{"evidence":{},"record"'),
      extra.replace('"cms"', '"c\\u006ds"'),
      extra.replace('"size":5', '"size":5.0'),
      extra.replace('"t"', '"surplus":1,"t"'),
    ]) {
      expect(other).not.toBe(extra);
      const changed = lines.with(1, `extra ${Buffer.from(other).toString('base64')}`);
      expect(whyNot(`${changed.join('\n')}\n\n${note}`), other).not.toBe('it was believed');
    }
  });
});

describe("the log's key", () => {
  it('must have signed: no other counts, nor one of another log', async () => {
    const stranger = makeSigner(log.origin);
    expect(whyNot(receipt, { keys: [stranger.key] })).toMatch(/not signed with any key/);
    expect(whyNot(receipt, { keys: [makeSigner('bursar/other').key] })).toMatch(/gave no key/);
    expect(whyNot(receipt, { keys: [] })).toMatch(/gave no key/);
    const note = await log.checkpoint(300, [stranger]);
    expect(whyNot(await log.receipt(257, note))).toMatch(/bears the key id/);
    // The same key under another log's name.
    const other = { ...makeSigner('bursar/other'), privateKey: log.signer.privateKey };
    const posed = await log.checkpoint(300, [other]);
    expect(whyNot(await log.receipt(257, posed), { keys: [other.key] })).toMatch(/damaged|forged/);
  });

  it('does not count for a log of another origin', async () => {
    const other = makeSigner('bursar/other');
    const note = await log.checkpoint(300, [other]);
    expect(whyNot(await log.receipt(257, note), { keys: [other.key] })).toMatch(/cannot sign for/);
  });

  it('may have been rotated: receipts of before stay valid, by the key of before', async () => {
    const next = makeSigner(log.origin);
    const both = await log.receipt(257, await log.checkpoint(300, [next, log.signer]));
    for (const keys of [[log.signer.key], [next.key], [next.key, log.signer.key]]) {
      expect(verifyReceipt(both, { keys }).ok).toBe(true);
    }
    expect(verifyReceipt(receipt, { keys: [next.key, log.signer.key] }).ok).toBe(true);
    expect(whyNot(receipt, { keys: [next.key] })).toMatch(/not signed with any key/);
  });

  it('may have been revoked: then it counts no more, whoever gives it', async () => {
    const [next, revoked] = [makeSigner(log.origin), [log.signer.key]];
    const given = { keys: [log.signer.key, next.key], revoked };
    expect(whyNot(receipt, given)).toBe(
      `its checkpoint is signed with the key ${log.signer.key.id}, which was revoked`,
    );
    const both = await log.receipt(257, await log.checkpoint(300, [next, log.signer]));
    expect(verifyReceipt(both, given)).toMatchObject({ checkpoint: { keyIds: [next.key.id] } });
  });
});

describe('witnesses', () => {
  it('count when they signed, each once, and as many as are demanded', async () => {
    const [first, second, third] = ['one', 'two', 'three'].map((name) => makeWitness(name));
    if (!first || !second || !third) throw new Error('no witness');
    const note = await log.checkpoint();
    const seen = await log.receipt(257, note + cosign(note, first) + cosign(note, second, 0));
    const witnesses = [first.key, second.key, third.key];
    const found = verifyReceipt(seen, { ...trust, witnesses, witnessesMin: 2 });
    expect(found).toMatchObject({
      checkpoint: {
        witnesses: [
          { name: 'one', time: '2023-11-14T22:13:20.000Z' },
          { name: 'two', time: '1970-01-01T00:00:00.000Z' },
        ],
      },
    });
    expect(whyNot(seen, { ...trust, witnesses, witnessesMin: 3 })).toMatch(/^2 of your witnesses/);
    expect(whyNot(receipt, { ...trust, witnesses, witnessesMin: 1 })).toMatch(/^0 of your/);
    const twice = note + cosign(note, first) + cosign(note, first, 5);
    const doubled = { ...trust, witnesses: [first.key], witnessesMin: 2 };
    expect(whyNot(await log.receipt(257, twice), doubled)).toMatch(/^1 of your witnesses/);
  });

  it('make a receipt worthless where one of them signed another checkpoint', async () => {
    const witness = makeWitness('one');
    const line = cosign(await log.checkpoint(299), witness);
    const text = await log.receipt(257, (await log.checkpoint()) + line);
    expect(whyNot(text, { ...trust, witnesses: [witness.key] })).toMatch(/forged or damaged/);
    expect(verifyReceipt(text, trust).ok).toBe(true);
  });

  it('do not sign for the log', async () => {
    const witness = makeWitness(log.origin);
    const note = await log.checkpoint();
    const unsigned = note.slice(0, note.lastIndexOf('\n\n') + 2) + cosign(note, witness);
    const given = { keys: [], witnesses: [witness.key] };
    expect(whyNot(await log.receipt(257, unsigned), given)).toMatch(/gave no key/);
  });
});

describe('the parser', () => {
  it('never throws, and what it takes it gives back byte for byte', fuzzWith, fuzzTimeoutMs);

  it('refuses nesting that would exhaust the stack', () => {
    const { lines, note } = parts(receipt);
    const deep = Buffer.from(`${'['.repeat(500_000)}${']'.repeat(500_000)}`).toString('base64');
    const text = `${lines.with(1, `extra ${deep}`).join('\n')}\n\n${note}`;
    expect(parseReceipt(text)).toBeUndefined();
  });
});

async function fuzzWith(): Promise<void> {
  const pieces = ['{', '}', '[', ']', '"', ':', ',', '"t"', '"b"', '"salt"', '"record"', 'null'];
  const junk = [...pieces, '\\u0000', '\u2028', '1e999', '-0', '1E2', 'extra ', '\n', '—', 'A='];
  const { lines, note } = parts(receipt);
  const extra = Buffer.from(String(lines[1]).slice('extra '.length), 'base64').toString();
  await fuzz(4100, 300, (random) => {
    let text = extra;
    for (let edits = 1 + randomBelow(random, 4); edits > 0; edits -= 1) {
      const from = randomBelow(random, text.length);
      const to = Math.min(text.length, from + randomBelow(random, 6));
      text = text.slice(0, from) + randomOf(random, junk) + text.slice(to);
    }
    const made = `${lines.with(1, `extra ${Buffer.from(text).toString('base64')}`).join('\n')}`;
    const found = verifyReceipt(`${made}\n\n${note}`, trust);
    expect(found.ok).toBe(text === extra);
  });
}

function parts(text: string): { lines: string[]; note: string } {
  const blank = text.indexOf('\n\n');
  return { lines: text.slice(0, blank).split('\n'), note: text.slice(blank + 2) };
}
