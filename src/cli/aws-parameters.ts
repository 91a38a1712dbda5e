// Texts of others in commands that are printed to be pasted: a name that somebody has given must
// not become a command, a flag or a file of who pastes it, nor steer their terminal.

/**
 * Parameters of a command of the AWS CLI, as a POSIX shell takes them for one word. The CLI reads
 * files and URLs for parameters that begin with `file://` or `http://`, but not within this JSON,
 * which is ASCII.
 */
export function awsParameters(parameters: Readonly<Record<string, unknown>>): string {
  const json = JSON.stringify(parameters).replace(
    /[^ -~]|'/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return `--cli-input-json '${json}'`;
}
