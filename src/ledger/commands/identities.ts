// The commands that change who there is and what they may.
import * as classes from './classes.ts';
import * as grants from './grants.ts';
import * as groups from './groups.ts';
import type { IdentityCommand } from './identity-command.ts';
import * as issuers from './issuers.ts';
import * as keys from './keys.ts';
import * as mounts from './mounts.ts';
import * as principals from './principals.ts';
import * as targets from './targets.ts';
import * as tenants from './tenants.ts';
import * as tokens from './tokens.ts';

export const identityCommands = {
  ...tenants,
  ...principals,
  ...groups,
  ...keys,
  ...grants,
  ...mounts,
  ...issuers,
  ...targets,
  ...classes,
  ...tokens,
};

export type IdentityChange = {
  [K in keyof typeof identityCommands]: (typeof identityCommands)[K] extends IdentityCommand<
    infer C
  >
    ? C
    : never;
}[keyof typeof identityCommands];

export function identityCommandOf(change: IdentityChange): IdentityCommand<IdentityChange> {
  return identityCommands[change.kind] as IdentityCommand<IdentityChange>;
}
