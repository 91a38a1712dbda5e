// The page of a shared folder. Invariant: names are other people's texts: nothing in them becomes
// markup, turns the direction of what stands beside them, or leads out of the link. It has no
// scripts, and the browser is told to run none.
import { createHash } from 'node:crypto';
import type { Share } from '../../authz/shares.ts';
import { isoTime } from '../../core/clock.ts';

export interface PageEntry {
  name: string;
  /** Percent-encoded. */
  path: string;
}

export interface FileEntry extends PageEntry {
  sizeBytes: number;
  createdMs: number;
}

export interface Page {
  title: string;
  /** The path of this folder in what is shared; '' for all of it. */
  rest: string;
  share: Share;
  /** Path of the folder around this one; null: there is none. */
  up: string | null;
  folders: readonly PageEntry[];
  files: readonly FileEntry[];
  /** Path of the next page. */
  next: string | null;
}

const style = `
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
td, th { border-bottom: 1px solid #8884; padding: .3rem .5rem; text-align: left }
td + td, th + th { text-align: right; white-space: nowrap }
td:first-child { overflow-wrap: anywhere }
:root { color-scheme: light dark }
`;

const styleDigest = createHash('sha256').update(style).digest('base64');

/** The page's content security policy: its own style, and nothing else. */
export const pagePolicy =
  `default-src 'none'; style-src 'sha256-${styleDigest}'; base-uri 'none'; ` +
  "form-action 'none'; frame-ancestors 'none'";

/** HTML, complete. */
export function renderPage(page: Page): string {
  const { title, rest, share, up, folders, files, next } = page;
  const heading = escapeHtml(shown(rest === '' ? title : `${title}/${rest.slice(0, -1)}`));
  const rows = [
    ...(up === null ? [] : [row({ name: '..', path: up }, '', '')]),
    ...folders.map((entry) => row(entry, '', '')),
    ...files.map((entry) => row(entry, sizeOf(entry.sizeBytes), timeOf(entry.createdMs))),
  ];
  const table = `<table>
<tr><th>Name</th><th>Size</th><th>Modified (UTC)</th></tr>
${rows.join('\n')}
</table>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${heading}</title>
<style>${style}</style>
</head>
<body>
<h1><bdi>${heading}</bdi></h1>
<p>${escapeHtml(validity(share))}</p>
${rows.length === 0 ? '<p>This folder is empty.</p>' : table}
${next === null ? '' : `<p><a href="${escapeHtml(next)}">Next page</a></p>`}
</body>
</html>
`;
}

function validity({ expiresMs, downloads, downloadsMax }: Share): string {
  const until = `Open until ${timeOf(expiresMs)} UTC`;
  if (downloadsMax === null) return `${until}.`;
  return `${until}, for ${downloadsMax - downloads} of ${downloadsMax} downloads.`;
}

function row({ name, path }: PageEntry, size: string, time: string): string {
  const label = `<bdi>${escapeHtml(shown(name))}</bdi>`;
  const cell = isReachable(path) ? `<a href="${escapeHtml(path)}">${label}</a>` : label;
  return `<tr><td>${cell}</td><td>${size}</td><td>${time}</td></tr>`;
}

/** Browsers resolve such segments, encoded or not, and would ask for something else. */
function isReachable(path: string): boolean {
  return !path.split('/').some((segment) => segment === '.' || segment === '..');
}

/** What cannot be seen, or changes how the rest is seen. */
const deceptive = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

function shown(name: string): string {
  return name.replaceAll(deceptive, '\ufffd');
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => entities[character] as string);
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

function sizeOf(sizeBytes: number): string {
  let size = sizeBytes;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit++;
  }
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`;
}

/** `2026-11-20 22:51` */
function timeOf(timeMs: number): string {
  return isoTime(timeMs).slice(0, 16).replace('T', ' ');
}
