// The report in a real browser, as it is laid out: light and dark, 1280 and 400 pixels wide.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { RecordSummary } from '#bursar/audit/record-summary.js';
import type { AuditRecord } from '#bursar/audit/verify/opening.js';
import { renderAuditPage } from '#bursar/cli/audit-report-page.js';
import { collectMeasures } from '#bursar/instruments/report/measures.js';
import { renderPage } from '#bursar/instruments/report/page.js';
import { makeReport } from '#bursar/instruments/report/report.js';
import {
  hostileSamples,
  probeSamples,
  trafficSamples,
} from '../instruments/report/report-samples.ts';
import { chromium, describeWithTool } from '../tooling/tools.ts';
import { Tab } from './devtools.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const looks = (['light', 'dark'] as const).flatMap((scheme) =>
  [1280, 400].map((widthPx) => ({ scheme, widthPx })),
);

const figures = [
  ...['bandwidth-read', 'bandwidth-write', 'daily-read', 'daily-write', 'hourly-read'],
  ...['hourly-write', 'one-byte-rate', 'latency', 'pairs-read', 'pairs-write', 'threads', 'parts'],
  ...['availability', 'cost', 'stages'],
];

/**
 * Of all visible text: its size, and its contrast with what is behind it (WCAG 2.2, 1.4.3). Of
 * drawings the paper is behind; their own shapes under text are not looked at.
 */
const measureText = `(() => {
  const parse = (color) => {
    const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number);
    return { rgb: [r, g, b], a };
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((one) => one / 255).map((one) => {
      return one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const { rgb, a } = parse(getComputedStyle(one).backgroundColor);
      if (a === 1) return rgb;
    }
    return [255, 255, 255];
  };
  for (const one of document.querySelectorAll('details')) one.open = true;
  const told = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    const element = walker.currentNode.parentElement;
    if (text === '' || ['TITLE', 'DESC', 'STYLE'].includes(element.tagName.toUpperCase())) continue;
    const style = getComputedStyle(element);
    const isDrawn = element.namespaceURI.endsWith('svg');
    const scale = isDrawn ? element.getScreenCTM() : null;
    // A turned text has its scale beside the diagonal.
    const factor = scale ? Math.hypot(scale.a, scale.b) : 1;
    const { rgb } = parse(isDrawn ? style.fill : style.color);
    const [high, low] = [luminance(rgb), luminance(behind(element))].sort((a, b) => b - a);
    const px = Number.parseFloat(style.fontSize) * factor;
    told.push({ text, px, contrast: (high + 0.05) / (low + 0.05) });
  }
  return told;
})()`;

/** Texts of a drawing that leave it, or lie upon each other. */
const findCollisions = `(() => {
  const found = [];
  for (const svg of document.querySelectorAll('figure > svg')) {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].map((one) => {
      return { text: one.textContent, box: one.getBoundingClientRect() };
    }).filter(({ text }) => text.trim() !== '');
    for (const [index, { text, box }] of boxes.entries()) {
      const isInside = box.left >= frame.left - 1 && box.right <= frame.right + 1;
      if (!isInside || box.bottom > frame.bottom + 1) {
        found.push(text + ' leaves ' + svg.parentElement.id);
      }
      for (const other of boxes.slice(index + 1)) {
        const width = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
        const height = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
        const place = ' in ' + svg.parentElement.id;
        if (width > 1 && height > 2) found.push(text + ' on ' + other.text + place);
      }
    }
  }
  return found;
})()`;

describeWithTool(chromium, 'the report, in Chromium', (path) => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-report-'));
  const url = pathToFileURL(join(folder, 'report.html')).href;
  let tab: Tab;

  beforeAll(async () => {
    tab = await Tab.open(path);
    await write([...probeSamples(), ...trafficSamples()]);
  });

  afterAll(async () => {
    await tab?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function write(samples: Parameters<typeof collectMeasures>[0]): Promise<void> {
    const report = makeReport(await collectMeasures(samples), Date.UTC(2026, 10, 21));
    writeFileSync(join(folder, 'report.html'), renderPage(report));
  }

  it.each(looks)('is read without effort, $scheme and $widthPx pixels wide', async (look) => {
    await tab.look(look);
    await tab.visit(url);
    const texts: { text: string; px: number; contrast: number }[] = await tab.evaluate(measureText);
    expect(texts.length).toBeGreaterThan(500);
    expect(texts.filter(({ px }) => px < 10)).toEqual([]);
    expect(texts.filter(({ contrast }) => contrast < 4.5)).toEqual([]);
    expect(await tab.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThan(1);
    expect(await tab.evaluate(findCollisions)).toEqual([]);
    const background = await tab.evaluate('getComputedStyle(document.body).backgroundColor');
    expect(background).toBe(look.scheme === 'light' ? 'rgb(255, 255, 255)' : 'rgb(20, 23, 27)');
  });

  it('has every plot, drawn, named and told in words and numbers', async () => {
    await tab.visit(url);
    const told: Record<string, string[]> = await tab.evaluate(`Object.fromEntries(
      [...document.querySelectorAll('figure')].map((one) => [one.dataset.figure, [
        one.querySelector('svg[role=img] title').textContent,
        one.querySelector('svg[role=img] desc').textContent,
        one.querySelector('figcaption').textContent,
        String(one.querySelectorAll(':scope > svg path').length),
        String(one.querySelectorAll('tbody tr').length),
      ]]))`);
    expect(Object.keys(told).sort()).toEqual([...figures].sort());
    for (const [title, says, caption, shapes, rows] of Object.values(told)) {
      expect([title, says].map((text) => (text ?? '').length > 5)).toEqual([true, true]);
      expect(caption).toMatch(/^n = [\d,]+ [a-z ]+, 2026-11-01 \d\d:\d\d to 2026-11-0\d/);
      expect(Number(shapes)).toBeGreaterThan(5);
      expect(Number(rows)).toBeGreaterThan(0);
    }
    const ids: string[] = await tab.evaluate(
      "[...document.querySelectorAll('[id]')].map((o) => o.id)",
    );
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('asks for nothing, complains of nothing and runs nothing, whatever samples say', async () => {
    await write(hostileSamples());
    tab.events.length = 0;
    await tab.visit(url);
    const of = (...methods: string[]) =>
      tab.events.filter(({ method }) => methods.includes(method)).map(({ params }) => params);
    expect(of('Network.requestWillBeSent').map(({ request }) => request.url)).toEqual([url]);
    expect(of('Log.entryAdded', 'Runtime.consoleAPICalled', 'Runtime.exceptionThrown')).toEqual([]);
    expect(of('Page.javascriptDialogOpening')).toEqual([]);
    expect(
      await tab.evaluate("document.querySelectorAll('script, img, iframe, [onerror]').length"),
    ).toBe(0);
    expect(await tab.evaluate("document.querySelector('h2 ~ h3').textContent")).toContain(
      '<script>',
    );
    expect(await tab.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThan(1);
  });

  const auditUrl = pathToFileURL(join(folder, 'audit.html')).href;

  it.each(looks)('of an audit is read without effort, $scheme, $widthPx wide', async (look) => {
    writeFileSync(join(folder, 'audit.html'), auditPage());
    await tab.look(look);
    tab.events.length = 0;
    await tab.visit(auditUrl);
    const texts: { px: number; contrast: number }[] = await tab.evaluate(measureText);
    expect(texts.length).toBeGreaterThan(200);
    expect(texts.filter(({ px, contrast }) => px < 10 || contrast < 4.5)).toEqual([]);
    expect(await tab.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThan(1);
    expect(await tab.evaluate("document.querySelectorAll('script, img, [onerror]').length")).toBe(
      0,
    );
    const asked = tab.events.filter(({ method }) => method === 'Network.requestWillBeSent');
    expect(asked.map(({ params }) => params.request.url)).toEqual([auditUrl]);
  });

  it('of an audit is printed whole, on a page of A4', async () => {
    await tab.look({ scheme: 'light', widthPx: 718 });
    await tab.visit(auditUrl);
    await tab.send('Emulation.setEmulatedMedia', { media: 'print' });
    expect(await tab.evaluate("document.querySelectorAll('.wide table').length")).toBe(5);
    expect(await tab.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThan(1);
    await tab.send('Emulation.setEmulatedMedia', { media: '' });
  });
});

/** Of a hundred people, one of whom has a name that is markup. */
function auditPage(): string {
  const summary = new RecordSummary();
  for (let index = 0; index < 100; index++) {
    summary.add(
      {
        ...{
          index,
          source: '192.0.2.7',
          time: '2026-11-01T00:00:00.000Z',
          tenant: 'cms',
          action: 's3:PutObject',
        },
        ...{ principal: index === 0 ? '<script>alert(1)</script>' : `person-${index}` },
        ...{ status: index % 7 === 0 ? 403 : 200, error: index % 7 === 0 ? 'AccessDenied' : null },
        ...{ bucket: `bucket-${index}`, key: 'k', bytesIn: 5, bytesOut: 0, evidence: 'none' },
      } as AuditRecord,
      0n,
    );
  }
  return renderAuditPage({
    ...{ tenant: 'cms', from: 0, to: 100, fromTime: null, toTime: null },
    ...{ madeAt: '2026-11-21 00:00 UTC', verified: ['All.'], notVerified: ['Nothing.'], summary },
  });
}
