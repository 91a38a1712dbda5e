// What of a bucket's settings is another when they are put back.
import { expect, it } from 'vitest';
import { putBackSettings } from '#bursar/catalog/put-back-settings.js';

const moment = { seq: 7, timeMs: 5000 };

it('tells of what comes from now on, where the log began anew', () => {
  const rule = { id: 'a', target: 'hook', arn: 'x', events: ['s3:*'], prefix: '', suffix: '' };
  const told = { by: 'cms/alice', since: 900, rules: [{ ...rule, since: 800 }] };
  const { notification = '' } = putBackSettings({ notification: JSON.stringify(told) }, moment);
  expect(JSON.parse(notification)).toEqual({ ...told, since: 7, rules: [{ ...rule, since: 7 }] });
  const earlier = JSON.stringify({ ...told, since: 5, rules: [{ ...rule, since: 3 }] });
  expect(putBackSettings({ notification: earlier }, moment)).toEqual({ notification: earlier });
});

it('begins a window anew, but for one that is there as it was', () => {
  const undelete = JSON.stringify({ windowMs: 60_000, sinceMs: 1000 });
  const begun = JSON.stringify({ windowMs: 60_000, sinceMs: 5000 });
  expect(putBackSettings({ undelete, cors: 'x' }, moment)).toEqual({ undelete: begun, cors: 'x' });
  expect(putBackSettings({ undelete }, moment, { undelete })).toEqual({ undelete });
});
