// What a setting of `bursar serve` is, and how its flag and its variable are called.

export interface Setting<T> {
  /** Key in the YAML file; the flag and the variable are made from it. */
  key: string;
  /** What the help shows for the value. */
  placeholder: string;
  description: string;
  /** The default as it would be given; absent: without a value there is none. */
  default?: string;
  /**
   * There is no flag, since other users of the machine can read those, and errors do not show the
   * value.
   */
  secret?: true;
  /** A flag without a value means yes. */
  isSwitch?: true;
  /**
   * A mapping in the file, its YAML text in the variable, and no flag. Error messages continue
   * after its name.
   */
  isMapping?: true;
  /** It has no key in the file: the config file cannot name itself. */
  notInFile?: true;
  /** The value of a text. Throws an Error that says what would have fitted. */
  parse(text: string): T;
}

/** A setting that always has a value. */
type DefaultSetting<T> = Setting<T> & { default: string };

export const setting = <T>(one: DefaultSetting<T>): DefaultSetting<T> => one;
export const optional = <T>(one: Setting<T>): Setting<T> => one;

/** `--stall-timeout` */
export function flagOf(one: Setting<unknown>): string {
  return `--${words(one.key).join('-')}`;
}

/** `BURSAR_STALL_TIMEOUT` */
export function variableOf(one: Setting<unknown>): string {
  return `BURSAR_${words(one.key).join('_').toUpperCase()}`;
}

function words(key: string): string[] {
  return key.split(/(?=[A-Z])/).map((word) => word.toLowerCase());
}
