// Who holds leases: each thread of a run of the gateway is a holder of its own, by number. In the
// database the first has the name of the run alone, as the only one had before there were several,
// and the others `RUN/1`, `RUN/2`. Names of runs have no slash.

export class HolderNames {
  readonly run: string;
  readonly #names: string[] = [];

  constructor(run: string) {
    this.run = run;
  }

  nameOf(holder: number): string {
    this.#names[holder] ??= holder === 0 ? this.run : `${this.run}/${holder}`;
    return this.#names[holder];
  }

  /** Whether that is a holder of this run. */
  has(name: string): boolean {
    return name === this.run || name.startsWith(`${this.run}/`);
  }
}
