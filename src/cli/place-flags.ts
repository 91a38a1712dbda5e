// The flags of commands that are told where backups are.
import type { Command } from 'commander';

export function addPlaceFlags(command: Command): Command {
  return command
    .option('--s3-endpoint <url>', 'S3 server of s3:// (default: of AWS)')
    .option('--s3-region <region>', 'its region')
    .option('--s3-path-style', 'its bucket goes into the path, not into the host name')
    .option('--s3-profile <name>', 'profile of the AWS configuration files with its credentials');
}
