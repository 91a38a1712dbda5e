// Lifecycle rules as clients write them: what is taken, what is refused and how, and that they come
// back as they went in.
import { describe, expect, it } from 'vitest';
import type { LifecycleRule } from '#bursar/catalog/lifecycle.js';
import { Refusal } from '#bursar/core/errors.js';
import { parseXml, renderXml } from '#bursar/gateway/http/xml.js';
import { lifecycleElements, parseLifecycle } from '#bursar/gateway/s3/buckets/lifecycle-xml.js';

const days = '<Expiration><Days>1</Days></Expiration>';
const enabled = '<Status>Enabled</Status>';

const archives = ['GLACIER', 'cold'];
const targetOf = (name: string) =>
  archives.includes(name) ? { class: 'cold', isArchive: true as const } : { class: name };
const shown = (name: string) => (name === 'cold' ? 'GLACIER' : name);

const read = (text: string): LifecycleRule[] =>
  parseLifecycle(parseXml(Buffer.from(text), 'LifecycleConfiguration'), targetOf);

function parse(...rules: string[]): LifecycleRule[] {
  const inner = rules.map((rule) => `<Rule>${rule}</Rule>`).join('');
  return read(`<LifecycleConfiguration>${inner}</LifecycleConfiguration>`);
}

function refusalOf(...rules: string[]): string {
  try {
    parse(...rules);
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
  return 'taken';
}

const filterOf = (filter: string) => `<Filter>${filter}</Filter>${enabled}${days}`;
const actionOf = (action: string) => `<Filter/>${enabled}${action}`;
const transitionOf = (when: string, name: string) =>
  `<Transition>${when}<StorageClass>${name}</StorageClass></Transition>`;
const noncurrentTransitionOf = (when: string, name: string) =>
  `<NoncurrentVersionTransition>${when}<StorageClass>${name}</StorageClass></NoncurrentVersionTransition>`;

describe('a rule', () => {
  it('has what it says', () => {
    const [rule] = parse(
      `<ID>old</ID><Filter><And><Prefix>a/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag>
       <Tag><Key>l</Key><Value></Value></Tag><ObjectSizeGreaterThan>10</ObjectSizeGreaterThan>
       <ObjectSizeLessThan>20</ObjectSizeLessThan></And></Filter><Status>Disabled</Status>
       <Expiration><Date>2030-01-01T00:00:00.000Z</Date></Expiration>
       <NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays>
       <NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration>`,
    );
    expect(rule).toEqual({
      id: 'old',
      isEnabled: false,
      filter: {
        prefix: 'a/',
        tags: [
          ['k', 'v'],
          ['l', ''],
        ],
        sizeAbove: 10,
        sizeBelow: 20,
      },
      expiration: { dateMs: Date.UTC(2030, 0, 1) },
      noncurrent: { days: 3, newerVersions: 2 },
    });
  });

  it('gets an id where it has none', () => {
    const rules = parse(filterOf(''), filterOf(''), `<ID></ID>${filterOf('')}`);
    expect(new Set(rules.map(({ id }) => id)).size).toBe(3);
    for (const { id } of rules) expect(id).toMatch(/^[0-9a-f-]{36}$/);
  });

  it.each([
    ['an empty filter', filterOf('')],
    ['a prefix', filterOf('<Prefix>a/</Prefix>')],
    ['an empty prefix', filterOf('<Prefix></Prefix>')],
    ['a tag', filterOf('<Tag><Key>k</Key><Value>v</Value></Tag>')],
    ['a least size', filterOf('<ObjectSizeGreaterThan>0</ObjectSizeGreaterThan>')],
    [
      'several conditions',
      filterOf('<And><Prefix>a</Prefix><Tag><Key>&amp;</Key><Value>é</Value></Tag></And>'),
    ],
    ['a prefix of its own', `<Prefix>a&lt;b</Prefix>${enabled}${days}`],
    [
      'markers that are alone',
      actionOf(
        '<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>',
      ),
    ],
    ['a date', actionOf('<Expiration><Date>2015-01-01</Date></Expiration>')],
    [
      'a date elsewhere',
      actionOf('<Expiration><Date>2015-01-01T01:00:00+01:00</Date></Expiration>'),
    ],
    [
      'transitions',
      actionOf(
        transitionOf('<Days>0</Days>', 'ONEZONE_IA') +
          transitionOf('<Days>90</Days>', 'GLACIER') +
          noncurrentTransitionOf('<NoncurrentDays>3</NoncurrentDays>', 'GLACIER') +
          noncurrentTransitionOf(
            '<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>2</NewerNoncurrentVersions>',
            'derived',
          ),
      ),
    ],
    ['a transition of a date', actionOf(transitionOf('<Date>2030-01-01</Date>', 'ONEZONE_IA'))],
    [
      'an abort',
      actionOf(
        '<AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation></AbortIncompleteMultipartUpload>',
      ),
    ],
  ])('comes back as it went in: %s', (_, text) => {
    const rules = parse(`<ID>r</ID>${text}`);
    const written = renderXml('LifecycleConfiguration', lifecycleElements(rules, shown));
    expect(read(written)).toEqual(rules);
  });
});

describe('a transition', () => {
  const nd = (days: number) => `<NoncurrentDays>${days}</NoncurrentDays>`;
  const two = (text: string) => transitionOf(text, 'a') + transitionOf('<Days>9</Days>', 'b');
  const expiring = (text: string) => `<Expiration>${text}</Expiration>`;
  it.each([
    ['neither days nor a date', 'MalformedXML', transitionOf('', 'a')],
    ['both', 'MalformedXML', transitionOf('<Days>1</Days><Date>2030-01-01</Date>', 'a')],
    ['no class', 'MalformedXML', '<Transition><Days>1</Days></Transition>'],
    ['what it cannot have', 'MalformedXML', transitionOf(nd(1), 'a')],
    ['less than no days', 'InvalidArgument', transitionOf('<Days>-1</Days>', 'a')],
    ['no midnight', 'InvalidArgument', transitionOf('<Date>2030-01-01T01:00:00Z</Date>', 'a')],
    ['no noncurrent days', 'MalformedXML', noncurrentTransitionOf('', 'a')],
    [
      'too many newer versions',
      'InvalidArgument',
      noncurrentTransitionOf(`${nd(1)}<NewerNoncurrentVersions>101</NewerNoncurrentVersions>`, 'a'),
    ],
    ['a class twice', 'InvalidRequest', two('<Days>1</Days>').replaceAll('>b<', '>a<')],
    ['an expiration before', 'InvalidArgument', two('<Days>1</Days>') + expiring('<Days>9</Days>')],
    [
      'days beside a date',
      'InvalidRequest',
      two('<Days>1</Days>') + expiring('<Date>2030-01-01</Date>'),
    ],
    [
      'a noncurrent expiration before',
      'InvalidArgument',
      noncurrentTransitionOf(nd(3), 'a') +
        `<NoncurrentVersionExpiration>${nd(3)}</NoncurrentVersionExpiration>`,
    ],
    ['what comes before', 'taken', two('<Days>1</Days>') + expiring('<Days>10</Days>')],
  ])('with %s: %s', (_, code, text) => {
    expect(refusalOf(actionOf(text))).toBe(code);
  });
});

describe('a document', () => {
  const expiration = (inner: string) => actionOf(`<Expiration>${inner}</Expiration>`);
  const noncurrent = (inner: string) =>
    actionOf(`<NoncurrentVersionExpiration>${inner}</NoncurrentVersionExpiration>`);
  const tag = '<Tag><Key>k</Key><Value>v</Value></Tag>';
  const abort =
    '<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>';

  it.each([
    ['no action', 'InvalidRequest', `<Filter/>${enabled}`],
    ['no filter and no prefix', 'MalformedXML', `${enabled}${days}`],
    ['both', 'MalformedXML', `<Prefix/><Filter/>${enabled}${days}`],
    ['no status', 'MalformedXML', `<Filter/>${days}`],
    ['a status in small letters', 'MalformedXML', `<Filter/><Status>enabled</Status>${days}`],
    ['an id that is too long', 'InvalidArgument', `<ID>${'a'.repeat(256)}</ID>${filterOf('')}`],
    ['an element that is not known', 'MalformedXML', `${filterOf('')}<Expire/>`],
    ['two conditions without And', 'MalformedXML', filterOf(`<Prefix>a</Prefix>${tag}`)],
    ['And of one condition', 'MalformedXML', filterOf('<And><Prefix>a</Prefix></And>')],
    ['And in And', 'MalformedXML', filterOf('<And><And/><And/></And>')],
    [
      'a condition twice',
      'MalformedXML',
      filterOf('<And><Prefix>a</Prefix><Prefix>b</Prefix></And>'),
    ],
    ['a tag twice', 'InvalidRequest', filterOf(`<And>${tag}${tag}</And>`)],
    ['a tag without a value', 'MalformedXML', filterOf('<Tag><Key>k</Key></Tag>')],
    ['a tag without a name', 'InvalidTag', filterOf('<Tag><Key></Key><Value>v</Value></Tag>')],
    [
      'a size that is none',
      'MalformedXML',
      filterOf('<ObjectSizeLessThan>-1</ObjectSizeLessThan>'),
    ],
    [
      'sizes that nothing has',
      'InvalidRequest',
      filterOf(
        '<And><ObjectSizeGreaterThan>9</ObjectSizeGreaterThan><ObjectSizeLessThan>9</ObjectSizeLessThan></And>',
      ),
    ],
    [
      'a prefix that is too long',
      'InvalidRequest',
      filterOf(`<Prefix>${'é'.repeat(513)}</Prefix>`),
    ],
    ['0 days', 'InvalidArgument', expiration('<Days>0</Days>')],
    ['fewer days', 'InvalidArgument', expiration('<Days>-1</Days>')],
    ['half a day', 'MalformedXML', expiration('<Days>0.5</Days>')],
    ['days and a date', 'MalformedXML', expiration('<Days>1</Days><Date>2030-01-01</Date>')],
    ['neither', 'MalformedXML', expiration('')],
    ['a date that is none', 'MalformedXML', expiration('<Date>20200101</Date>')],
    ['a day that is none', 'MalformedXML', expiration('<Date>2030-13-01</Date>')],
    ['noon', 'InvalidArgument', expiration('<Date>2030-01-01T12:00:00Z</Date>')],
    [
      'a switch that is none',
      'MalformedXML',
      expiration('<ExpiredObjectDeleteMarker>yes</ExpiredObjectDeleteMarker>'),
    ],
    ['0 noncurrent days', 'InvalidArgument', noncurrent('<NoncurrentDays>0</NoncurrentDays>')],
    [
      'no noncurrent days',
      'MalformedXML',
      noncurrent('<NewerNoncurrentVersions>1</NewerNoncurrentVersions>'),
    ],
    [
      'too many newer versions',
      'InvalidArgument',
      noncurrent(
        '<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>101</NewerNoncurrentVersions>',
      ),
    ],
    [
      'newer versions beside a plain prefix',
      'InvalidRequest',
      `<Prefix/>${enabled}<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>` +
        '<NewerNoncurrentVersions>1</NewerNoncurrentVersions></NoncurrentVersionExpiration>',
    ],
    ['an abort by tag', 'InvalidRequest', `<Filter>${tag}</Filter>${enabled}${abort}`],
    [
      'an abort by size',
      'InvalidRequest',
      `<Filter><ObjectSizeLessThan>1</ObjectSizeLessThan></Filter>${enabled}${abort}`,
    ],
    [
      'markers by tag',
      'InvalidRequest',
      `<Filter>${tag}</Filter>${enabled}<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>`,
    ],
  ])('is refused with %s: %s', (_, code, rule) => {
    expect(refusalOf(rule)).toBe(code);
  });

  it('is refused without rules, with one id twice, and with more than a thousand rules', () => {
    expect(refusalOf()).toBe('MalformedXML');
    expect(refusalOf(`<ID>a</ID>${filterOf('')}`, `<ID>a</ID>${filterOf('')}`)).toBe(
      'InvalidArgument',
    );
    expect(parse(...Array(1000).fill(filterOf('')))).toHaveLength(1000);
    expect(refusalOf(...Array(1001).fill(filterOf('')))).toBe('InvalidRequest');
  });
});
