// A document of HTML that needs no script, loads nothing and can be printed. Invariant: what comes
// from elsewhere is escaped by who writes the body.

/** The whole document. `body`: HTML. */
export function renderDocument(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeXml(title)}</title>
<style>${pageStyle}</style>
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`;
}

export function escapeXml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}

// The report's style sheet. Colours: text has a contrast of at least 4.5, lines of at least 3, in
// light and dark; the series are Okabe and Ito's colours, made darker or lighter for that.

export const pageStyle = `
:root{color-scheme:light dark;--paper:#fff;--ink:#1d2126;--soft:#555c66;--axis:#6b7280;
--grid:#e3e6ea;--edge:#c9ced6;--panel:#f5f6f8;--accent:#0067a8;
--series-0:#0072b2;--series-1:#c44e00;--series-2:#007a5a;--series-3:#a8327f;--series-4:#5b5b5b;
--series-5:#6b7280;
--font:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e6e9ed;--soft:#a7afba;
--axis:#8b94a1;--grid:#2a3037;--edge:#3b434d;--panel:#1c2127;--accent:#6cb8ee;
--series-0:#56b4e9;--series-1:#f0883e;--series-2:#2fc79a;--series-3:#e58bc4;--series-4:#c4c9d0;
--series-5:#8b94a1}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 var(--font)}
main{max-width:1080px;margin:0 auto;padding:24px 12px 48px}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 4px}
h2{font-size:1.3rem;margin:40px 0 4px;overflow-wrap:anywhere}
h3{font-size:1rem;margin:0 0 4px}
p{margin:0 0 8px;max-width:48rem}
a{color:var(--accent)}
.soft,figcaption{color:var(--soft);font-size:.875rem}
.limits{background:var(--panel);border:1px solid var(--edge);border-radius:6px;padding:16px}
.limits h2{margin-top:0}.limits h3{margin:16px 0 4px;overflow-wrap:anywhere}
.limits h4{margin:12px 0 4px;font-size:.875rem;color:var(--soft)}
.limits dl{display:grid;grid-template-columns:11rem minmax(0,1fr);gap:6px 16px;margin:0;
max-width:58rem}.limits dt{font-weight:600}.limits dd{margin:0;grid-column:2}
@media (max-width:640px){.limits dl{display:block}.limits dd{margin:0 0 8px}}
.limits .n{color:var(--soft);font-weight:400;font-size:.875rem}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));
gap:32px 28px;margin-top:20px}
figure{margin:0;min-width:0;break-inside:avoid}
figure>svg{display:block;width:100%;height:auto;max-width:520px}
.legend{display:flex;flex-wrap:wrap;gap:2px 14px;list-style:none;margin:0 0 4px;padding:0;
font-size:.8125rem}
.legend li{display:flex;align-items:center;gap:6px}.legend svg{flex:none;width:28px;height:12px}
details{margin-top:4px;font-size:.875rem}summary{cursor:pointer;color:var(--accent)}
.wide{overflow-x:auto}
.table{overflow-x:auto;max-height:24rem;overflow-y:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.8125rem}
th,td{padding:2px 10px 2px 0;text-align:right;white-space:nowrap;
border-bottom:1px solid var(--grid)}
th{font-weight:600;vertical-align:bottom}
th.word,td.word{text-align:left}
.missing{margin:24px 0 0;padding:0;list-style:none;font-size:.9375rem}
.missing li{margin:0 0 4px;overflow-wrap:anywhere}
code{font-family:ui-monospace,"SF Mono",Menlo,Consolas,monospace;font-size:.9em}
@media print{main{max-width:none;padding:0}.figures{grid-template-columns:1fr 1fr}
details>summary{display:none}h2{break-after:avoid}.table,.wide{max-height:none;overflow:visible}
th,td{white-space:normal;overflow-wrap:anywhere}}
`;
