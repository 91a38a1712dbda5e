// Resolves modules of the built gateway to others, in all of its threads: what
// bench/without-*/preload.mjs registers (`module.register`), so that what a part costs can be
// measured where it is not. Nothing in the gateway itself can do that.
let replaced = [];

/**
 * @param {{folder: string, modules: Record<string, string>}} data `modules` names, by the end of a
 *   module's URL, the file that stands for it
 */
export function initialize({ folder, modules }) {
  replaced = Object.entries(modules).map(([end, file]) => ({
    end,
    url: new URL(file, folder).href,
  }));
}

export async function resolve(specifier, context, next) {
  const resolved = await next(specifier, context);
  // Ours import what they stand for.
  if (replaced.some(({ url }) => url === context.parentURL)) return resolved;
  const found = replaced.find(({ end }) => resolved.url.endsWith(end));
  return found ? { ...resolved, url: found.url } : resolved;
}
