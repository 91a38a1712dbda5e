// The form that asks for temporary keys, read strictly. Invariant: a parameter that is not known is
// refused, because it may have been a restriction (as `PolicyArns` is); and one that is given twice
// has no reading at all.
// Specification: "AssumeRoleWithWebIdentity" of the AWS STS API reference; the URL standard,
// section "application/x-www-form-urlencoded".
import { sessionPolicyLengthMax } from '../../authz/grants/bounds.ts';
import { tokenBytesMax } from '../../authz/tokens/bounds.ts';
import { Refusal } from '../../core/errors.ts';

export interface KeysRequest {
  /** Of the role's ARN. There are no roles: its tenant must be the token's, its name is free. */
  tenant: string;
  roleName: string;
  sessionName: string;
  token: string;
  /** A session policy's text; null: there is none. */
  policy: string | null;
  durationMs: number;
}

const parameterNames = [
  ...['Action', 'Version', 'RoleArn', 'RoleSessionName', 'WebIdentityToken'],
  ...['Policy', 'DurationSeconds'],
];
const pairsMax = 32;

/** Read in two steps, so that it is known whose form it is before the rest of it can be refused. */
export interface Form {
  /** The token, which is not verified. Throws `Refusal` InvalidAction or ValidationError. */
  readToken(): string;
  /** Throws the same. */
  read(): KeysRequest;
}

/** Throws `Refusal` ValidationError for what is no form. */
export function openForm(body: Buffer): Form {
  const form = parseForm(body.toString('latin1'));
  const token = form.get('WebIdentityToken');
  return {
    // Without one it may be another action's.
    readToken: () => (token === undefined ? readForm(form).token : readToken(token)),
    read: () => readForm(form),
  };
}

function readForm(form: ReadonlyMap<string, string>): KeysRequest {
  const { Action: action, Version: version, Policy: policy = null } = Object.fromEntries(form);
  if (action !== 'AssumeRoleWithWebIdentity' || version !== '2011-06-15') {
    const message = 'Only AssumeRoleWithWebIdentity of version 2011-06-15 is supported.';
    throw new Refusal('InvalidAction', { message });
  }
  for (const name of form.keys()) {
    if (!parameterNames.includes(name)) {
      throw invalid(`The parameter ${JSON.stringify(name.slice(0, 80))} is not supported`);
    }
  }
  if (policy !== null && policy.length > sessionPolicyLengthMax) {
    throw invalid(`Policy has more than ${sessionPolicyLengthMax} characters`);
  }
  return {
    ...readRole(form.get('RoleArn')),
    sessionName: readSessionName(form.get('RoleSessionName')),
    token: readToken(form.get('WebIdentityToken')),
    policy,
    durationMs: readDurationMs(form.get('DurationSeconds')),
  };
}

function invalid(what: string): Refusal {
  return new Refusal('ValidationError', { message: `${what}.` });
}

function parseForm(text: string): Map<string, string> {
  const form = new Map<string, string>();
  const pairs = text.split('&', pairsMax + 1).filter((pair) => pair !== '');
  if (pairs.length > pairsMax) throw invalid('There are too many parameters');
  for (const pair of pairs) {
    const [name = '', ...value] = pair.split('=');
    const decoded = decode(name);
    if (form.has(decoded)) throw invalid(`The parameter ${decoded.slice(0, 80)} is given twice`);
    form.set(decoded, decode(value.join('=')));
  }
  return form;
}

function decode(text: string): string {
  if (!/^[\x21-\x7e]*$/.test(text)) throw invalid('The body is not URL-encoded');
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw invalid('The body is not URL-encoded');
  }
}

const roleForm = /^arn:aws:iam::([a-z0-9][a-z0-9._-]{0,62}):role\/([\w+=,.@/-]{1,512})$/;

function readRole(arn = ''): Pick<KeysRequest, 'tenant' | 'roleName'> {
  const [, tenant, roleName] = roleForm.exec(arn) ?? [];
  if (tenant !== undefined && roleName !== undefined) return { tenant, roleName };
  throw invalid('RoleArn must be arn:aws:iam::TENANT:role/NAME');
}

function readSessionName(name = ''): string {
  if (/^[\w+=,.@-]{2,64}$/.test(name)) return name;
  throw invalid('RoleSessionName must have 2 to 64 letters, digits or _+=,.@-');
}

function readToken(text = ''): string {
  // SDKs send a token file as it is, with the line end that editors and shells leave there.
  const token = text.trim();
  if (token !== '' && token.length <= tokenBytesMax) return token;
  throw invalid(`WebIdentityToken must have 1 to ${tokenBytesMax} characters`);
}

const durationSecondsMin = 900;
const durationSecondsMax = 12 * 3600;

function readDurationMs(text = '3600'): number {
  const seconds = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (seconds >= durationSecondsMin && seconds <= durationSecondsMax) return seconds * 1000;
  throw invalid(`DurationSeconds must be ${durationSecondsMin} to ${durationSecondsMax}`);
}
