// A small price book as text, and the same with one thing changed.
export interface BookDraft {
  [member: string]: unknown;
}

export function draftBook(): BookDraft {
  const source = 'list';
  return {
    format: 'bursar-price-book/1',
    name: 'small',
    provider: 'aws',
    region: 'us-east-1',
    effective: '2026-01-01',
    currency: 'USD',
    sources: { list: { text: 'A list', date: '2026-01' } },
    ingress: { usdPerGb: [{ usd: '0' }], source },
    egress: { usdPerGb: [{ upToGb: 1, usd: '0' }, { usd: '0.09' }], source },
    classes: {
      STANDARD: {
        storage: { usdPerGbMonth: [{ upToGb: 50, usd: '0.023' }, { usd: '0.022' }], source },
        put: { usdPer1000: '0.005', source },
        get: { usdPer1000: '0.0004', source },
        retrieval: { usdPerGb: '0', source },
        minimum: { days: 0, bytes: 0, source },
      },
    },
  };
}

/** The text of a book in which `path` (`classes.STANDARD.put`) is `value`; undefined removes it. */
export function bookText(path?: string, value?: unknown): string {
  const book = draftBook();
  if (path !== undefined) {
    const names = path.split('.');
    const last = String(names.pop());
    let at = book;
    for (const name of names) at = at[name] as BookDraft;
    if (value === undefined) delete at[last];
    else at[last] = value;
  }
  return JSON.stringify(book);
}
