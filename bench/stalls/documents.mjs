// The largest documents that the gateway takes (src/core/limits.ts).
import { createHmac, hash } from 'node:crypto';

export const many = (count, make) => Array.from({ length: count }, (_, i) => make(i));

/** A key of 1,024 bytes, a quarter of which are written as references. */
export const longKey = (i) => `${'k&lm'.repeat(254)}${String(i).padStart(8, '0')}`;

/** The digest that S3 asks for beside some documents. */
export function withDigest(body) {
  return { body, headers: { 'content-md5': hash('md5', body, 'base64') } };
}

/** A list of `count` parts with this tag; in the XML as it is. */
export function completion(count, etag) {
  const part = (i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${etag}</ETag></Part>`;
  return `<CompleteMultipartUpload>${many(count, part).join('')}</CompleteMultipartUpload>`;
}

/** Some 3.5 MB, nearly all of it references. */
export const escapedParts = completion(10_000, '&quot;'.repeat(55));
export const escapedPart = completion(1, '&quot;'.repeat(580_000));

export const deletion = `<Delete>${many(1000, (i) => {
  return `<Object><Key>${longKey(i).replaceAll('&', '&amp;')}</Key></Object>`;
}).join('')}</Delete>`;

export const lifecycle = `<LifecycleConfiguration>${many(1000, (i) => {
  const filter = `<Filter><Prefix>${'p'.repeat(800)}${i}/</Prefix></Filter>`;
  const days = `<Expiration><Days>${i + 1}</Days></Expiration>`;
  return `<Rule><ID>r${i}</ID>${filter}<Status>Enabled</Status>${days}</Rule>`;
}).join('')}</LifecycleConfiguration>`;

/** So many fit in 64 KiB. */
const corsHeaders = many(1850, (i) => `x${i.toString(36)}`);
const corsOf = (headers) => {
  const allowed = headers.map((name) => `<AllowedHeader>${name}</AllowedHeader>`).join('');
  const rest = '<AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>';
  return `<CORSConfiguration><CORSRule>${allowed}${rest}</CORSRule></CORSConfiguration>`;
};
export const cors = corsOf(corsHeaders);
export const shortCors = corsOf(['*']);

/** A preflight for the last hundred headers that the longer rules allow. */
export const preflightHeaders = {
  origin: 'https://page.example',
  'access-control-request-method': 'GET',
  'access-control-request-headers': corsHeaders.slice(-100).join(','),
};

/** 20 KB of patterns that backtrack. */
export const policyOf = (bucket) =>
  JSON.stringify({
    Version: '2012-10-17',
    Statement: [
      {
        Effect: 'Allow',
        Principal: '*',
        Action: 's3:GetObject',
        Resource: many(400, (i) => `arn:aws:s3:::${bucket}/*a*a*${i}`),
      },
    ],
  });

const tagSet = (count) => {
  const tag = (i) => {
    return `<Tag><Key>${String(i).padEnd(128, 'k')}</Key><Value>${'v'.repeat(256)}</Value></Tag>`;
  };
  return `<Tagging><TagSet>${many(count, tag).join('')}</TagSet></Tagging>`;
};
export const bucketTags = tagSet(50);
export const objectTags = tagSet(10);

export const metadata = { 'x-amz-meta-long': 'm'.repeat(2 * 1024 - 'long'.length) };

/** A session policy of 2,048 characters. */
export const sessionPolicy = (() => {
  const Resource = [];
  const render = () =>
    JSON.stringify({
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Action: 's3:GetObject', Resource }],
    });
  while (render().length < 2000) Resource.push(`arn:aws:s3:::*/*a*${Resource.length}`);
  Resource.pop();
  return render();
})();

const boundary = 'BoundaryOfTheBench';

/** A form with a policy of 6 KB and, of its 20 KB, what is left in fields that it names. */
export function postForm({ accessKeyId, secretAccessKey }, key) {
  const amzDate = new Date().toISOString().replace(/[-:]|\.\d{3}/g, '');
  const scope = [amzDate.slice(0, 8), 'us-east-1', 's3', 'aws4_request'];
  const plain = [
    ['key', key],
    ['x-amz-algorithm', 'AWS4-HMAC-SHA256'],
    ['x-amz-credential', [accessKeyId, ...scope].join('/')],
    ['x-amz-date', amzDate],
    ...many(50, (i) => [`x-amz-meta-m${i}`, 'm'.repeat(30)]),
  ];
  const policy = Buffer.from(
    JSON.stringify({
      expiration: new Date(Date.now() + 3_600_000).toISOString(),
      conditions: [['bucket'], ...plain].map(([name]) => ['starts-with', `$${name}`, '']),
    }),
  ).toString('base64');
  const signingKey = scope.reduce(
    (parent, part) => createHmac('sha256', parent).update(part).digest(),
    `AWS4${secretAccessKey}`,
  );
  const signature = createHmac('sha256', signingKey).update(policy).digest('hex');
  const fields = [...plain, ['policy', policy], ['x-amz-signature', signature]].map(
    ([name, value]) =>
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const disposition = 'Content-Disposition: form-data; name="file"; filename="f"';
  const file = `--${boundary}\r\n${disposition}\r\n\r\nx`;
  return {
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
    body: `${fields.join('')}${file}\r\n--${boundary}--\r\n`,
  };
}
