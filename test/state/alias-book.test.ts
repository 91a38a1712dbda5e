// The names that grants bring to other tenants: which of several counts, how many there can be, and
// that nothing stays of those that are gone.
import { describe, expect, it } from 'vitest';
import type { Grant } from '#bursar/authz/grants/grant.js';
import { aliasesMax } from '#bursar/core/limits.js';
import { AliasBook } from '#bursar/state/alias-book.js';

function grant(name: string, alias: string | undefined, bucket = 'b', to = ['tenant:x']): Grant {
  const rule = { name, effect: 'allow', subjects: to, actions: ['s3:GetObject'], bucket } as const;
  return alias === undefined ? rule : { ...rule, alias };
}

describe('the aliases of grants', () => {
  it('are for the tenants of all subjects but the own one and anyone', () => {
    const book = new AliasBook();
    const to = ['principal:x/a', 'group:y/b', 'tenant:z', 'anyone', 'principal:cms/c'];
    book.add('cms', grant('g', 'cms-b', 'b', to));
    for (const tenant of ['x', 'y', 'z']) {
      expect(book.find(tenant, 'cms-b')).toMatchObject({ bucketTenant: 'cms', bucket: 'b' });
    }
    expect(book.find('cms', 'cms-b')).toBeUndefined();
    expect(book.find('x', 'cms-b')?.subjects).toEqual(['principal:x/a']);
    book.remove('cms', grant('g', 'cms-b', 'b', to));
    for (const tenant of ['x', 'y', 'z']) expect([...book.list(tenant)]).toEqual([]);
  });

  it('are of the tenant with the longest name that fits, whoever came first', () => {
    const book = new AliasBook();
    book.add('cms', grant('a', 'cms-raw-x'));
    expect(book.find('x', 'cms-raw-x')?.bucketTenant).toBe('cms');
    book.add('cms-raw', grant('z', 'cms-raw-x'));
    expect(book.find('x', 'cms-raw-x')?.bucketTenant).toBe('cms-raw');
    book.remove('cms-raw', grant('z', 'cms-raw-x'));
    expect(book.find('x', 'cms-raw-x')?.bucketTenant).toBe('cms');
  });

  it('stand for one bucket of a tenant, and are so many from one tenant to another', () => {
    const book = new AliasBook();
    book.add('cms', grant('g', 'cms-b'));
    expect(book.findFault('cms', grant('h', 'cms-b', 'c'))).toContain('The grant g');
    expect(book.findFault('cms', grant('h', 'cms-b'))).toBeUndefined();
    for (let i = 1; i < aliasesMax; i++) book.add('cms', grant(`g${i}`, `cms-${i}`));
    const more = grant('more', 'cms-more');
    expect(book.findFault('cms', more)).toContain('at most');
    expect(book.findFault('cms', { ...more, subjects: ['tenant:y'] })).toBeUndefined();
    expect(book.findFault('cms', grant('none', undefined))).toBeUndefined();
    expect(book.findFault('atlas', grant('more', 'atlas-more'))).toBeUndefined();
    book.remove('cms', grant('g1', 'cms-1'));
    expect(book.findFault('cms', more)).toBeUndefined();
  });
});
