// How the bench's sections write numbers and tables, on the page and on the terminal alike.

export function table({ head, rows }) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line), ''];
}

export function list(items) {
  return [...items.map((item) => `- ${item}`), ''];
}

export const times = (ratio) => `${ratio.toFixed(2)}×`;

/** A ratio with its lowest and highest. */
export const spread = ({ median, min, max }) =>
  `**${times(median)}** (${times(min)}–${times(max)})`;

/** A ratio with its confidence interval. */
export const interval = ({ median, low, high }) =>
  `**${median.toFixed(3)}** (${low.toFixed(3)}–${high.toFixed(3)})`;

/** Three significant digits, with thousands apart. */
export function number(value) {
  return Number(value.toPrecision(3)).toLocaleString('en', { maximumSignificantDigits: 3 });
}

export const count = (value) => value.toLocaleString('en');

export const percent = (share) => `${(share * 100).toFixed(2)}%`;
