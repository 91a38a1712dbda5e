// What people see of a refusal of a website, where it has no document of its own for that.
// Invariant: what a request said is text in it, never markup, and no script runs there.
import { STATUS_CODES } from 'node:http';
import { Refusal } from '../../core/errors.ts';
import { echoedInXml } from '../http/echo.ts';
import type { DescribeRefusal } from '../http/reply.ts';
import { escapeXml } from '../http/xml.ts';
import { inertPolicy } from '../share/share-url.ts';

/** A refusal of which the website's own document cannot tell, and why. */
export class UntoldRefusal extends Refusal {
  readonly document: Refusal;

  constructor({ code, message, fields, headers }: Refusal, document: Refusal) {
    super(code, { message, fields, headers });
    this.document = document;
  }
}

/** As S3's website endpoints word it. */
export const describeInPage: DescribeRefusal = (refusal, { id, hostId }) => {
  const title = `${refusal.status} ${STATUS_CODES[refusal.status]}`;
  const items = [...itemsOf(refusal), ['RequestId', id], ['HostId', hostId]] as const;
  const untold =
    refusal instanceof UntoldRefusal
      ? '<h3>An Error Occurred While Attempting to Retrieve a Custom Error Document</h3>\n' +
        list(itemsOf(refusal.document))
      : '';
  return {
    headers: {
      ...refusal.headers,
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': inertPolicy,
      'x-amz-error-code': refusal.code,
      'x-amz-error-message': refusal.message.replace(/[^\x20-\x7e]/g, '?'),
    },
    text:
      `<html>\n<head><title>${title}</title></head>\n<body>\n<h1>${title}</h1>\n` +
      `${list(items)}${untold}<hr/>\n</body>\n</html>\n`,
  };
};

function itemsOf({ code, message, fields }: Refusal): (readonly [string, string])[] {
  return [['Code', code], ['Message', message], ...Object.entries(fields)];
}

function list(items: readonly (readonly [string, string])[]): string {
  const lines = items.map(([name, text]) => `<li>${name}: ${escapeXml(echoedInXml(text))}</li>\n`);
  return `<ul>\n${lines.join('')}</ul>\n`;
}
