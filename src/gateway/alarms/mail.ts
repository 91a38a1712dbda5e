// Alarms as mail, by the operator's mail server. Invariants: a message goes to one address, which
// was allowed when it was set; nothing in it is anything but plain text; and the same alarms have
// the same Message-ID however often they are sent. Specifications: RFC 5321, RFC 5322, RFC 6068.
import { isLoopbackAddress } from '../../authz/oidc/address-policy.ts';
import { formatBytes } from '../../core/bytes-text.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { printable } from '../../core/printable.ts';
import { type Meter, perWindow } from '../../core/quota-terms.ts';
import { amountText } from '../../quota/cap-report.ts';
import { windowEndMs } from '../../quota/limits/windows.ts';
import { idOf, isStuckTarget, type Told } from './stuck-target.ts';

export interface MailSettings {
  /** `smtps://user:password@host:465`, or `smtp://host:587`, which goes on in TLS. */
  server: URL;
  /** Whom mails are from. */
  from: string;
  /** Domains whose addresses tenants' admins and members may name; operators name any. */
  domains: readonly string[];
}

export interface Mail {
  id: string;
  subject: string;
  text: string;
}

/** The longest that RFC 5321 lets a path be. */
const addressLengthMax = 254;
const addressForm = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@([a-z0-9-]+(?:\.[a-z0-9-]+)+)$/i;

export class Mailer {
  readonly #settings: MailSettings;
  readonly #attemptMs: number;

  constructor(settings: MailSettings, attemptMs: number) {
    this.#settings = settings;
    this.#attemptMs = attemptMs;
  }

  /** Whether a tenant may have its alarms sent to an address. */
  allows(address: string): boolean {
    return this.#settings.domains.includes(domainOf(address));
  }

  /**
   * Sends a mail once. Resolves when the server has taken it. Rejects with an Error for the
   * operator's log.
   */
  async send(address: string, { id, subject, text }: Mail, signal: AbortSignal): Promise<void> {
    // Loaded where it is used: most gateways have no mail server.
    const { createTransport } = await import('nodemailer');
    const transport = createTransport(this.#transport());
    try {
      const { from } = this.#settings;
      const messageId = `<${id}@${domainOf(from)}>`;
      // Told by no person, so that no out-of-office note comes back (RFC 3834).
      const headers = { 'auto-submitted': 'auto-generated' };
      const sent = transport.sendMail({ from, to: address, subject, text, messageId, headers });
      await orAborted(sent, signal);
    } finally {
      transport.close();
    }
  }

  #transport(): object {
    const { protocol, hostname, port, username, password } = this.#settings.server;
    const host = hostname.replace(/^\[(.*)\]$/, '$1');
    const secure = protocol === 'smtps:';
    const auth = { user: decodeURIComponent(username), pass: decodeURIComponent(password) };
    return {
      ...{ host, port: port === '' ? (secure ? 465 : 587) : Number(port), secure },
      // In plain text a password, and who is told what, goes no further than this machine.
      requireTLS: !isLoopbackAddress(host === 'localhost' ? '127.0.0.1' : host),
      ...(username !== '' && { auth }),
      ...{ connectionTimeout: this.#attemptMs, greetingTimeout: this.#attemptMs },
      ...{ socketTimeout: this.#attemptMs, dnsTimeout: this.#attemptMs },
      ...{ disableFileAccess: true, disableUrlAccess: true },
    };
  }
}

async function orAborted(sent: Promise<unknown>, signal: AbortSignal): Promise<void> {
  let onAbort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    signal.throwIfAborted();
    await Promise.race([sent, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
    // What comes after this concerns nobody.
    sent.catch(() => {});
  }
}

function domainOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1).toLowerCase();
}

/** The address of a `mailto:` URL; undefined: it is none. */
export function addressOf(url: string): string | undefined {
  return url.startsWith('mailto:') ? url.slice('mailto:'.length) : undefined;
}

export function isAddress(text: string): boolean {
  return text.length <= addressLengthMax && addressForm.test(text);
}

/** Throws `Refusal` InvalidInput unless mails may be sent there. */
export function checkAddress(
  address: string,
  { mailer, isOperator }: { mailer: Pick<Mailer, 'allows'> | null; isOperator: boolean },
): void {
  if (!isAddress(address)) throw invalid('must be an address such as mailto:alice@example.org.');
  if (!mailer) throw invalid('cannot be a mail address: the gateway has no mail server.');
  if (!isOperator && !mailer.allows(address)) {
    throw invalid(`must be in a domain that the operator allows: ${domainOf(address)} is none.`);
  }
}

function invalid(what: string): Refusal {
  const fields = { field: 'body.url' };
  return new Refusal('InvalidInput', { message: `body.url ${what}`, fields });
}

/** One mail for several alarms, the oldest first. */
export function mailOf(alarms: readonly Told[], instance: string): Mail {
  const [first] = alarms;
  if (!first) throw new Error('a mail of no alarm');
  const more = alarms.length === 1 ? '' : `, and ${alarms.length - 1} more`;
  const last = alarms.at(-1) ?? first;
  return {
    id: `bursar.${instance}.${idOf(first)}.${idOf(last)}.${alarms.length}`,
    subject: `Bursar: ${shortOf(first)}${more}`,
    text: `${alarms.map(linesOf).join('\n\n')}\n\nSent by Bursar.${recorded(alarms)}\n`,
  };
}

/** A mail by which it is tried whether they arrive. */
export function testMail(timeMs: number, instance: string): Mail {
  const id = `bursar.${instance}.test.${timeMs}`;
  const text = 'Alarms of limits will be sent to this address.\n\nSent by Bursar.\n';
  return { id, subject: 'Bursar: a trial, and no alarm', text };
}

/** What stuck is, `bursar target show` says. */
function recorded(alarms: readonly Told[]): string {
  return alarms.some(isStuckTarget) ? '' : ' Each is in the records.';
}

function shortOf(alarm: Told): string {
  if (isStuckTarget(alarm)) return `the target ${alarm.tenant}/${alarm.target} is stuck`;
  const { account, meter, window, percent } = alarm;
  // Keys may have line ends in them, and so the accounts of prefixes.
  return `${printable(account)} has used ${percent}% of ${meter}${perWindow(window)}`;
}

/** `3.0 MB of 5.0 MB (3000000 of 5000000)` */
function usedOf(meter: Meter, used: bigint, limit: bigint): string {
  const [exact, most] = [amountText(meter, used), amountText(meter, limit)];
  if (meter === 'spend') return `${exact} USD of ${most} USD`;
  if (!meter.endsWith('Bytes')) return `${exact} of ${most}`;
  const like = Number(limit);
  const short = `${formatBytes(Number(used), like)} of ${formatBytes(like, like)}`;
  return `${short} (${exact} of ${most})`;
}

function linesOf(alarm: Told): string {
  if (isStuckTarget(alarm)) {
    return [
      `${shortOf(alarm)}: what it is to be told of changes waits.`,
      `  reason: ${printable(alarm.reason)}`,
      `  time:   ${isoTime(alarm.timeMs)}`,
      `  see:    bursar target show ${alarm.tenant}/${alarm.target}`,
    ].join('\n');
  }
  const { id, meter, window, limit, used, beginMs, timeMs } = alarm;
  const endMs = window === 'total' ? Infinity : windowEndMs(window, beginMs);
  return [
    `${shortOf(alarm)}.`,
    `  used:   ${usedOf(meter, used, limit)}`,
    `  time:   ${isoTime(timeMs)}`,
    `  resets: ${Number.isFinite(endMs) ? isoTime(endMs) : 'never'}`,
    `  record: ${id}`,
  ].join('\n');
}
