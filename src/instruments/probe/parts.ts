// Uploads of one object in parts, with 1 to N of them under way at a time (Yoon, Fig. 10).
// Invariant: each upload moves the same parts, so that only how many go side by side differs; one
// that fails is aborted.
// Specification: CreateMultipartUpload, UploadPart and CompleteMultipartUpload of the Amazon S3
// API.
import { ProbeLine } from './probe-line.ts';
import type { ProbeObject } from './probe-objects.ts';
import type { ProbeTarget } from './probe-target.ts';
import type { SeriesContext } from './series-context.ts';
import { attempt, measure, type Tries } from './transfer.ts';

export interface PartsOptions {
  /** Numbers of parts under way at a time, one upload for each. */
  parallel: readonly number[];
  partBytes: number;
}

interface Upload {
  context: SeriesContext;
  object: ProbeObject;
  id: string;
  partBytes: number;
  partCount: number;
  etags: string[];
}

type Outcome = { tries: Tries; cost: bigint };

/** Rejects as `measure` does. `step` resolves when the next upload may begin. */
export async function measureParts(
  context: SeriesContext,
  target: ProbeTarget,
  { parallel, partBytes }: PartsOptions,
  step: () => Promise<void>,
): Promise<void> {
  const partCount = Math.max(...parallel);
  for (const count of parallel) {
    await step();
    const lines = Array.from({ length: count }, () => new ProbeLine(target, context.line));
    const object = context.objects.next();
    const upload = { context, object, id: '', partBytes, partCount, etags: [] };
    await Promise.all(lines.map((line) => line.warm(context.signal)));
    const [first] = lines as [ProbeLine];
    const sizeBytes = partBytes * partCount;
    const measured = { series: 'parts', kind: 'write', sizeBytes, parallelParts: count } as const;
    try {
      const tries = await measure(context, first, measured, () => runUpload(upload, lines));
      await context.objects.remove(object.key, tries.answer);
    } finally {
      for (const line of lines) line.close();
    }
  }
}

/** The most retries that any of its requests took stand for all. */
async function runUpload(upload: Upload, lines: readonly ProbeLine[]): Promise<Outcome> {
  const { context, object } = upload;
  const [first] = lines as [ProbeLine];
  const outcomes: Outcome[] = [await begin(upload, first)];
  let isDone = false;
  try {
    if (outcomes[0]?.tries.error === null) {
      outcomes.push(...(await sendParts(upload, lines)));
      if (outcomes.every(({ tries }) => tries.error === null)) {
        outcomes.push(await complete(upload, first));
        isDone = outcomes.every(({ tries }) => tries.error === null);
      }
    }
  } finally {
    if (!isDone && upload.id !== '') await context.objects.abort(object.key, upload.id);
  }
  const all = outcomes.map(({ tries }) => tries);
  const last = all.find(({ error }) => error !== null) ?? (all.at(-1) as Tries);
  return {
    tries: { ...last, retries: Math.max(...all.map(({ retries }) => retries)) },
    cost: outcomes.reduce((sum, { cost }) => sum + cost, 0n),
  };
}

function begin(upload: Upload, line: ProbeLine): Promise<Outcome> {
  const { key } = upload.object;
  return attempt(upload.context, line, {
    work: { puts: 1 },
    exchange: () => ({ method: 'POST', key, query: [['uploads', '']], answerBytesMax: 0 }),
    check: ({ text }) => {
      upload.id = /<UploadId>([^<&]{1,1024})<\/UploadId>/.exec(text)?.[1] ?? '';
      if (upload.id === '') throw new Error('no upload id came');
    },
  });
}

async function sendParts(upload: Upload, lines: readonly ProbeLine[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  let next = 0;
  let hasFailed = false;
  const run = async (line: ProbeLine): Promise<void> => {
    while (next < upload.partCount && !hasFailed) {
      try {
        const outcome = await sendPart(upload, line, next++);
        outcomes.push(outcome);
        hasFailed ||= outcome.tries.error !== null;
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  for (const outcome of await Promise.allSettled(lines.map(run))) {
    if (outcome.status === 'rejected') throw outcome.reason;
  }
  return outcomes;
}

function sendPart(upload: Upload, line: ProbeLine, index: number): Promise<Outcome> {
  const { context, object, id, partBytes, etags } = upload;
  const query: [string, string][] = [
    ['partNumber', String(index + 1)],
    ['uploadId', id],
  ];
  return attempt(context, line, {
    work: { puts: 1, bytesIn: partBytes },
    exchange: () => ({
      method: 'PUT',
      key: object.key,
      query,
      sizeBytes: partBytes,
      body: context.content.body(object.number, index * partBytes, partBytes),
      answerBytesMax: 0,
    }),
    check: ({ headers: { etag } }) => {
      if (typeof etag !== 'string' || !/^"?[\w-]{1,128}"?$/.test(etag)) {
        throw new Error('no ETag came');
      }
      etags[index] = etag;
    },
  });
}

function complete({ context, object, id, etags }: Upload, line: ProbeLine): Promise<Outcome> {
  const parts = etags.map((etag, i) => {
    return `<Part><PartNumber>${i + 1}</PartNumber><ETag>${etag}</ETag></Part>`;
  });
  const body = Buffer.from(
    `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts.join('')}` +
      '</CompleteMultipartUpload>',
  );
  return attempt(context, line, {
    work: { puts: 1 },
    exchange: () => ({
      method: 'POST',
      key: object.key,
      query: [['uploadId', id]],
      headers: { 'content-type': 'application/xml' },
      sizeBytes: body.length,
      body,
      answerBytesMax: 0,
    }),
    // S3 can answer 200 and fail after that.
    check: ({ text }) => {
      if (!text.includes('CompleteMultipartUploadResult')) throw new Error('not completed');
    },
  });
}
